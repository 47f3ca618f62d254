/** Bodies as a server reads them: bounded in length and time. */
import { type Bytes, concat } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";

/** A body part by part, within bounds. */
export class BodySource {
  readonly #parts: AsyncIterator<Uint8Array> | undefined;
  readonly #lengthMax: number;
  readonly #timeoutMs: number;
  #length = 0;

  constructor(parts: AsyncIterable<Uint8Array> | undefined, lengthMax: number, timeoutMs: number) {
    this.#parts = parts?.[Symbol.asyncIterator]();
    this.#lengthMax = lengthMax;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * What comes next; none at the end.
   *
   * @throws {SealwayError} `body_too_large`, `stream_truncated` for one that breaks off or stops coming.
   */
  async read(): Promise<Uint8Array | undefined> {
    if (this.#parts === undefined) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = () => new SealwayError("stream_truncated", "the body stops coming");
      timer = setTimeout(() => reject(error()), this.#timeoutMs);
    });
    try {
      const { done, value } = await Promise.race([this.#parts.next(), late]);
      if (done) return undefined;
      this.#length += value.length;
      if (this.#length > this.#lengthMax) {
        throw new SealwayError("body_too_large", "the body is over its bound");
      }
      return value;
    } catch (error) {
      if (error instanceof SealwayError) throw error;
      throw new SealwayError("stream_truncated", "the body breaks off", { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  async whole(): Promise<Bytes> {
    const parts: Uint8Array[] = [];
    for (;;) {
      const part = await this.read();
      if (part === undefined) return concat(...parts);
      parts.push(part);
    }
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
