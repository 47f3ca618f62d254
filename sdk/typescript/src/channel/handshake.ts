import type { Bytes } from "./encoding.js";
import { ofHandshake } from "./error.js";
import { NoiseHandshake } from "./noise/handshake.js";
import type { Opener, Sealer } from "./record.js";
import type { ChannelSettings, HandshakeRandoms } from "./settings.js";
import { V1Client } from "./v1/client.js";
import { V1Server } from "./v1/server.js";

/** An end of a channel. The client begins the handshake. */
export type Role = "client" | "server";

/** The next step after a message of the peer: a message to send, if any, and the end of the handshake. */
export interface Progress {
  readonly send?: Bytes;
  readonly isDone: boolean;
}

/** One profile's half of a handshake. */
export interface Steps {
  /** Returns the message that is sent before any is read. */
  begin(): Promise<Bytes | undefined>;
  read(message: Bytes, nowS: number): Promise<Progress>;
  records(): { readonly sealer: Sealer; readonly opener: Opener } | undefined;
}

/**
 * A handshake, without a connection and without a clock: messages and times go in, messages and at last keys come out.
 * Any failure is its end. SPEC channel.md#v1-handshake, channel.md#native-handshake
 */
export class Handshake {
  readonly #steps: Steps;
  #state: "new" | "running" | "busy" | "done" | "over" = "new";

  constructor(role: Role, settings: ChannelSettings, randoms: HandshakeRandoms) {
    const { suite } = settings;
    if (suite.profile === "native") this.#steps = new NoiseHandshake(role, settings, suite, randoms);
    else if (role === "client") this.#steps = new V1Client(settings, suite, randoms);
    else this.#steps = new V1Server(settings, suite, randoms);
  }

  /**
   * What is sent first: nothing by the server.
   * @throws ChannelError `handshake_state`, `key_invalid`, `peer_key_invalid`.
   */
  async begin(): Promise<Bytes | undefined> {
    return await this.#step("new", "running", () => this.#steps.begin());
  }

  /**
   * One message of the peer, read at `nowS`, seconds of the epoch.
   * @throws ChannelError of the stage `handshake`, or `record` for the record that confirms the keys.
   */
  async read(message: Bytes, nowS: number): Promise<Progress> {
    const progress = await this.#step("running", "running", () => this.#steps.read(message, nowS));
    if (progress.isDone) this.#state = "done";
    return progress;
  }

  /**
   * Both directions' keys, once.
   * @throws ChannelError `handshake_state` before the end.
   */
  records(): { readonly sealer: Sealer; readonly opener: Opener } {
    const records = this.#state === "done" ? this.#steps.records() : undefined;
    this.#state = "over";
    if (records === undefined) throw ofHandshake("handshake_state", "keys before the end of the handshake");
    return records;
  }

  async #step<T>(from: "new" | "running", to: "running", step: () => Promise<T>): Promise<T> {
    if (this.#state !== from) throw ofHandshake("handshake_state", "a step that the handshake is not at");
    this.#state = "busy";
    try {
      const result = await step();
      this.#state = to;
      return result;
    } catch (error) {
      this.#state = "over";
      throw error;
    }
  }
}
