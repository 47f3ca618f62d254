export type Tone = "plain" | "good" | "warn" | "bad";

/** A line of the console. */
export interface JournalEntry {
  readonly id: number;
  /** The wall clock, in milliseconds of the epoch. */
  readonly atMs: number;
  readonly tone: Tone;
  readonly text: string;
}

const ENTRIES_MAX = 200;

/** The last lines of what happened. Who writes gives names, sizes, times; never a key, and of a body only its size. */
export class Journal {
  #entries: readonly JournalEntry[] = [];
  #next = 1;

  add(atMs: number, tone: Tone, text: string): void {
    this.#entries = [...this.#entries.slice(1 - ENTRIES_MAX), { id: this.#next, atMs, tone, text }];
    this.#next += 1;
  }

  wipe(): void {
    this.#entries = [];
  }

  entries(): readonly JournalEntry[] {
    return this.#entries;
  }
}
