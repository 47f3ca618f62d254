/** A session in use, with its clock. */
import type { ClientSession } from "../session/native/client-init.js";
import type { Suite } from "../session/native/suite.js";
import { type Moment, passedMs, steadyMs } from "./clock.js";
import type { SessionInfo } from "./options.js";

/** In the last tenth of its life, a minute at most, a session is to be renewed. */
const RENEW_BEFORE_MS_MAX = 60_000;

/** How long a session lasts, by the longer of two clocks: a machine that slept finds it over. */
export class Life {
  readonly expiresAt: number;
  readonly #lifeMs: number;
  readonly #begin: Moment;

  /** `begin` is when its answer came. */
  constructor(begin: Moment, expiresInSec: number) {
    this.#lifeMs = expiresInSec * 1000;
    this.#begin = begin;
    this.expiresAt = begin[0] + this.#lifeMs;
  }

  remainingMs(): number {
    return Math.max(0, this.#lifeMs - passedMs(this.#begin));
  }

  /** Whether it lasts a while yet. */
  get isUsable(): boolean {
    return this.remainingMs() > Math.min(this.#lifeMs / 10, RENEW_BEFORE_MS_MAX);
  }

  get isOver(): boolean {
    return this.remainingMs() === 0;
  }
}

/** A session of wire 3 in use. */
export class NativeSession {
  readonly session: ClientSession;
  readonly life: Life;
  readonly info: SessionInfo;
  #serverMs: number;
  #saidAt: number;

  constructor(session: ClientSession, arrived: Moment) {
    const { agreed } = session;
    this.session = session;
    this.life = new Life(arrived, agreed.expiresInSec);
    this.#serverMs = agreed.serverTimeMs;
    this.#saidAt = arrived[0];
    const { life } = this;
    this.info = Object.freeze({
      id: session.id,
      wire: 3,
      suite: agreed.suite as Suite,
      expiresInSec: agreed.expiresInSec,
      expiresAt: life.expiresAt,
      remainingMs: () => life.remainingMs(),
      keyId: agreed.keyId,
      auth: agreed.auth,
      ...(agreed.subject !== undefined && { subject: agreed.subject }),
      ...(agreed.tenant !== undefined && { tenant: agreed.tenant }),
    });
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
