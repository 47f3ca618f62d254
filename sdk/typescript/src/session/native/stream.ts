/** Streams of frames (`spec/session-3.md`, Sealed requests): sealed and opened one frame at a time. */
import { expand } from "../../crypto/hkdf.js";
import type { AeadKey, MacKey, Provider } from "../../crypto/provider.js";
import { ByteQueue } from "../../wire/byte-queue.js";
import { type Bytes, concat, equal, wipe } from "../../wire/bytes.js";
import { SealwayError, Truncated } from "../../wire/error.js";

/** The most plaintext of a frame, in bytes. */
export const FRAME_LEN_MAX = 65_536;
const TAG = 16;
const COMMIT = 16;
const COUNT_MAX = 2 ** 32;

/** The keys of one stream. */
export interface StreamKeys {
  readonly aead: AeadKey;
  readonly iv: Bytes;
  readonly commit: Bytes;
}

/** Key, IV and commit of a stream, of its direction's key and what the stream is. */
export async function streamKeys(
  provider: Provider,
  direction: MacKey,
  info: Uint8Array,
): Promise<StreamKeys> {
  const bytes = await expand(direction, info, 60);
  const aead = await provider.aeadKey(bytes.subarray(0, 32));
  const keys = { aead, iv: bytes.slice(32, 44), commit: bytes.slice(44, 60) };
  wipe(bytes);
  return keys;
}

function frameNonce(iv: Uint8Array, count: number, isLast: boolean): Bytes {
  const nonce = iv.slice() as Bytes;
  // The mark of the last frame has 32 bits.
  if (isLast) nonce[3]! ^= 1;
  const view = new DataView(nonce.buffer);
  // A count of frames fits into 32 bits: the upper half of its 64 is zero.
  view.setUint32(8, view.getUint32(8) ^ count);
  return nonce;
}

/** Returns the length of a stream in bytes, with full frames. */
export function streamLength(plaintextLength: number): number {
  const frames = Math.max(1, Math.ceil(plaintextLength / FRAME_LEN_MAX));
  return COMMIT + frames * (4 + TAG) + plaintextLength;
}

/** Seals the frames of one stream, in order. Do not begin one before the one before is there. */
export class FrameSealer {
  readonly #keys: StreamKeys;
  readonly #context: Uint8Array;
  readonly #prefix: Uint8Array;
  #count = 0;
  #isDone = false;

  /** `prefix` stands in front of the commit. */
  constructor(keys: StreamKeys, context: Uint8Array, prefix: Uint8Array = new Uint8Array()) {
    this.#keys = keys;
    this.#context = context;
    this.#prefix = prefix;
  }

  /** Returns the length of the whole message in bytes, with full frames. */
  lengthOf(plaintextLength: number): number {
    return this.#prefix.length + streamLength(plaintextLength);
  }

  /**
   * The bytes of the next frame; in front of the first, prefix and commit. A frame has at most {@link FRAME_LEN_MAX} bytes. Where `given`
   * is there they are written to its beginning, and what is behind them is the result.
   */
  async seal(plaintext: Uint8Array, isLast: boolean, given?: Bytes): Promise<Bytes> {
    if (this.#isDone || plaintext.length > FRAME_LEN_MAX || this.#count >= COUNT_MAX) {
      throw new SealwayError("frame_invalid", "a frame is too long, or behind the last frame");
    }
    const count = this.#count;
    this.#count += 1;
    this.#isDone = isLast;
    const { aead, iv, commit } = this.#keys;
    const begin = count === 0 ? concat(this.#prefix, commit) : new Uint8Array();
    const head = begin.length;
    const length = plaintext.length + TAG;
    const end = head + 4 + length;
    const out = given ?? new Uint8Array(end);
    out.set(begin);
    new DataView(out.buffer, out.byteOffset).setUint32(head, (isLast ? 0x8000_0000 : 0) + length);
    const nonce = frameNonce(iv, count, isLast);
    await aead.seal(nonce, plaintext, this.#context, out.subarray(head + 4, end));
    return given === undefined ? out : out.subarray(end);
  }
}

/** Opens a stream as it comes. What it holds is bounded by what {@link next} has not yet been asked for. */
export class FrameOpener extends ByteQueue {
  readonly #keys: StreamKeys;
  readonly #context: Uint8Array;
  readonly #isSingle: boolean;
  #commit: Uint8Array | undefined;
  #count = 0;
  #isDone = false;

  /** `isSingle` is true for a stream in `X-Sealed`, which has one frame. */
  constructor(keys: StreamKeys, context: Uint8Array, isSingle: boolean) {
    super();
    this.#keys = keys;
    this.#context = context;
    this.#isSingle = isSingle;
  }

  /** True after the last frame was opened. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * The next frame's plaintext; none while it is not complete, and when there is no more.
   *
   * @throws {SealwayError} `frame_invalid`, `unsealable`; `stream_truncated` if the first frame in `X-Sealed` is not the last.
   */
  async next(): Promise<Bytes | undefined> {
    // Copied: it stays as long as the stream.
    if (this.length >= COMMIT) this.#commit ??= this.take(COMMIT).slice();
    if (this.#isDone || this.#commit === undefined || this.length < 4) return undefined;
    const head = this.word();
    const isLast = head >= 0x8000_0000;
    const length = head % 0x8000_0000;
    // Only the last frame may be empty.
    if (length < TAG + (isLast ? 0 : 1) || length > FRAME_LEN_MAX + TAG) {
      throw new SealwayError("frame_invalid", "a frame is too long or too short");
    }
    if (this.length < 4 + length) return undefined;
    const sealed = this.take(4 + length).subarray(4);
    const { aead, iv, commit } = this.#keys;
    // The tag is computed whether or not the commit is right: no answer comes sooner for it.
    const plaintext =
      this.#count < COUNT_MAX
        ? await aead.open(frameNonce(iv, this.#count, isLast), sealed, this.#context)
        : undefined;
    if (plaintext === undefined || !equal(this.#commit, commit)) {
      throw new SealwayError("unsealable", "a frame does not open");
    }
    this.#count += 1;
    this.#isDone = isLast;
    if (this.#isSingle) this.finish();
    return plaintext;
  }

  /**
   * Says that nothing more comes.
   *
   * @throws {SealwayError} `stream_truncated`, `frame_invalid`.
   */
  finish(): void {
    if (!this.#isDone) throw new Truncated("stream_truncated", "the stream ends before its last frame");
    if (this.length > 0) throw new SealwayError("frame_invalid", "there are bytes behind the last frame");
  }
}

/** The plaintexts of the frames of a whole message, cut where a frame is full. */
export function* cut(plaintext: Uint8Array): Generator<{ part: Uint8Array; isLast: boolean }> {
  let at = 0;
  do {
    const end = Math.min(at + FRAME_LEN_MAX, plaintext.length);
    yield { part: plaintext.subarray(at, end), isLast: end === plaintext.length };
    at = end;
  } while (at < plaintext.length);
}

/** The whole stream of these plaintexts. */
export async function sealAll(sealer: FrameSealer, plaintext: Uint8Array): Promise<Bytes> {
  const out = new Uint8Array(sealer.lengthOf(plaintext.length));
  let rest: Bytes = out;
  for (const { part, isLast } of cut(plaintext)) rest = await sealer.seal(part, isLast, rest);
  return out;
}

/**
 * The plaintexts of the frames of a whole stream.
 *
 * @throws {SealwayError} as {@link FrameOpener} does.
 */
export async function openAll(opener: FrameOpener, stream: Uint8Array): Promise<Bytes[]> {
  opener.push(stream);
  const frames: Bytes[] = [];
  for (;;) {
    const frame = await opener.next();
    if (frame === undefined) break;
    frames.push(frame);
  }
  opener.finish();
  return frames;
}
