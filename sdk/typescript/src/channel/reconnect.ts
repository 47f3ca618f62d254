/** Another channel when one ends: new grants, and waits between attempts that grow and differ from side to side. */
import type { Channel } from "./channel.js";
import { attach, type ChannelOptions, drawInstance } from "./connect.js";
import type { Grants } from "./control.js";
import { ChannelError } from "./error.js";

/** Waits between attempts: each is random between nothing and a bound that doubles. In ms. */
export interface Backoff {
  /** The bound of the first wait; 250 ms unless said. */
  readonly firstMs: number;
  /** The bound of any wait; 30 s unless said. */
  readonly maxMs: number;
  /** An attempt, or a channel, that lasted this long makes the next wait the first again; 10 s unless said. */
  readonly settledMs: number;
}

/** What is said of attempts, and what tests put in their place. */
export interface Attempting {
  readonly backoff?: Partial<Backoff>;
  /** Hears of each failure, and of the longest wait before the next attempt, in ms. */
  readonly failed?: (why: ChannelError, waitMaxMs: number) => void;
  readonly signal?: AbortSignal;
  readonly random?: () => number;
  readonly sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly nowMs?: () => number;
}

/** Counts attempts and waits between them. */
export class Attempts {
  readonly #backoff: Backoff;
  readonly #how: Attempting;
  #failures = 0;
  #sinceMs: number | undefined;

  constructor(how: Attempting = {}) {
    this.#backoff = { firstMs: 250, maxMs: 30_000, settledMs: 10_000, ...how.backoff };
    this.#how = how;
  }

  /** The bound of the wait after the failures so far, in ms. */
  get waitMaxMs(): number {
    if (this.#failures === 0) return 0;
    return Math.min(this.#backoff.firstMs * 2 ** Math.min(this.#failures - 1, 40), this.#backoff.maxMs);
  }

  /**
   * Makes one attempt after another until one succeeds.
   * @throws ChannelError the first failure that does not pass by itself, or `cancelled`.
   */
  async untilOneSucceeds<T>(attempt: () => Promise<T>): Promise<T> {
    const now = this.#how.nowMs ?? (() => performance.now());
    // What ends at once each time is as good as a failure.
    const hasLasted = this.#sinceMs === undefined || now() - this.#sinceMs >= this.#backoff.settledMs;
    this.#failures = hasLasted ? 0 : this.#failures + 1;
    this.#sinceMs = undefined;
    for (;;) {
      const wait = this.waitMaxMs * (this.#how.random ?? Math.random)();
      if (wait > 0) await (this.#how.sleep ?? sleep)(wait, this.#how.signal);
      if (this.#how.signal?.aborted)
        throw new ChannelError("connect", "cancelled", "whoever asked takes it back");
      const begun = now();
      try {
        const made = await attempt();
        this.#sinceMs = now();
        if (now() - begun >= this.#backoff.settledMs) this.#failures = 0;
        return made;
      } catch (error) {
        if (!(error instanceof ChannelError) || !error.isPassing) throw error;
        this.#failures = now() - begun >= this.#backoff.settledMs ? 0 : this.#failures + 1;
        this.#how.failed?.(error, this.waitMaxMs);
      }
    }
  }

  /** What was made last has served its end: no wait comes before the next. */
  served(): void {
    this.#failures = 0;
    this.#sinceMs = undefined;
  }
}

/** How long an end that connects waits for a listener that has a grant: it may have died since it asked for it. */
const PEER_TIME_MS = 15_000;

/** An end that connects: one channel at a time, made when it is first needed and again after it has ended. */
export class Connector {
  readonly #grants: Grants;
  readonly #options: ChannelOptions;
  readonly #attempts: Attempts;
  readonly #signal: AbortSignal | undefined;
  #channel: Channel | undefined;
  #making: Promise<Channel> | undefined;

  /** Nothing is done before `channel`. */
  constructor(grants: Grants, options: ChannelOptions = {}, attempting: Attempting = {}) {
    this.#grants = grants;
    this.#signal = attempting.signal;
    this.#options = { peerTimeoutMs: PEER_TIME_MS, instance: drawInstance(), ...options };
    this.#attempts = new Attempts(attempting);
  }

  /**
   * The channel, or another one where it has ended. Those who ask at the same time wait for the same attempts.
   * @throws ChannelError what does not pass by itself.
   */
  channel(): Promise<Channel> {
    if (this.#channel !== undefined && !this.#channel.isOver) return Promise.resolve(this.#channel);
    this.#making ??= this.#attempts
      .untilOneSucceeds(async () => await attach(await this.#grants(this.#signal), this.#with()))
      .then((channel) => {
        this.#channel = channel;
        return channel;
      })
      .finally(() => {
        this.#making = undefined;
      });
    return this.#making;
  }

  #with(): ChannelOptions {
    return this.#signal === undefined ? this.#options : { ...this.#options, signal: this.#signal };
  }
}

/** An end that listens: each peer that comes has a channel of its own. */
export class Listener {
  readonly #grants: Grants;
  readonly #options: ChannelOptions;
  readonly #attempts: Attempts;
  readonly #signal: AbortSignal | undefined;

  /** Nothing is done before `accept`. */
  constructor(grants: Grants, options: ChannelOptions = {}, attempting: Attempting = {}) {
    this.#grants = grants;
    this.#signal = attempting.signal;
    const failed = (why: ChannelError, waitMs: number): void => {
      // That nobody came for as long as a grant lasts is how a listener spends its time.
      if (why.stage !== "attach" || why.code !== "init_expired") attempting.failed?.(why, waitMs);
    };
    this.#options = { instance: drawInstance(), ...options };
    this.#attempts = new Attempts({ ...attempting, failed });
  }

  /**
   * Waits for the next peer, and makes another attempt whenever one fails.
   * @throws ChannelError what does not pass by itself.
   */
  async accept(): Promise<Channel> {
    const options = this.#signal === undefined ? this.#options : { ...this.#options, signal: this.#signal };
    const once = async (): Promise<Channel> => await attach(await this.#grants(this.#signal), options);
    const channel = await this.#attempts.untilOneSucceeds(once);
    // The next peer is another one: it must not wait because this one came just now.
    this.#attempts.served();
    return channel;
  }
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });
}
