/** Another channel when one ends: new grants, and waits between attempts that grow and differ from side to side. */
import type { Signal } from "../wire/platform.js";
import type { Channel } from "./channel.js";
import { check, checkOptions } from "./check.js";
import { attach, type ChannelOptions, drawInstance } from "./connect.js";
import { awaitsClients, type Grants } from "./control.js";
import { ChannelError } from "./error.js";
import type { Grant } from "./grant.js";

/** Waits between attempts: each is random between nothing and a bound that doubles. In ms. */
export interface Backoff {
  /** The bound of the first wait. Default: 250 ms. */
  readonly firstMs: number;
  /** The bound of any wait. Default: 30 s. */
  readonly maxMs: number;
  /** An attempt, or a channel, that lasted this long makes the next wait the first again. Default: 10 s. */
  readonly settledMs: number;
}

/** Options of reconnection; tests replace randomness, sleep and clock. */
export interface ReconnectOptions {
  readonly backoff?: Partial<Backoff>;
  /** Hears of each failure, and of the longest wait before the next attempt, in ms. */
  readonly failed?: (why: ChannelError, waitMaxMs: number) => void;
  readonly signal?: Signal;
  readonly random?: () => number;
  readonly sleep?: (ms: number, signal?: Signal) => Promise<void>;
  readonly nowMs?: () => number;
}

/** Counts attempts and waits between them. */
export class Attempts {
  readonly #backoff: Backoff;
  readonly #how: ReconnectOptions;
  #failures = 0;
  #sinceMs: number | undefined;

  constructor(how: ReconnectOptions = {}) {
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
      if (this.#how.signal?.aborted) throw new ChannelError("connect", "cancelled", "the caller cancelled");
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

  /**
   * An attempt failed: waits before the next one, and tells of it.
   * @throws ChannelError what does not pass by itself.
   */
  async wait(why: ChannelError): Promise<void> {
    if (!why.isPassing) throw why;
    this.#failures++;
    this.#how.failed?.(why, this.waitMaxMs);
    await (this.#how.sleep ?? sleep)(this.waitMaxMs * (this.#how.random ?? Math.random)(), this.#how.signal);
  }

  /** Marks the last attempt as served: no wait precedes the next one. */
  served(): void {
    this.#failures = 0;
    this.#sinceMs = undefined;
  }
}

/**
 * How long an end waits for the first word of its peer. Both are given their grants at the same time: one that says nothing for so
 * long is not there.
 */
const PEER_TIME_MS = 5_000;
/** Peers of a listener that have a grant and are not there yet: clients beyond wait at the control plane. */
const SHAKING_MAX = 64;

function checkReconnecting(grants: Grants, options: ChannelOptions, attempting: ReconnectOptions): void {
  check.needs(
    typeof grants === "function",
    "grants",
    grants,
    "what controlGrants returns, or a function of your own",
  );
  checkOptions(options);
  check.object(attempting, "attempting");
  check.functions(attempting, "failed", "random", "sleep", "nowMs");
  check.signal(attempting.signal);
  if (attempting.backoff === undefined) return;
  check.object(attempting.backoff, "backoff");
  check.numbers(attempting.backoff, 0, false, "firstMs", "maxMs", "settledMs");
}

/** An end that connects: one channel at a time, made when it is first needed and again after it has ended. */
export class Connector {
  readonly #grants: Grants;
  readonly #options: ChannelOptions;
  readonly #attempts: Attempts;
  readonly #signal: AbortSignal | undefined;
  #channel: Channel | undefined;
  #making: Promise<Channel> | undefined;

  /** Nothing is done before `channel`. */
  constructor(grants: Grants, options: ChannelOptions = {}, attempting: ReconnectOptions = {}) {
    checkReconnecting(grants, options, attempting);
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

/** An event of a listener. */
type Event = { readonly grant: Grant } | { readonly channel: Channel } | { readonly why: ChannelError };

/**
 * An end that listens: each peer that comes has a channel of its own. It goes on waiting at the control plane while it shakes hands
 * with peers, so that one that says nothing holds up no other.
 */
export class Listener {
  readonly #grants: Grants;
  readonly #options: ChannelOptions;
  readonly #attempts: Attempts;
  readonly #attempting: ReconnectOptions;
  readonly #shaking = new Set<Promise<Event>>();
  readonly #shakingMax: number;
  #asking: Promise<Event> | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  /** Nothing is done before `accept`. */
  constructor(grants: Grants, options: ChannelOptions = {}, attempting: ReconnectOptions = {}) {
    checkReconnecting(grants, options, attempting);
    this.#grants = grants;
    this.#attempting = attempting;
    this.#options = {
      peerTimeoutMs: PEER_TIME_MS,
      instance: drawInstance(),
      ...options,
      ...(attempting.signal === undefined ? {} : { signal: attempting.signal }),
    };
    this.#attempts = new Attempts(attempting);
    this.#shakingMax = awaitsClients(grants) ? SHAKING_MAX : 1;
  }

  /**
   * Waits for the next peer, and makes another attempt whenever one fails. Calls wait for each other.
   * @throws ChannelError what does not pass by itself.
   */
  accept(): Promise<Channel> {
    const accepted = this.#turn.then(() => this.#accept());
    this.#turn = accepted.catch(() => undefined);
    return accepted;
  }

  async #accept(): Promise<Channel> {
    for (;;) {
      if (this.#attempting.signal?.aborted)
        throw new ChannelError("connect", "cancelled", "the caller cancelled");
      if (this.#asking === undefined && this.#shaking.size < this.#shakingMax)
        this.#asking = told(this.#grants(this.#attempting.signal).then((grant) => ({ grant })));
      const asking = this.#asking === undefined ? [] : [this.#asking];
      const [of, event] = await Promise.race(
        [...asking, ...this.#shaking].map(async (each) => [each, await each] as const),
      );
      if (of === this.#asking) {
        this.#asking = undefined;
        if ("why" in event) await this.#attempts.wait(event.why);
      } else {
        this.#shaking.delete(of);
        if ("why" in event && !isAbsence(event.why)) {
          // Where the next grant is waited for already, a client decides when the next attempt comes.
          if (this.#asking === undefined || !event.why.isPassing) await this.#attempts.wait(event.why);
          else this.#attempting.failed?.(event.why, 0);
        }
      }
      if ("channel" in event) {
        this.#attempts.served();
        return event.channel;
      }
      if ("grant" in event) {
        this.#shaking.add(told(attach(event.grant, this.#options).then((channel) => ({ channel }))));
      }
    }
  }
}

/** True if a peer did not use its grant, which this side cannot change. */
function isAbsence(why: ChannelError): boolean {
  if (why.stage === "attach") return why.code === "init_expired" || why.code === "idle_timeout";
  return why.stage === "handshake" && why.code === "timeout";
}

/** Runs a step and turns its failure into an event. */
async function told(event: Promise<Event>): Promise<Event> {
  try {
    return await event;
  } catch (error) {
    if (error instanceof ChannelError) return { why: error };
    return { why: new ChannelError("grant", "grant_invalid", "no grant is to be had", error) };
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
