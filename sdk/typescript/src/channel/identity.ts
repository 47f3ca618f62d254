import { keyPair } from "./agreement.js";
import { type Bytes, b64u, unb64u } from "./encoding.js";
import { ChannelError } from "./error.js";
import { wire } from "./noise/state.js";
import { Secret } from "./secret.js";
import type { Curve } from "./suite.js";

/**
 * A static key of this side, for grants that pin the peers' keys: what takes the control plane out of those to be trusted.
 * It shows nothing where it is printed.
 */
export class Identity {
  readonly #private: Secret;

  private constructor(key: Secret) {
    this.#private = key;
  }

  /** Draws one. */
  static draw(curve: Curve): Identity {
    const bytes = crypto.getRandomValues(new Uint8Array(32));
    // Beyond the order of P-256 every number begins so.
    while (curve === "P256" && bytes.subarray(0, 4).every((byte) => byte === 0xff))
      crypto.getRandomValues(bytes);
    return new Identity(new Secret(bytes));
  }

  /** Reads what `encode` wrote. @throws ChannelError `key_invalid`. */
  static parse(encoded: string): Identity {
    const bytes = typeof encoded === "string" ? unb64u(encoded.trim()) : undefined;
    if (bytes?.length !== 32) {
      const what = "a static key is none: give what Identity.encode wrote";
      throw new ChannelError("handshake", "key_invalid", what);
    }
    return new Identity(new Secret(bytes));
  }

  /** The private key in base64url: a secret. */
  encode(): string {
    return b64u(this.#private.reveal());
  }

  /** The public half in base64url, as grants pin it. @throws ChannelError `key_invalid`. */
  async public(curve: Curve): Promise<string> {
    return b64u(wire(await keyPair(curve, this.#private.reveal())));
  }

  /** @internal A copy for one handshake. */
  private(): Secret {
    return new Secret(this.#private.reveal().slice() as Bytes);
  }
}
