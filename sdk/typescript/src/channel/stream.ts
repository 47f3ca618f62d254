import type { Readable, Writable } from "../wire/platform.js";
import { type Bytes, concat } from "./encoding.js";
import { ChannelError } from "./error.js";

/** The part of a channel that its streams use. */
export interface StreamPort {
  /** Sends bytes, at most a frame, with the flags of the stream. It returns when they are on their way. */
  data(stream: Stream, bytes: Bytes, isLast: boolean): Promise<void>;
  /** Lets the peer send more. */
  credit(stream: Stream, bytes: number): void;
  reset(stream: Stream): void;
  /** Both directions have ended. */
  finished(stream: Stream): void;
  /** Returns the growth of a window, if it grows. */
  growth(stream: Stream): number;
}

/** First window of each direction of a stream, in bytes. */
export const WINDOW = 262_144;
/** Most bytes of a stream in a frame: with its header it fills a record of the native profile. */
export const FRAME_MAX = 65_524;
/** Pieces that are shorter are put together, in bytes. */
const GATHERED = 4096;

/**
 * Bytes both ways, within a channel, each direction with an end of its own. Reads and writes are one at a time each.
 */
export class Stream {
  /** Its number on the channel: odd where the client opened it. */
  readonly id: number;
  readonly #port: StreamPort;
  readonly #chunks: Bytes[] = [];
  /** Bytes that the peer may still send, and its largest window. */
  #peerMay = WINDOW;
  #window = WINDOW;
  #consumed = 0;
  /** Bytes that this side may still send. */
  #mayBytes = WINDOW;
  #wakeReader: (() => void) | undefined;
  #wakeWriter: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();
  #hasEnded = { own: false, peer: false };
  #isFinished = false;
  #failure: ChannelError | undefined;
  /** @internal Hears when nothing more can come or go, and whether the peer had finished before: then the rest can still be read. */
  onFail: ((why: ChannelError, hadFinished: boolean) => void) | undefined;

  constructor(id: number, port: StreamPort) {
    this.id = id;
    this.#port = port;
  }

  /** The window that the peer has been given, in bytes. */
  get window(): number {
    return this.#window;
  }

  /**
   * The next bytes; nothing when the peer has finished.
   * @throws ChannelError of the stage `stream`, or why the channel is over.
   */
  async read(): Promise<Bytes | undefined> {
    while (this.#chunks.length === 0) {
      if (this.#hasEnded.peer) return undefined;
      if (this.#failure !== undefined) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
    const chunk = this.#chunks.shift()!;
    this.#account(chunk.length);
    return chunk;
  }

  /**
   * Exactly so many bytes; nothing when the peer has finished before the first of them.
   * @throws ChannelError as `read`, and `broken_off` where the peer has finished in between.
   */
  async readExactly(length: number): Promise<Bytes | undefined> {
    const out = new Uint8Array(length);
    let at = 0;
    while (at < length) {
      const chunk = await this.read();
      if (chunk === undefined) {
        if (at === 0) return undefined;
        throw new ChannelError("stream", "broken_off", "the stream ended in between");
      }
      const taken = chunk.subarray(0, length - at);
      out.set(taken, at);
      at += taken.length;
      if (taken.length < chunk.length) this.#putBack(chunk.subarray(taken.length));
    }
    return out;
  }

  /**
   * Sends bytes, in the order of the calls. It returns when they are on their way, within the peer's window.
   * @throws ChannelError of the stage `stream`, or why the channel is over.
   */
  write(bytes: Uint8Array): Promise<void> {
    return this.#inOrder(() => this.#write(bytes as Bytes));
  }

  /**
   * Says that nothing more comes from this side. What the peer sends can still be read.
   * @throws ChannelError as `write`: the peer may not have all that was written.
   */
  end(): Promise<void> {
    return this.#inOrder(async () => {
      if (this.#hasEnded.own) return;
      if (this.#failure !== undefined) throw this.#failure;
      this.#hasEnded.own = true;
      await this.#port.data(this, new Uint8Array(0), true);
      this.#finishIfDone();
    });
  }

  /** Breaks both directions off. */
  reset(): void {
    if (this.#failure !== undefined || this.#isFinished) return;
    this.#port.reset(this);
    this.fail(new ChannelError("stream", "broken_off", "this side broke the stream off"));
  }

  /** The bytes that come, as a web stream. */
  get readable(): Readable<Bytes> {
    return new ReadableStream(
      {
        pull: async (controller) => {
          const chunk = await this.read();
          if (chunk === undefined) controller.close();
          else controller.enqueue(chunk);
        },
        cancel: () => this.reset(),
      },
      { highWaterMark: 0 },
    );
  }

  /** The bytes that go, as a web stream. */
  get writable(): Writable<Uint8Array> {
    return new WritableStream({
      write: (chunk) => this.write(chunk),
      close: () => this.end(),
      abort: () => this.reset(),
    });
  }

  /** @internal Bytes of the peer's. False where it sends more than it may. */
  take(bytes: Bytes): boolean {
    if (this.#hasEnded.peer || bytes.length > this.#peerMay) return false;
    this.#peerMay -= bytes.length;
    if (bytes.length > 0 && this.#failure === undefined) this.#keep(bytes);
    this.#wakeReader?.();
    return true;
  }

  /** @internal The peer has finished. */
  takeEnd(): void {
    this.#hasEnded.peer = true;
    this.#wakeReader?.();
    this.#finishIfDone();
  }

  /** @internal This side may send more. False where that is more than a number can say. */
  takeCredit(bytes: number): boolean {
    this.#mayBytes += bytes;
    this.#wakeWriter?.();
    return this.#mayBytes <= 0xffff_ffff;
  }

  /** @internal Nothing more can come or go. */
  fail(why: ChannelError): void {
    if (this.#failure !== undefined || this.#isFinished) return;
    this.#failure = why;
    // What had come before an orderly end can still be read; of what was broken off nothing.
    if (!this.#hasEnded.peer) this.#chunks.length = 0;
    this.#wakeReader?.();
    this.#wakeWriter?.();
    this.#isFinished = true;
    this.#port.finished(this);
    this.onFail?.(why, this.#hasEnded.peer);
  }

  async #write(bytes: Bytes): Promise<void> {
    let at = 0;
    while (at < bytes.length) {
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#hasEnded.own)
        throw new ChannelError("stream", "broken_off", "this side has finished the stream");
      if (this.#mayBytes === 0) {
        await new Promise<void>((resolve) => {
          this.#wakeWriter = resolve;
        });
        continue;
      }
      const length = Math.min(bytes.length - at, this.#mayBytes, FRAME_MAX);
      this.#mayBytes -= length;
      await this.#port.data(this, bytes.subarray(at, at + length), false);
      at += length;
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  #inOrder(step: () => Promise<void>): Promise<void> {
    const result = this.#writing.then(step);
    this.#writing = result.catch(() => undefined);
    return result;
  }

  #account(length: number): void {
    this.#consumed += length;
    if (this.#consumed * 2 < this.#window || this.#hasEnded.peer || this.#failure !== undefined) return;
    const growth = this.#port.growth(this);
    this.#window += growth;
    const credit = this.#consumed + growth;
    this.#consumed = 0;
    this.#peerMay += credit;
    this.#port.credit(this, credit);
  }

  /** Small pieces are gathered: many of one byte would take many times their length, and keep whole records alive. */
  #keep(bytes: Bytes): void {
    const last = this.#chunks.at(-1);
    if (bytes.length >= GATHERED) this.#chunks.push(bytes);
    else if (last === undefined || last.length + bytes.length > GATHERED) this.#chunks.push(bytes.slice());
    else this.#chunks[this.#chunks.length - 1] = concat(last, bytes);
  }

  #putBack(bytes: Bytes): void {
    this.#chunks.unshift(bytes);
    this.#consumed -= bytes.length;
  }

  #finishIfDone(): void {
    if (this.#isFinished || !this.#hasEnded.own || !this.#hasEnded.peer) return;
    this.#isFinished = true;
    this.#port.finished(this);
  }
}
