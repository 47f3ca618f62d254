/** Bytes that come in parts. */
import type { Bytes } from "./bytes.js";

/** Bytes in one memory that grows as they come: single bytes take no more than as many in one part. */
export class ByteQueue {
  #memory: Bytes = new Uint8Array(0);
  #begin = 0;
  #end = 0;

  get length(): number {
    return this.#end - this.#begin;
  }

  push(part: Uint8Array): void {
    const length = this.length + part.length;
    if (this.#begin + length > this.#memory.length) this.#move(Math.max(2 * this.length, length));
    this.#memory.set(part, this.#end);
    this.#end += part.length;
  }

  /** The 32 bits that stand at the beginning; there must be as many. */
  word(): number {
    return new DataView(this.#memory.buffer).getUint32(this.#begin);
  }

  /** Removes the first bytes. */
  take(length: number): Bytes {
    const taken = this.#memory.subarray(this.#begin, this.#begin + length);
    this.#begin += length;
    // What is left does not keep the memory of what was taken.
    if (2 * this.length < this.#memory.length) this.#move(this.length);
    return taken;
  }

  #move(room: number): void {
    const rest = this.#memory.subarray(this.#begin, this.#end);
    this.#memory = new Uint8Array(room);
    this.#memory.set(rest);
    this.#begin = 0;
    this.#end = rest.length;
  }
}
