/** Contents of records of both profiles, and the two halves of a channel. SPEC channel.md */
import { TAG_LENGTH } from "./aead.js";
import type { Bytes } from "./encoding.js";
import { ofRecord } from "./error.js";

/** Longest record of any profile, header and tag included, in bytes. */
export const RECORD_MAX = 1 << 20;
/** Longest reason of a close, in bytes of UTF-8. */
export const CLOSE_REASON_MAX = 123;
export { TAG_LENGTH };

/** Content of a record. In v1 a ping has the value 0, and there is neither pong nor close. */
export type Content =
  | { readonly kind: "data"; readonly bytes: Bytes }
  | { readonly kind: "ping" | "pong"; readonly value: bigint }
  | { readonly kind: "rekey" }
  | { readonly kind: "close"; readonly code: number; readonly reason: string };

/** This side's direction. Calls may overlap: numbers are given in the order of the calls. */
export interface Sealer {
  /** Most bytes of a data record. */
  readonly contentMax: number;
  /**
   * The next record. `nowMs` is any clock that does not go back, in milliseconds.
   * @throws ChannelError `content_too_large`, `content_unsupported`, `records_exhausted`.
   */
  seal(content: Content, nowMs: number): Promise<Bytes>;
  wipe(): void;
}

/** The peer's direction. One call at a time. */
export interface Opener {
  /**
   * What the next record says. After any failure, and after a close, every further record is `channel_closed`.
   * @throws ChannelError of the stage `record`.
   */
  open(message: Bytes): Promise<Content>;
  wipe(): void;
}

/** A direction's next number. The last of 2^64 is out of reach; this stops where numbers are no longer exact. */
export class Sequence {
  #next = 1;

  /** @throws ChannelError `records_exhausted`. */
  take(): number {
    if (this.#next >= Number.MAX_SAFE_INTEGER) {
      throw ofRecord("records_exhausted", "a direction has used its last number");
    }
    return this.#next++;
  }

  /** @throws ChannelError `record_replayed`, `record_missing`. */
  expect(found: number): void {
    if (found < this.#next) throw ofRecord("record_replayed", `record ${found} where ${this.#next} is due`);
    if (found > this.#next) throw ofRecord("record_missing", `record ${found} where ${this.#next} is due`);
  }
}

/** Runs an opener's checks, and ends it for good when one fails. */
export class Gate {
  #isOver = false;
  #isBusy = false;

  async pass(check: () => Promise<Content>): Promise<Content> {
    if (this.#isOver || this.#isBusy) throw ofRecord("channel_closed", "a record after the last");
    this.#isBusy = true;
    try {
      const content = await check();
      this.#isOver = content.kind === "close";
      return content;
    } catch (error) {
      this.#isOver = true;
      throw error;
    } finally {
      this.#isBusy = false;
    }
  }
}
