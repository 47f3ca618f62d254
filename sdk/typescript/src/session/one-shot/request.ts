/** The secrets of one request of wire 4 (`spec/one-shot.md`, The request). */
import type { MacKey, Provider } from "../../crypto/provider.js";
import { concat, utf8, wipe } from "../../wire/bytes.js";
import { fields } from "../../wire/fields.js";
import type { Seal } from "../native/call.js";
import type { ServerShareKeys } from "../native/suite.js";
import { encapsulate, type Kem, type Psk, setup } from "./hpke.js";

/** A public key of a service, of a KEM that this SDK has. */
export interface SealingKey {
  /** Key name, 32 hexadecimal digits. */
  readonly keyId: string;
  readonly kem: Kem;
  readonly publicKey: Uint8Array;
}

/**
 * Makes what one request is sealed under. `drawn` is for this request alone, also when a request is sent again.
 *
 * @throws {SealwayError} `public_key_invalid`.
 */
export async function sealTo(
  provider: Provider,
  { keyId, kem, publicKey }: SealingKey,
  psk: Psk | undefined,
  drawn: ServerShareKeys,
): Promise<Seal> {
  const { enc, secret } = await encapsulate(provider, kem, publicKey, drawn);
  const pskId = utf8(psk?.id ?? "");
  const exported = await setup(provider, kem, secret, fields("sealway/4", keyId, pskId), psk);
  const keyOf = async (name: string): Promise<MacKey> => {
    const bytes = await exported(name);
    const key = await provider.macKey(bytes);
    wipe(bytes);
    return key;
  };
  const [c2s, s2c] = await Promise.all([keyOf("sealway/4 c2s"), keyOf("sealway/4 s2c")]);
  const mode = psk === undefined ? 0 : 1;
  const prefix = concat(Uint8Array.of(mode, pskId.length), pskId, enc);
  return { wire: 4, id: keyId, keys: { c2s, s2c }, prefix };
}
