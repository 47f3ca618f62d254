/** Sessions that a store was asked for a moment ago (`spec/session.md`, Authority endpoints). */
import type { StoredSession } from "./store.js";

/** Time for which a session is used without asking again, in milliseconds; with the interval of `cut.ts`, less than a second. */
const FRESH_MS = 500;
const SESSIONS_MAX = 10_000;

type Found = Promise<StoredSession | undefined>;

export class FreshSessions {
  readonly #known = new Map<string, { until: number; session: Found }>();

  /** The session of this id, asked for once by all who want it at a time. Absent ones and failures are not kept. */
  get(id: string, ask: () => Found): Found {
    const nowMs = performance.now();
    const known = this.#known.get(id);
    if (known !== undefined && nowMs < known.until) return known.session;
    const session = ask();
    // In order of age: the first ones are the oldest.
    this.#known.delete(id);
    for (const [old, { until }] of this.#known) {
      if (until > nowMs && this.#known.size < SESSIONS_MAX) break;
      this.#known.delete(old);
    }
    this.#known.set(id, { until: nowMs + FRESH_MS, session });
    session.then(
      (found) => found === undefined && this.#known.delete(id),
      () => this.#known.delete(id),
    );
    return session;
  }
}
