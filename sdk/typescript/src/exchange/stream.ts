/** The body of a sealed request, piece by piece. */
import type { FrameOpener } from "../session/native/stream.js";
import { ByteQueue } from "../wire/byte-queue.js";
import type { Bytes } from "../wire/bytes.js";
import { invalid, X_SEALED } from "../wire/headers.js";

/** A part of a body. */
export interface Piece {
  /** Of a frame its plaintext; of a protocol without frames all of the sealed message. */
  readonly bytes: Bytes;
  /** Nothing stands behind it. */
  readonly isLast: boolean;
}

/**
 * Reads the body of a sealed request, however it is cut into parts. The last piece is held back until it is sure that nothing
 * stands behind it. Nothing can be read after an error.
 */
export class Stream {
  readonly #opener: FrameOpener | undefined;
  readonly #inHeader: Bytes | undefined;
  readonly #held: ByteQueue;
  #last: Bytes | undefined;

  /** Without an `opener` of frames the body is one sealed message. `inHeader` is the stream where it came in a header. */
  constructor(opener?: FrameOpener, inHeader?: Bytes) {
    [this.#opener, this.#inHeader, this.#held] = [opener, inHeader, opener ?? new ByteQueue()];
  }

  /** True if the stream came in a header: then there may be no body, and {@link all} gives its pieces. */
  get isInHeader(): boolean {
    return this.#inHeader !== undefined;
  }

  /** The number of bytes that came and are in no piece yet. */
  get unread(): number {
    return this.#held.length;
  }

  /**
   * Takes a part of the body, and gives the pieces that are whole, but for the last one.
   *
   * @throws {SealwayError} `frame_invalid`, `unsealable`.
   */
  async *read(part: Uint8Array): AsyncGenerator<Piece> {
    this.#held.push(part);
    const opener = this.#opener;
    if (opener === undefined) return;
    for (let bytes = await opener.next(); bytes !== undefined; bytes = await opener.next()) {
      if (opener.isDone) this.#last = bytes;
      else yield { bytes, isLast: false };
    }
    if (opener.isDone) opener.finish();
  }

  /**
   * Gives the last piece: the body has ended.
   *
   * @throws {SealwayError} `stream_truncated`.
   */
  end(): Piece {
    this.#opener?.finish();
    return { bytes: this.#last ?? this.#held.take(this.unread), isLast: true };
  }

  /**
   * The pieces of a body that is there as a whole, or of what came in a header instead.
   *
   * @throws {SealwayError} as {@link read} and {@link end} do; `header_invalid` where both are there.
   */
  async all(body: Uint8Array): Promise<Piece[]> {
    if (this.isInHeader && body.length > 0) throw invalid(X_SEALED);
    const pieces: Piece[] = [];
    for await (const piece of this.read(this.#inHeader ?? body)) pieces.push(piece);
    return [...pieces, this.end()];
  }
}
