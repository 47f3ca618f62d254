/** The body of a sealed request as its handler reads it: within bounds of length and time, and opened as it comes. */
import { Rejection } from "../exchange/rejection.js";
import type { Piece, Stream } from "../exchange/stream.js";
import { SealwayError } from "../wire/error.js";
import type { Cut } from "./cut.js";
import type { Reservation } from "./room.js";

/** Bounds of one body. */
export interface BodyBounds {
  /** In bytes. */
  readonly lengthMax: number;
  /** For all parts of the first piece together, then for each part. */
  readonly timeoutMs: number;
  /** The room that parts take as they come. */
  readonly holding: Reservation;
  /** True if a body counts until all of it has opened, else each frame until it has. */
  readonly holdsWhole: boolean;
}

/** A sealed body that is being read. */
export class Reader {
  readonly #stream: Stream;
  readonly #parts: AsyncIterator<Uint8Array> | undefined;
  readonly #bounds: BodyBounds;
  readonly #pieces = this.#read();
  /** By a clock that never jumps; none once each part has its own timeout. */
  #deadlineMs: number | undefined;
  #length = 0;
  /** The reason for which the body broke off, if it did. */
  fault: Rejection | undefined;

  constructor(stream: Stream, body: AsyncIterable<Uint8Array> | undefined, bounds: BodyBounds) {
    [this.#stream, this.#parts, this.#bounds] = [stream, body?.[Symbol.asyncIterator](), bounds];
    this.#deadlineMs = performance.now() + bounds.timeoutMs;
  }

  /**
   * The next piece.
   *
   * @throws {SealwayError} `body_too_large`, `no_room`, `stream_truncated`, and those of {@link Stream}.
   */
  async next(): Promise<Piece> {
    const { value } = await this.#pieces.next();
    if (value === undefined) throw new Rejection("stream_truncated", "the stream has no more pieces");
    return value;
  }

  /** Gives back the room of a piece that has opened. */
  opened({ isLast }: Piece): void {
    if (isLast) this.release();
    else if (!this.#bounds.holdsWhole) this.#bounds.holding.keep(this.#stream.unread);
  }

  /** Gives back all room that it takes. */
  release(): void {
    this.#bounds.holding.release();
  }

  /** The plain body: its beginning, then the pieces behind `piece`. */
  async *plain(beginning: Uint8Array, piece: Piece, cut: Cut): AsyncGenerator<Uint8Array> {
    try {
      if (beginning.length > 0) yield beginning;
      this.#deadlineMs = undefined;
      for (let { isLast } = piece; !isLast; ) {
        const next = await cut.guard(this.next());
        this.opened(next);
        if (next.bytes.length > 0) yield next.bytes;
        isLast = next.isLast;
      }
    } catch (error) {
      this.fault = Rejection.of(error);
      throw this.fault;
    } finally {
      this.release();
    }
  }

  async *#read(): AsyncGenerator<Piece, undefined> {
    const stream = this.#stream;
    // All of it is there: a part of a stream that was cut is not taken for a whole one without a body.
    if (stream.isInHeader) return yield* await stream.all((await this.#part()) ?? new Uint8Array());
    for (let part = await this.#part(); part !== undefined; part = await this.#part())
      yield* stream.read(part);
    yield stream.end();
  }

  /** The next part of the body that holds something; none at the end. */
  async #part(): Promise<Uint8Array | undefined> {
    if (this.#parts === undefined) return undefined;
    const { lengthMax, timeoutMs, holding } = this.#bounds;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const leftMs = this.#deadlineMs === undefined ? timeoutMs : this.#deadlineMs - performance.now();
    const late = new Promise<never>((_, reject) => {
      const error = () => reject(new Rejection("stream_truncated", "the body stops coming"));
      timer = setTimeout(error, Math.max(0, leftMs));
    });
    try {
      for (;;) {
        const { done, value } = await Promise.race([this.#parts.next(), late]);
        if (done) return undefined;
        this.#length += value.length;
        if (this.#length > lengthMax) throw new Rejection("body_too_large", "the body is over its bound");
        holding.grow(value.length);
        if (value.length > 0) return value;
      }
    } catch (error) {
      if (error instanceof SealwayError) throw error;
      throw new Rejection("stream_truncated", "the body breaks off", error);
    } finally {
      clearTimeout(timer);
    }
  }
}
