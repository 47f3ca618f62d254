/** The place of the one session in use: agreed once for all who wait. */

interface Living {
  readonly life: { readonly isUsable: boolean; readonly isOver: boolean };
}

export class Slot<T extends Living> {
  readonly #agree: (old: T | undefined) => Promise<T>;
  readonly #onChange: (now: T | undefined) => void;
  #now: T | undefined;
  #pending: Promise<T> | undefined;
  /** Counts how often it was emptied: what was begun before is not put in any more. */
  #age = 0;

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

  /** The session in use; another one if that is about to end, or is the one `not` wanted any more. */
  async get(not?: T): Promise<T> {
    const now = this.#now;
    if (now !== undefined && now !== not && now.life.isUsable) return now;
    // Whoever does not want the one that is there must not have it renewed either.
    const old = now === undefined || now === not || now.life.isOver ? undefined : now;
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
    } finally {
      if (age === this.#age) this.#pending = undefined;
    }
  }
}
