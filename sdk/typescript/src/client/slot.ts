/** The place of the one session in use: agreed once for all who wait. */
import { steadyMs } from "./clock.js";

/** After a renewal that failed, the next one waits so long, in milliseconds. */
const RENEW_AGAIN_MS = 5000;

/** The part of a slot that a call uses. */
export interface Sessions<T> {
  /** The session in use, or another one. */
  get(): Promise<T>;
  /** Gives a session up that the service does not know any more. */
  drop(session: T): void;
}

interface WithLife {
  readonly life: { readonly isUsable: boolean; readonly isOver: boolean };
}

export class Slot<T extends WithLife> {
  readonly #agree: (old: T | undefined) => Promise<T>;
  readonly #onChange: (now: T | undefined) => void;
  #now: T | undefined;
  #pending: Promise<T> | undefined;
  /** Counts how often it was emptied: what was begun before is not put in any more. */
  #age = 0;
  #renewAt = 0;

  /** `agree` renews the session that it is given, or makes one. */
  constructor(agree: (old: T | undefined) => Promise<T>, onChange: (now: T | undefined) => void) {
    this.#agree = agree;
    this.#onChange = onChange;
  }

  peek(): T | undefined {
    return this.#now;
  }

  /** Empties it, and gives what was there. */
  take(): T | undefined {
    const was = this.#now;
    this.#now = undefined;
    this.#pending = undefined;
    this.#age += 1;
    if (was !== undefined) this.#onChange(undefined);
    return was;
  }

  /** Gives a session up. A newer one stays: what is said of an older one may come late. */
  drop(session: T): void {
    if (this.#now !== session) return;
    this.#now = undefined;
    this.#onChange(undefined);
  }

  /** The session in use; another one if there is none or it is about to end. */
  async get(): Promise<T> {
    const old = this.#now?.life.isOver ? undefined : this.#now;
    if (old !== undefined && (old.life.isUsable || steadyMs() < this.#renewAt)) return old;
    this.#pending ??= this.#begin(old);
    return this.#pending;
  }

  async #begin(old: T | undefined): Promise<T> {
    const age = this.#age;
    try {
      const made = await this.#agree(old);
      if (age === this.#age) {
        this.#now = made;
        this.#onChange(made);
      }
      return made;
    } catch (error) {
      // What was to be renewed is good until its own end.
      if (old === undefined || old !== this.#now || old.life.isOver) throw error;
      this.#renewAt = steadyMs() + RENEW_AGAIN_MS;
      return old;
    } finally {
      if (age === this.#age) this.#pending = undefined;
    }
  }
}
