/** Options of the circuit breaker. Times are in ms. */
export interface BreakerOptions {
  /** Failures in a row that open it. Default: 10. */
  readonly failures: number;
  /** Time for which it stays open before it admits a probe. Default: 250. */
  readonly openForMs: number;
  /** Probes at a time while it is half open; the first that succeeds closes it. Default: 1. */
  readonly probes: number;
}

/** State of a breaker: admits everything, nothing, or probes. */
export type BreakerState = "closed" | "open" | "half_open";

/** Leave for one attempt: told once how it went; nothing where it was taken back. */
export type Pass = (hasSucceeded: boolean | undefined, nowMs: number) => void;

/**
 * After several failures in a row calls fail at once for a while, instead of each waiting for its own. It knows no clock:
 * callers pass the time.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  #failures = 0;
  #openUntilMs: number | undefined;
  /** Probes under way, while it is half open. */
  #probes: number | undefined;

  constructor(options: Partial<BreakerOptions> = {}) {
    this.#options = { failures: 10, openForMs: 250, probes: 1, ...options };
  }

  /** Leave for an attempt now, or how many ms the next probe is away. */
  pass(nowMs: number): Pass | number {
    if (this.#openUntilMs !== undefined) {
      if (nowMs < this.#openUntilMs) return this.#openUntilMs - nowMs;
      this.#openUntilMs = undefined;
      this.#probes = 0;
    }
    if (this.#probes === undefined) return (verdict, now) => this.#tell(verdict, now);
    if (this.#probes >= this.#options.probes) return 0;
    this.#probes++;
    return (verdict, now) => this.#probed(verdict, now);
  }

  state(nowMs: number): BreakerState {
    if (this.#openUntilMs !== undefined) return nowMs < this.#openUntilMs ? "open" : "half_open";
    return this.#probes === undefined ? "closed" : "half_open";
  }

  #tell(verdict: boolean | undefined, nowMs: number): void {
    // What was under way when it opened says nothing of now: a probe alone closes it.
    if (this.#openUntilMs !== undefined || this.#probes !== undefined || verdict === undefined) return;
    this.#failures = verdict ? 0 : this.#failures + 1;
    if (this.#failures >= this.#options.failures) this.#open(nowMs);
  }

  #probed(verdict: boolean | undefined, nowMs: number): void {
    if (this.#probes === undefined) return;
    if (verdict === undefined) this.#probes--;
    else if (verdict) {
      this.#probes = undefined;
      this.#failures = 0;
    } else this.#open(nowMs);
  }

  #open(nowMs: number): void {
    this.#failures = 0;
    this.#probes = undefined;
    this.#openUntilMs = nowMs + this.#options.openForMs;
  }
}
