/** Many streams on one stream of bytes: the wire of yamux, version 0. SPEC rpc.md#streams */
import { type Bytes, concat, uint } from "./encoding.js";
import { ChannelError } from "./error.js";
import { Stream, type StreamPort, WINDOW } from "./stream.js";

const HEADER = 12;
const DATA = 0;
const WINDOW_UPDATE = 1;
const PING = 2;
const GO_AWAY = 3;
const SYN = 1;
const ACK = 2;
const FIN = 4;
const RST = 8;

/** Streams at once that each side may have opened. */
export const STREAMS_MAX = 128;
/** The same with a peer of v1, where 200 are usual. */
export const V1_STREAMS_MAX = 256;
/** Answers that wait to be sent, each stream's among them: a peer that asks on and reads nothing is given up. */
const ANSWERS_MAX = 2 * V1_STREAMS_MAX;
/** Bound on received bytes of all streams that are not read yet. */
const WINDOWS_MAX = 128 << 20;
/** Bound on the window of one stream, in bytes. */
const WINDOW_MAX = 16 << 20;

/** The carrier of the bytes, and its callbacks for events of the peer. */
export interface Carrier {
  /** Sends a frame, after those before it. It returns when it is on its way. */
  send(frame: Bytes): Promise<void>;
  /** The peer has opened a stream, which was answered. */
  opened(stream: Stream): void;
  /** The peer ends the streams; the code is 0 in order. */
  goneAway(code: number): void;
  /** The answer to a ping. */
  ponged(id: number): void;
  /** Reason of the end of the channel. */
  readonly over: ChannelError | undefined;
}

/** The streams of a channel. */
export class Streams implements StreamPort {
  readonly #carrier: Carrier;
  readonly #isClient: boolean;
  readonly #isNative: boolean;
  readonly #streams = new Map<number, Stream>();
  /** Streams whose first frame was not sent yet. */
  readonly #unsaid = new Set<number>();
  readonly #waiting: (() => void)[] = [];
  #count = { own: 0, peer: 0 };
  #nextId: number;
  #answers = 0;
  #windows = 0;
  /** A header in the making, and the rest of a body that is on its way to a stream. */
  #header: Bytes = new Uint8Array(0);
  #body: { stream: Stream | undefined; left: number; isLast: boolean } | undefined;

  constructor(carrier: Carrier, isClient: boolean, isNative: boolean) {
    this.#carrier = carrier;
    this.#isClient = isClient;
    this.#isNative = isNative;
    this.#nextId = isClient ? 1 : 2;
  }

  /** Streams at once of each side. */
  get #max(): number {
    return this.#isNative ? STREAMS_MAX : V1_STREAMS_MAX;
  }

  /** Number of open streams of both sides. */
  get size(): number {
    return this.#streams.size;
  }

  /**
   * Opens a stream, or waits for one of this side's to end where there are too many. The peer hears of it with the first
   * bytes.
   * @throws ChannelError why the channel is over.
   */
  async open(): Promise<Stream> {
    while (this.#count.own >= this.#max && this.#carrier.over === undefined) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    if (this.#carrier.over !== undefined) throw this.#carrier.over;
    if (this.#nextId > 0xffff_ffff)
      throw new ChannelError("stream", "streams_malformed", "no number for a stream is left");
    const stream = new Stream(this.#nextId, this);
    this.#nextId += 2;
    this.#add(stream, "own");
    this.#unsaid.add(stream.id);
    return stream;
  }

  /** A ping of streams; the peer's answer has the same number. */
  ping(id: number): Promise<void> {
    return this.#carrier.send(frame(PING, SYN, 0, id));
  }

  /** Says that no stream goes on. */
  goAway(code: 0 | 1 | 2): Promise<void> {
    return this.#carrier.send(frame(GO_AWAY, 0, 0, code));
  }

  /** Ends all streams. */
  fail(why: ChannelError): void {
    for (const stream of [...this.#streams.values()]) stream.fail(why);
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /**
   * Bytes of the peer's; where they begin or end means nothing.
   * @throws ChannelError `streams_malformed`.
   */
  feed(bytes: Bytes): void {
    let rest = bytes;
    while (rest.length > 0) {
      if (this.#body !== undefined) {
        const taken = rest.subarray(0, this.#body.left);
        rest = rest.subarray(taken.length);
        this.#takeBody(this.#body, taken);
        continue;
      }
      const taken = rest.subarray(0, HEADER - this.#header.length);
      this.#header = this.#header.length === 0 ? taken : concat(this.#header, taken);
      rest = rest.subarray(taken.length);
      if (this.#header.length < HEADER) {
        // It must not keep a whole record alive.
        this.#header = this.#header.slice();
        return;
      }
      const header = this.#header;
      this.#header = new Uint8Array(0);
      this.#takeHeader(header);
    }
  }

  #takeHeader(header: Bytes): void {
    const view = new DataView(header.buffer, header.byteOffset, HEADER);
    const [version, type, flags] = [header[0]!, header[1]!, view.getUint16(2)];
    const [id, length] = [view.getUint32(4), view.getUint32(8)];
    if (version !== 0) throw malformed("a frame of another version");
    if (type === PING) {
      this.#takePing(flags, length);
      return;
    }
    if (type === GO_AWAY) {
      this.#carrier.goneAway(length);
      return;
    }
    if (type !== DATA && type !== WINDOW_UPDATE) throw malformed(`a frame of the type ${type}`);
    if (id === 0) throw malformed("a frame of a stream without its number");
    if ((flags & SYN) !== 0) this.#takeUp(id);
    const stream = this.#streams.get(id);
    const isLast = (flags & FIN) !== 0;
    if ((flags & RST) !== 0) {
      stream?.fail(new ChannelError("stream", "broken_off", "the peer broke the stream off"));
      if (type === DATA && length > 0) this.#body = { stream: undefined, left: length, isLast: false };
      return;
    }
    if (type === WINDOW_UPDATE) {
      if (stream?.takeCredit(length) === false) throw malformed("a window over its bound");
      if (isLast) stream?.takeEnd();
      return;
    }
    if (length > 0) this.#body = { stream, left: length, isLast };
    else if (isLast) stream?.takeEnd();
  }

  #takeBody(body: { stream: Stream | undefined; left: number; isLast: boolean }, bytes: Bytes): void {
    body.left -= bytes.length;
    if (body.stream?.take(bytes) === false) throw malformed("more on a stream than its window allows");
    if (body.left > 0) return;
    this.#body = undefined;
    if (body.isLast) body.stream?.takeEnd();
  }

  /** A stream of the peer's: answered at once, for some peers end a channel whose stream is not. */
  #takeUp(id: number): void {
    const isPeers = (id % 2 === 1) !== this.#isClient;
    // Not in turn: a peer that opens several at once may have the first frame of the later one sent first.
    if (!isPeers || this.#streams.has(id))
      throw malformed("a stream with a number that is not the peer's to give");
    if (this.#count.peer >= this.#max) {
      this.#answer(frame(WINDOW_UPDATE, RST, id, 0));
      return;
    }
    const stream = new Stream(id, this);
    this.#add(stream, "peer");
    this.#answer(frame(DATA, ACK, id, 0));
    this.#carrier.opened(stream);
  }

  #takePing(flags: number, id: number): void {
    if ((flags & SYN) !== 0) this.#answer(frame(PING, ACK, 0, id));
    else if ((flags & ACK) !== 0) this.#carrier.ponged(id);
  }

  #answer(bytes: Bytes): void {
    if (this.#answers >= ANSWERS_MAX) throw malformed("a peer that asks on and reads nothing");
    this.#answers++;
    const done = (): void => {
      this.#answers--;
    };
    this.#carrier.send(bytes).then(done, done);
  }

  #add(stream: Stream, side: "own" | "peer"): void {
    this.#streams.set(stream.id, stream);
    this.#count[side]++;
    this.#windows += WINDOW;
  }

  data(stream: Stream, bytes: Bytes, isLast: boolean): Promise<void> {
    if (!this.#streams.has(stream.id)) return Promise.resolve();
    const flags = (this.#unsaid.delete(stream.id) ? SYN : 0) | (isLast ? FIN : 0);
    return this.#carrier.send(concat(frame(DATA, flags, stream.id, bytes.length), bytes));
  }

  credit(stream: Stream, bytes: number): void {
    // At most one for each half of a window that the peer has used: it cannot have them pile up.
    const flags = this.#unsaid.delete(stream.id) ? SYN : 0;
    this.#carrier.send(frame(WINDOW_UPDATE, flags, stream.id, bytes)).catch(() => undefined);
  }

  growth(stream: Stream): number {
    // Peers of v1 end the session where a window grows past what it was to begin with.
    if (!this.#isNative) return 0;
    const growth = Math.min(stream.window, WINDOW_MAX - stream.window, WINDOWS_MAX - this.#windows);
    if (growth <= 0) return 0;
    this.#windows += growth;
    return growth;
  }

  reset(stream: Stream): void {
    if (this.#unsaid.delete(stream.id)) return;
    this.#carrier.send(frame(WINDOW_UPDATE, RST, stream.id, 0)).catch(() => undefined);
  }

  finished(stream: Stream): void {
    if (!this.#streams.delete(stream.id)) return;
    this.#unsaid.delete(stream.id);
    this.#windows -= stream.window;
    const isOwn = (stream.id % 2 === 1) === this.#isClient;
    this.#count[isOwn ? "own" : "peer"]--;
    if (isOwn) this.#waiting.shift()?.();
  }
}

function frame(type: number, flags: number, id: number, length: number): Bytes {
  return concat(Uint8Array.of(0, type), uint(flags, 2), uint(id, 4), uint(length, 4));
}

function malformed(what: string): ChannelError {
  return new ChannelError("stream", "streams_malformed", what);
}
