/** A call that ends when its session does: revoked, wherever that was, or over. */
import { SealwayError } from "../wire/error.js";

/** Together with the time that a store may keep a session without asking, less than a second. */
const LOOK_AGAIN_MS = 400;

/** Cuts the streams of one call when its session is over or revoked, keeps its answer back, and tells its handler by a signal. */
export class Cut {
  readonly #isOver: (() => Promise<boolean>) | undefined;
  readonly #waiting = new Set<(error: SealwayError) => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** True if data passed since the session was last checked. */
  #isUsed = false;
  /** True while a handler works on the answer. */
  #isWorking = false;
  #fault: SealwayError | undefined;
  readonly #controller = new AbortController();

  /** `isOver` looks at the session, if it can end the call; while it throws nobody can tell, and the streams go on. */
  constructor(isOver: (() => Promise<boolean>) | undefined) {
    this.#isOver = isOver;
  }

  /** Aborted with the reason when the session is over, or the client gone, before {@link finish}. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** A handler works from here on. */
  begin(): void {
    this.#isWorking = true;
    this.#lookLater();
  }

  /** The answer is complete: the signal of its handler stays quiet. */
  finish(): void {
    this.#isWorking = false;
  }

  /**
   * Waits for the next part of a stream.
   *
   * @throws {SealwayError} `session_expired` once the session is over, `stream_truncated` after {@link drop}; as `step` does.
   */
  guard<T>(step: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const stop = () => this.#waiting.delete(reject);
      step.then(resolve, reject).finally(stop);
      if (this.#fault !== undefined) {
        reject(this.#fault);
        return;
      }
      this.#isUsed = true;
      this.#waiting.add(reject);
      this.#lookLater();
    });
  }

  /** Looks at the session before an answer begins: the reason why none may be sent, or `undefined` while the session is live. */
  async ended(): Promise<SealwayError | undefined> {
    if (this.#fault === undefined && (await this.#isOver?.().catch(() => false)))
      this.#cut(new SealwayError("session_expired", "the session ended while the call was under way"));
    return this.#fault;
  }

  /** The client is gone: nothing is waited for any more. */
  drop(): void {
    this.#cut(new SealwayError("stream_truncated", "the client is gone"));
  }

  #lookLater(): void {
    if (this.#isOver !== undefined && this.#fault === undefined)
      this.#timer ??= setTimeout(() => this.#look(), LOOK_AGAIN_MS);
  }

  async #look(): Promise<void> {
    const isWanted = this.#isWorking || this.#isUsed || this.#waiting.size > 0;
    this.#isUsed = false;
    if (isWanted) await this.ended();
    this.#timer = undefined;
    if (isWanted) this.#lookLater();
  }

  #cut(fault: SealwayError): void {
    this.#fault ??= fault;
    clearTimeout(this.#timer);
    if (this.#isWorking) this.#controller.abort(this.#fault);
    for (const reject of this.#waiting) reject(this.#fault);
    this.#waiting.clear();
  }
}
