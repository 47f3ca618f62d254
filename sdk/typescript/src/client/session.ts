/** A session in use, with its clock. */
import type { CompatClientSession } from "../session/compat/client.js";
import type { ClientSession } from "../session/native/client-init.js";
import type { Suite } from "../session/native/suite.js";
import { type Moment, passedMs, steadyMs } from "./clock.js";
import type { SessionInfo } from "./options.js";

/** In the last tenth of its life, a minute at most, a session is to be renewed. */
const RENEW_BEFORE_MS_MAX = 60_000;

/** The parts of a session's description that do not depend on its life. */
export type Traits = Omit<SessionInfo, "id" | "expiresInSec" | "expiresAt" | "remainingMs">;

/** The life of a session, by the longer of two clocks: after the machine slept, the session is over. */
export class Life {
  readonly info: SessionInfo;
  readonly #lifeMs: number;
  readonly #begin: Moment;

  /** `begin` is the moment at which its init was sent. */
  constructor(begin: Moment, id: string, expiresInSec: number, traits: Traits) {
    this.#lifeMs = expiresInSec * 1000;
    this.#begin = begin;
    const expiresAt = begin[0] + this.#lifeMs;
    const remainingMs = () => this.remainingMs();
    this.info = Object.freeze({ id, expiresInSec, expiresAt, remainingMs, ...traits });
  }

  remainingMs(): number {
    return Math.max(0, this.#lifeMs - passedMs(this.#begin));
  }

  /** True until the session should be renewed. */
  get isUsable(): boolean {
    return this.remainingMs() > Math.min(this.#lifeMs / 10, RENEW_BEFORE_MS_MAX);
  }

  get isOver(): boolean {
    return this.remainingMs() === 0;
  }
}

/** A session of wire 1 or 2 in use. */
export interface CompatSession {
  readonly session: CompatClientSession;
  readonly life: Life;
}

/** A session of wire 3 in use. */
export class NativeSession {
  readonly session: ClientSession;
  readonly life: Life;
  #serverMs: number;
  #saidAt: number;

  /** `begin` is the moment at which its init was sent; the answer arrived at `arrivedMs` of the steady clock. */
  constructor(session: ClientSession, begin: Moment, arrivedMs: number) {
    const { suite, keyId, auth, subject, tenant, expiresInSec, serverTimeMs } = session.agreed;
    const traits = { wire: 3, suite: suite as Suite, keyId, auth, subject, tenant } as const;
    this.session = session;
    this.life = new Life(begin, session.id, expiresInSec, traits);
    this.#serverMs = serverTimeMs;
    this.#saidAt = arrivedMs;
  }

  /** The server's clock, as this session knows it: what the server said, and what has passed since. */
  stampMs(): number {
    return Math.floor(this.#serverMs + (steadyMs() - this.#saidAt));
  }

  /** Takes the server's time, which its mac has proven. */
  setClock(serverMs: number): void {
    this.#serverMs = serverMs;
    this.#saidAt = steadyMs();
  }
}
