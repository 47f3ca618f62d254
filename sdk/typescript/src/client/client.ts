/** The client: one session at a time, agreed when it is first needed, and a `fetch` that seals. */

import { SealwayError } from "../wire/error.js";
import type { Fetch, Signal } from "../wire/platform.js";
import { steadyMs } from "./clock.js";
import type { CompatClient } from "./compat.js";
import { NativeClient } from "./native.js";
import { type ClientOptions, type SessionInfo, type Settings, settingsOf } from "./options.js";
import { platformProvider } from "./platform.js";
import { callOf } from "./request.js";
import { type CompatSession, Life, type NativeSession } from "./session.js";
import { type Sessions, Slot } from "./slot.js";
import { about, UNANSWERED } from "./stage.js";
import { abortable, Transport } from "./transport.js";

export interface Client {
  /** Sends a sealed request; arguments and result are those of the platform's `fetch`. It needs no `this`. */
  readonly fetch: Fetch;
  /** Agrees a session if there is none, and returns it. */
  connect(signal?: Signal): Promise<SessionInfo>;
  /** The session in use; absent before the first call and after its end. */
  readonly session: SessionInfo | undefined;
  /** Ends the session, at the service too (wire 3). */
  end(): Promise<void>;
  /** Forgets the session and the identity keys, without a request. */
  clear(): void;
}

/**
 * Makes a client. It sends nothing before its first use.
 *
 * @throws {SealwayError} `usage`.
 */
export function createClient(options: ClientOptions): Client {
  return new SealedClient(options);
}

interface AnySession {
  readonly life: Life;
}

/** The exchanges of a client, by its wire. */
type Exchanges =
  | { readonly wire: 3; readonly native: NativeClient }
  | { readonly wire: 1 | 2; readonly compat: CompatClient };

class SealedClient implements Client {
  readonly #settings: Settings;
  readonly #transport: Transport;
  readonly #slot: Slot<AnySession>;
  #exchanges: Promise<Exchanges> | undefined;

  constructor(options: ClientOptions) {
    this.#settings = settingsOf(options);
    const { onSession } = this.#settings;
    this.#transport = new Transport(this.#settings);
    this.#slot = new Slot<AnySession>(
      (old) => this.#agree(old),
      (session) => onSession?.(session?.life.info),
    );
  }

  readonly fetch: typeof fetch = (input, init) => about(this.#settings.url, this.#call(input, init));

  async #call(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const endsAt = this.#endsAt();
    const call = await callOf(this.#settings.url, endsAt, input, init);
    call.signal?.throwIfAborted();
    const exchanges = await this.#get();
    const sessions: Sessions<AnySession> = {
      get: () => this.#session(endsAt, call.signal),
      drop: (session) => this.#slot.drop(session),
    };
    // A client has sessions of one wire alone.
    return exchanges.wire === 3
      ? exchanges.native.call(call, sessions as Sessions<NativeSession>)
      : exchanges.compat.call(call, sessions as Sessions<CompatSession>);
  }

  /** The moment of the steady clock at which a call that begins now times out. */
  #endsAt(): number {
    return steadyMs() + (this.#settings.totalTimeoutMs || Infinity);
  }

  #session(endsAt: number, signal?: AbortSignal): Promise<AnySession> {
    const { authorityUrl } = this.#settings;
    return about(
      authorityUrl,
      abortable(this.#slot.get(), signal, endsAt - steadyMs(), authorityUrl.host),
      true,
    );
  }

  async connect(signal?: Signal): Promise<SessionInfo> {
    return (await this.#session(this.#endsAt(), signal)).life.info;
  }

  get session(): SessionInfo | undefined {
    const life = this.#slot.peek()?.life;
    return life?.isOver ? undefined : life?.info;
  }

  async end(): Promise<void> {
    const now = this.#slot.take();
    if (now === undefined || now.life.isOver) return;
    const exchanges = await this.#get();
    if (exchanges.wire === 3)
      await about(
        this.#settings.authorityUrl,
        exchanges.native.end(now as NativeSession, this.#endsAt()),
        true,
      );
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
    if (wire === 3) return { wire, native: new NativeClient(provider, this.#settings, this.#transport) };
    const { CompatClient } = await import("./compat.js");
    return { wire, compat: new CompatClient(provider, this.#settings, this.#transport) };
  }

  async #agree(old: AnySession | undefined): Promise<AnySession> {
    const exchanges = await this.#get();
    if (exchanges.wire !== 3) {
      const { session, begin, traits } = await exchanges.compat.agree();
      return { session, life: new Life(begin, session.id, session.expiresInSec, traits) } as AnySession;
    }
    if (old !== undefined) {
      try {
        return await exchanges.native.agree(old as NativeSession);
      } catch (error) {
        // An init may succeed where a renewal was rejected; not where nothing answers.
        if (!(error instanceof SealwayError) || UNANSWERED.test(error.code)) throw error;
        if (error.code === "session_expired") this.#slot.drop(old);
      }
    }
    return exchanges.native.agree();
  }
}
