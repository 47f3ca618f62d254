/** The client: one session at a time, agreed when it is first needed, and a `fetch` that seals. */
import type { Provider } from "../crypto/provider.js";
import { SealwayError } from "../wire/error.js";
import type { Agreed } from "./agreed.js";
import { Old } from "./old.js";
import {
  type CallMetrics,
  type ClientOptions,
  type SessionInfo,
  type Settings,
  settingsOf,
} from "./options.js";
import { platformProvider } from "./platform.js";
import { callOf } from "./request.js";
import { Slot } from "./slot.js";
import { Three } from "./three.js";
import { abortable } from "./transport.js";

export interface Client {
  /** As the platform's `fetch`, through the seal. Relative URLs lead to the authority. It may be used on its own. */
  readonly fetch: typeof fetch;
  /** Agrees a session if there is none, and says what it is. */
  connect(signal?: AbortSignal): Promise<SessionInfo>;
  /** The session in use; none before the first call, and once it is over. */
  readonly session: SessionInfo | undefined;
  /** Has the service forget the session (wire 3), and forgets it here. */
  end(): Promise<void>;
  /** Forgets all that is kept here: session, keys, what was learnt. The service is told nothing. */
  clear(): void;
}

/**
 * Makes a client. Nothing is sent before it is used.
 *
 * @throws {SealwayError} `configuration`.
 */
export function createClient(options: ClientOptions): Client {
  return new SealedClient(options);
}

interface Wired {
  readonly info: SessionInfo;
  readonly life: { readonly isUsable: boolean; readonly isOver: boolean };
}

class SealedClient implements Client {
  readonly #settings: Settings;
  readonly #onMetrics: (metrics: CallMetrics) => void;
  readonly #slot: Slot<Wired>;
  #wires: Promise<{ three: Three; old: Old }> | undefined;

  constructor(options: ClientOptions) {
    this.#settings = settingsOf(options);
    this.#onMetrics = (metrics) => options.onMetrics?.(metrics);
    const onSession = (wired: Wired | undefined) => options.onSession?.(wired?.info);
    this.#slot = new Slot<Wired>((old) => this.#agree(old), onSession);
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const call = await callOf(this.#settings.url, input, init);
    call.signal?.throwIfAborted();
    const { three, old } = await this.#get();
    const session = (not?: Wired) => abortable(this.#slot.get(not), call.signal);
    if (this.#settings.wire !== 3) return old.call(call, session as Parameters<Old["call"]>[1]);
    return three.call(call, session as (not?: Wired) => Promise<Agreed>);
  };

  async connect(signal?: AbortSignal): Promise<SessionInfo> {
    return (await abortable(this.#slot.get(), signal)).info;
  }

  get session(): SessionInfo | undefined {
    const now = this.#slot.peek();
    return now === undefined || now.life.isOver ? undefined : now.info;
  }

  async end(): Promise<void> {
    const now = this.#slot.take();
    if (now === undefined || now.life.isOver || this.#settings.wire !== 3) return;
    const { three } = await this.#get();
    await three.end(now as Agreed);
  }

  clear(): void {
    this.#slot.take();
    this.#wires = undefined;
  }

  #get(): Promise<{ three: Three; old: Old }> {
    this.#wires ??= platformProvider().then((provider) => this.#make(provider));
    return this.#wires;
  }

  #make(provider: Provider): { three: Three; old: Old } {
    return {
      three: new Three(provider, this.#settings, this.#onMetrics),
      old: new Old(provider, this.#settings, this.#onMetrics),
    };
  }

  async #agree(old: Wired | undefined): Promise<Wired> {
    const { three, old: early } = await this.#get();
    if (this.#settings.wire !== 3) return early.agree();
    if (old !== undefined) {
      try {
        return await three.agree(old as Agreed);
      } catch (error) {
        // Whatever speaks against a renewal, an init may still do.
        if (!(error instanceof SealwayError)) throw error;
      }
    }
    return three.agree();
  }
}
