/** Bodies as a server reads them: bounded in length and time. */
import { type Bytes, concat } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import type { Holding } from "./room.js";

/** A body part by part, within bounds of length and time. All parts together have one timeout, until {@link flow}. */
export class BodySource {
  readonly #parts: AsyncIterator<Uint8Array> | undefined;
  readonly #lengthMax: number;
  readonly #timeoutMs: number;
  readonly #holding: Holding | undefined;
  /** By a clock that never jumps; none once each part has its own timeout. */
  #deadlineMs: number | undefined;
  #length = 0;

  /** @param holding the room that parts take as they come; whoever reads them gives it back. */
  constructor(
    parts: AsyncIterable<Uint8Array> | undefined,
    lengthMax: number,
    timeoutMs: number,
    holding?: Holding,
  ) {
    this.#parts = parts?.[Symbol.asyncIterator]();
    this.#holding = holding;
    this.#lengthMax = lengthMax;
    this.#timeoutMs = timeoutMs;
    this.#deadlineMs = performance.now() + timeoutMs;
  }

  /** From now on each part has a timeout of its own. */
  flow(): void {
    this.#deadlineMs = undefined;
  }

  /**
   * What comes next; none at the end.
   *
   * @throws {SealwayError} `body_too_large`, `no_room`, `stream_truncated` for one that breaks off or stops coming.
   */
  async read(): Promise<Uint8Array | undefined> {
    if (this.#parts === undefined) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = () => new SealwayError("stream_truncated", "the body stops coming");
      const leftMs = this.#deadlineMs === undefined ? this.#timeoutMs : this.#deadlineMs - performance.now();
      timer = setTimeout(() => reject(error()), Math.max(0, leftMs));
    });
    try {
      const { done, value } = await Promise.race([this.#parts.next(), late]);
      if (done) return undefined;
      this.#length += value.length;
      if (this.#length > this.#lengthMax) {
        throw new SealwayError("body_too_large", "the body is over its bound");
      }
      this.#holding?.grow(value.length);
      return value;
    } catch (error) {
      if (error instanceof SealwayError) throw error;
      throw new SealwayError("stream_truncated", "the body breaks off", { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  /** All parts. */
  async whole(): Promise<Bytes> {
    const all = new Gathered();
    for (let part = await this.read(); part !== undefined; part = await this.read()) all.push(part);
    return all.take(all.length).slice();
  }
}

/** Bytes in one memory that grows as they come: single bytes take no more than as many in one part. */
export class Gathered {
  #memory: Bytes = new Uint8Array(0);
  #begin = 0;
  #end = 0;

  get length(): number {
    return this.#end - this.#begin;
  }

  push(part: Uint8Array): void {
    if (this.#end + part.length > this.#memory.length) {
      const { length } = this;
      const grown = new Uint8Array(Math.max(2 * length, length + part.length));
      grown.set(this.#memory.subarray(this.#begin, this.#end));
      this.#memory = grown;
      this.#begin = 0;
      this.#end = length;
    }
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
    if (2 * this.length < this.#memory.length) {
      this.#memory = this.#memory.slice(this.#begin, this.#end);
      this.#end -= this.#begin;
      this.#begin = 0;
    }
    return taken;
  }
}

/** All of a handler's answer, up to a bound in bytes. */
export async function collect(body: Answering, lengthMax: number): Promise<Bytes> {
  if (body === undefined) return new Uint8Array();
  if (body instanceof Uint8Array) return concat(body);
  return new BodySource(body, lengthMax, 2 ** 31 - 1).whole();
}

/** What a handler answers. */
export type Answering = Uint8Array | AsyncIterable<Uint8Array> | undefined;
