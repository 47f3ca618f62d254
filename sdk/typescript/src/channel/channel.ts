import { type Bytes, concat, text, u64, utf8 } from "./encoding.js";
import { ChannelError, ofRecord } from "./error.js";
import type { Role } from "./handshake.js";
import { encodeHello, type Hello, parseHello, readFrame } from "./hello.js";
import { CLOSE_REASON_MAX, type Content, type Opener, type Sealer } from "./record.js";
import type { Stream } from "./stream.js";
import type { Socket } from "./websocket.js";
import { Streams, V1_STREAMS_MAX } from "./yamux.js";

/** Liveness of a channel: detects that the peer is gone. */
export interface Liveness {
  /** Interval of pings, in ms. Default: 20 s. Relays end channels that are idle for 60 s. */
  readonly pingEveryMs: number;
  /** Longest silence of the peer, in ms. Default: 45 s. A browser cannot detect it with a peer of v1. */
  readonly silentMaxMs: number;
}

/** A stream that the peer opened, and what it said that it is for. */
export interface IncomingStream {
  readonly hello: Hello;
  readonly stream: Stream;
}

/** Both directions of a channel's records, on their connection. */
export interface Records {
  readonly socket: Socket;
  readonly sealer: Sealer;
  readonly opener: Opener;
}

/** Time for the hello of a stream, and for the reason at the end of streams, in ms. */
const HELLO_TIME_MS = 10_000;
const LAST_WORDS_TIME_MS = 1_000;
/** Time for the close message, in ms. */
const CLOSE_TIME_MS = 5_000;
/** Frames are gathered into a record of at most so many bytes. */
const GATHERED = 65_536;

interface OutgoingRecord {
  readonly frame: Bytes;
  readonly resolve: () => void;
  readonly reject: (why: unknown) => void;
}

/**
 * A channel: sealed end to end, with streams of both sides on it. It goes on until one side closes it or the connection
 * breaks. SPEC channel.md, rpc.md#streams
 */
export class Channel {
  /** This side's end. */
  readonly role: Role;
  readonly #records: Records;
  readonly #isNative: boolean;
  readonly #liveness: Liveness;
  readonly #streams: Streams;
  readonly #nowMs: () => number;
  readonly #outgoing: OutgoingRecord[] = [];
  readonly #due: Content[] = [];
  readonly #incoming: IncomingStream[] = [];
  readonly #accepting: ((incoming: IncomingStream | undefined) => void)[] = [];
  #isWriting = false;
  /** Reason why nothing more can be sent, while messages before the end of the connection are still read. */
  #mute: ChannelError | undefined;
  #over: ChannelError | undefined;
  #tellOver!: (why: ChannelError) => void;
  readonly #whenOver: Promise<ChannelError>;
  #timer: ReturnType<typeof setInterval> | undefined;
  #heardMs: number;
  #asked: { readonly id: bigint; readonly atMs: number } | undefined;
  #pings = 0n;
  #roundTripMs: number | undefined;
  #counts = { in: 0, out: 0 };
  #closing: ReturnType<typeof setTimeout> | undefined;

  /** @internal `attach`, `connectDirect` and `acceptDirect` make channels. */
  constructor(records: Records, role: Role, isNative: boolean, liveness: Liveness, nowMs: () => number) {
    this.role = role;
    this.#records = records;
    this.#isNative = isNative;
    this.#liveness = liveness;
    this.#nowMs = nowMs;
    this.#heardMs = nowMs();
    this.#whenOver = new Promise((resolve) => {
      this.#tellOver = resolve;
    });
    const channel = this;
    const carrier = {
      send: (frame: Bytes) => this.#send(frame),
      opened: (stream: Stream) => void this.#welcome(stream),
      goneAway: () => this.#goneAway(),
      ponged: () => undefined,
      get over() {
        return channel.#over;
      },
    };
    this.#streams = new Streams(carrier, role === "client", isNative);
    const { socket } = records;
    socket.stage = "record";
    socket.onLife = (pong) => {
      this.#heardMs = this.#nowMs();
      if (pong?.length === 8) this.#ponged(new DataView(pong.buffer, pong.byteOffset, 8).getBigUint64(0));
    };
    const every = Math.min(Math.max(liveness.pingEveryMs, 1), 86_400_000);
    this.#timer = setInterval(() => this.#tick(), every);
    void this.#read();
  }

  /** True after its end. */
  get isOver(): boolean {
    return this.#over !== undefined;
  }

  /** Records that came and that were sent. */
  get records(): { readonly in: number; readonly out: number } {
    return { ...this.#counts };
  }

  /** The last round trip that was measured by pings, in ms: to the peer, or in v1 to the next hop. */
  get roundTripMs(): number | undefined {
    return this.#roundTripMs;
  }

  /**
   * Opens a stream and says what it is for. Where 128 of this side are open (256 with a peer of v1), it waits for one to
   * end. The peer may not have heard of it when this returns.
   * @throws ChannelError why the channel is over; `hello_invalid`.
   */
  async open(hello: Hello): Promise<Stream> {
    const said = encodeHello(hello);
    const stream = await this.#streams.open();
    await stream.write(said);
    return stream;
  }

  /** The next stream that the peer opened, its prologue read; nothing when the channel is over. */
  async accept(): Promise<IncomingStream | undefined> {
    const incoming = this.#incoming.shift();
    if (incoming !== undefined || this.#over !== undefined) return incoming;
    return await new Promise((resolve) => this.#accepting.push(resolve));
  }

  /** The streams that the peer opens, until the channel is over. */
  async *incoming(): AsyncGenerator<IncomingStream, void> {
    for (let next = await this.accept(); next !== undefined; next = await this.accept()) yield next;
  }

  /** Changes the key of this side's records now. The native profile does so by itself. */
  rekey(): void {
    this.#say({ kind: "rekey" });
  }

  /** Asks the peer for a sign of life now; its answer updates `roundTripMs`. */
  ping(): void {
    const id = ++this.#pings;
    this.#asked = { id, atMs: this.#nowMs() };
    this.#say({ kind: "ping", value: this.#isNative ? id : 0n });
    // A record keeps the relay's clock in v1, and nobody answers it; this is answered by the next hop.
    if (!this.#isNative) this.#records.socket.ping(u64(id));
  }

  /**
   * Ends the channel in order: the peer hears the code (0 for nothing special) and the reason (at most 123 bytes),
   * authenticated. A peer of v1 hears the reason alone, which the relay can read. It returns when that was sent, or after 5 s.
   */
  async close(code = 0, reason = ""): Promise<void> {
    if (this.#over !== undefined) return;
    const said = cut(reason);
    let late: ReturnType<typeof setTimeout> | undefined;
    const inTime = new Promise<void>((resolve) => {
      late = setTimeout(resolve, CLOSE_TIME_MS);
    });
    const told = (async () => {
      await this.#streams.goAway(0);
      if (this.#isNative) this.#say({ kind: "close", code, reason: said });
      await this.#drained();
    })().catch(() => undefined);
    await Promise.race([told, inTime]);
    clearTimeout(late);
    this.#end(ofRecord("ended", "this side ended the channel"));
    // Where a record says why, the relay need not know.
    this.#records.socket.close(1000, this.#isNative ? "" : said);
  }

  /** Waits until the channel is over, and tells why: the code `ended` where one side ended it in order. */
  over(): Promise<ChannelError> {
    return this.#whenOver;
  }

  async #read(): Promise<void> {
    const { socket, opener } = this.#records;
    try {
      for (;;) {
        const message = await socket.receive();
        if (this.#over !== undefined) return;
        const content = await opener.open(message);
        this.#counts.in++;
        if (!this.#take(content)) return;
      }
    } catch (error) {
      const why = error instanceof ChannelError ? error : ofRecord("closed", "the connection is over");
      this.#end(why);
      if (why.code === "ended" || why.code === "closed") socket.close(1000, "");
      else socket.abort(why);
    }
  }

  /** Returns true to read on. */
  #take(content: Content): boolean {
    switch (content.kind) {
      case "data":
        this.#streams.feed(content.bytes);
        return true;
      case "ping":
        if (this.#isNative) this.#say({ kind: "pong", value: content.value });
        return true;
      case "pong":
        this.#ponged(content.value);
        return true;
      case "rekey":
        return true;
      case "close": {
        const reason = JSON.stringify(content.reason);
        this.#end(ofRecord("ended", `the peer ended the channel with the code ${content.code}: ${reason}`));
        this.#records.socket.close(1000, "");
        return false;
      }
    }
  }

  /** Passes a stream of the peer to `accept` after its hello. */
  async #welcome(stream: Stream): Promise<void> {
    const late = setTimeout(() => stream.reset(), HELLO_TIME_MS);
    try {
      const hello = parseHello(await readFrame(stream, 8192));
      clearTimeout(late);
      const accepting = this.#accepting.shift();
      if (accepting !== undefined) accepting({ hello, stream });
      else if (this.#incoming.length < V1_STREAMS_MAX) this.#incoming.push({ hello, stream });
      else stream.reset();
    } catch {
      clearTimeout(late);
      stream.reset();
    }
  }

  /** The peer has ended the streams; why, it says after that. */
  #goneAway(): void {
    this.#streams.fail(ofRecord("ended", "the peer ended the streams"));
    this.#closing ??= setTimeout(() => {
      this.#end(ofRecord("ended", "the peer ended the streams"));
      this.#records.socket.close(1000, "");
    }, LAST_WORDS_TIME_MS);
  }

  #tick(): void {
    const silent = this.#nowMs() - this.#heardMs;
    const isTold = this.#isNative || this.#records.socket.canPing;
    if (isTold && silent > this.#liveness.silentMaxMs) {
      const why = ofRecord("peer_silent", `nothing came for ${Math.round(silent)} ms`);
      this.#end(why);
      this.#records.socket.abort(why);
      return;
    }
    this.ping();
  }

  #ponged(id: bigint): void {
    if (this.#asked?.id !== id) return;
    this.#roundTripMs = this.#nowMs() - this.#asked.atMs;
    this.#asked = undefined;
  }

  /** Control messages beside streams; a bound limits those that a peer can cause. */
  #say(content: Content): void {
    if (this.#mute !== undefined || (content.kind !== "close" && this.#due.length >= 8)) return;
    this.#due.push(content);
    void this.#write();
  }

  #send(frame: Bytes): Promise<void> {
    const over = this.#over ?? this.#mute;
    if (over !== undefined) return Promise.reject(over);
    return new Promise((resolve, reject) => {
      this.#outgoing.push({ frame, resolve, reject });
      void this.#write();
    });
  }

  /** Seals and sends what waits, a record after the other. */
  async #write(): Promise<void> {
    if (this.#isWriting) return;
    this.#isWriting = true;
    const { socket, sealer } = this.#records;
    let taken: OutgoingRecord[] = [];
    try {
      // What is written in one turn goes out together.
      await Promise.resolve();
      while (this.#over === undefined && (this.#outgoing.length > 0 || this.#due.length > 0)) {
        taken = this.#gather();
        const frames = taken.map(({ frame }) => frame);
        const content: Content =
          frames.length > 0
            ? { kind: "data", bytes: frames.length === 1 ? frames[0]! : concat(...frames) }
            : this.#due.shift()!;
        this.#counts.out++;
        const record = await sealer.seal(content, this.#nowMs());
        await socket.send(record).catch((why: ChannelError) => {
          this.#mute = why;
        });
        if (this.#mute !== undefined) throw this.#mute;
        for (const { resolve } of taken) resolve();
        taken = [];
      }
    } catch (error) {
      const why = error instanceof ChannelError ? error : ofRecord("connection_lost", "nothing can be sent");
      for (const { reject } of [...taken, ...this.#outgoing.splice(0)]) reject(why);
      this.#due.length = 0;
      if (this.#mute === undefined) {
        this.#end(why);
        socket.abort(why);
      }
    } finally {
      this.#isWriting = false;
      this.#drain?.();
    }
  }

  /** Frames for the next record: none where something else is to be said and no frame waits. */
  #gather(): OutgoingRecord[] {
    const max = Math.min(GATHERED, this.#records.sealer.contentMax);
    const taken: OutgoingRecord[] = [];
    // A close is the last record, and what is urgent is short.
    if (this.#due.length > 0 && this.#due[0]!.kind !== "close") return taken;
    for (let room = max; this.#outgoing.length > 0; ) {
      room -= this.#outgoing[0]!.frame.length;
      if (room < 0 && taken.length > 0) break;
      taken.push(this.#outgoing.shift()!);
    }
    return taken;
  }

  #drain: (() => void) | undefined;

  /** Waits until nothing waits to be sent. */
  async #drained(): Promise<void> {
    while (this.#isWriting || this.#due.length > 0 || this.#outgoing.length > 0) {
      if (this.#over !== undefined) return;
      await new Promise<void>((resolve) => {
        this.#drain = resolve;
      });
    }
  }

  #end(why: ChannelError): void {
    if (this.#over !== undefined) return;
    this.#over = why;
    clearInterval(this.#timer);
    clearTimeout(this.#closing);
    this.#streams.fail(why);
    for (const { reject } of this.#outgoing.splice(0)) reject(why);
    for (const accept of this.#accepting.splice(0)) accept(undefined);
    for (const { stream } of this.#incoming.splice(0)) stream.fail(why);
    this.#records.sealer.wipe();
    this.#records.opener.wipe();
    this.#drain?.();
    this.#tellOver(why);
  }
}

/** As much of a reason as a close holds, whole characters. */
function cut(reason: string): string {
  const bytes = utf8(reason);
  for (let length = Math.min(bytes.length, CLOSE_REASON_MAX); ; length--) {
    const whole = text(bytes.subarray(0, length));
    if (whole !== undefined) return whole;
  }
}
