/** The client: one session at a time, agreed when it is first needed, and a `fetch` that seals. */

import { SealwayError } from "../wire/error.js";
import type { Fetch, Signal } from "../wire/platform.js";
import type { CompatClient, CompatSession } from "./compat.js";
import { NativeClient } from "./native.js";
import {
  type CallMetrics,
  type ClientOptions,
  type SessionInfo,
  type Settings,
  settingsOf,
} from "./options.js";
import { platformProvider } from "./platform.js";
import { callOf } from "./request.js";
import type { NativeSession } from "./session.js";
import { type Sessions, Slot } from "./slot.js";
import { abortable } from "./transport.js";

export interface Client {
  /** As the platform's `fetch`, through the seal. Relative URLs lead to the authority. It may be used on its own. */
  readonly fetch: Fetch;
  /** Agrees a session if there is none, and says what it is. */
  connect(signal?: Signal): Promise<SessionInfo>;
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

interface AnySession {
  readonly info: SessionInfo;
  readonly life: { readonly isUsable: boolean; readonly isOver: boolean };
}

/** What a client works with: the exchanges of its wire. */
type Exchanges =
  | { readonly wire: 3; readonly native: NativeClient }
  | { readonly wire: 1 | 2; readonly compat: CompatClient };

class SealedClient implements Client {
  readonly #settings: Settings;
  readonly #onMetrics: (metrics: CallMetrics) => void;
  readonly #slot: Slot<AnySession>;
  #exchanges: Promise<Exchanges> | undefined;

  constructor(options: ClientOptions) {
    this.#settings = settingsOf(options);
    this.#onMetrics = (metrics) => options.onMetrics?.(metrics);
    const onSession = (session: AnySession | undefined) => options.onSession?.(session?.info);
    this.#slot = new Slot<AnySession>((old) => about(this.#settings.url, this.#agree(old)), onSession);
  }

  readonly fetch: typeof fetch = (input, init) => about(this.#settings.serverUrl, this.#call(input, init));

  async #call(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const call = await callOf(this.#settings.serverUrl, input, init);
    call.signal?.throwIfAborted();
    const exchanges = await this.#get();
    const sessions: Sessions<AnySession> = {
      get: () => abortable(this.#slot.get(), call.signal),
      drop: (session) => this.#slot.drop(session),
    };
    // A client has sessions of one wire alone.
    return exchanges.wire === 3
      ? exchanges.native.call(call, sessions as Sessions<NativeSession>)
      : exchanges.compat.call(call, sessions as Sessions<CompatSession>);
  }

  async connect(signal?: Signal): Promise<SessionInfo> {
    return (await abortable(this.#slot.get(), signal)).info;
  }

  get session(): SessionInfo | undefined {
    const now = this.#slot.peek();
    return now === undefined || now.life.isOver ? undefined : now.info;
  }

  async end(): Promise<void> {
    const now = this.#slot.take();
    if (now === undefined || now.life.isOver) return;
    const exchanges = await this.#get();
    if (exchanges.wire === 3) await about(this.#settings.url, exchanges.native.end(now as NativeSession));
  }

  clear(): void {
    this.#slot.take();
    this.#exchanges = undefined;
  }

  #get(): Promise<Exchanges> {
    this.#exchanges ??= this.#make().catch((error) => {
      // What could not be loaded may be there the next time.
      this.#exchanges = undefined;
      throw error;
    });
    return this.#exchanges;
  }

  async #make(): Promise<Exchanges> {
    const provider = await platformProvider();
    const { wire } = this.#settings;
    if (wire === 3) return { wire, native: new NativeClient(provider, this.#settings, this.#onMetrics) };
    const { CompatClient } = await import("./compat.js");
    return { wire, compat: new CompatClient(provider, this.#settings, this.#onMetrics) };
  }

  async #agree(old: AnySession | undefined): Promise<AnySession> {
    const exchanges = await this.#get();
    if (exchanges.wire !== 3) return exchanges.compat.agree();
    if (old !== undefined) {
      try {
        return await exchanges.native.agree(old as NativeSession);
      } catch (error) {
        // Whatever speaks against a renewal, an init may still do; not where nobody answers.
        if (!(error instanceof SealwayError) || error.blame === "network") throw error;
        if (error.code === "session_expired") this.#slot.drop(old);
      }
    }
    return exchanges.native.agree();
  }
}

/** Has an error name the service that it is about, unless it names one. */
function about<T>(url: URL, done: Promise<T>): Promise<T> {
  return done.catch((error) => {
    if (error instanceof SealwayError) error.origin ??= url.origin;
    throw error;
  });
}
