import type { Channel } from "../channel/channel.js";
import { check } from "../channel/check.js";
import type { Bytes } from "../channel/encoding.js";
import type { ChannelError } from "../channel/error.js";
import { jsonFrame, readFrame } from "../channel/hello.js";
import type { Stream } from "../channel/stream.js";
import type { Signal } from "../wire/platform.js";
import { type Envelope, encodeEnvelope, parseEnvelope, RPC_CODES } from "./envelope.js";
import { HandlerError, RpcError } from "./error.js";

/** Longest frame unless both ends were told otherwise, in bytes. */
export const FRAME_MAX = 1_048_576;
/** Default timeout of a call, in ms. */
export const TIMEOUT_MS = 30_000;

/** Context of a request for its handler. */
export interface CallContext {
  readonly typeId: number;
  /** For how long the caller waits, in ms, where it says so. */
  readonly timeoutMs: number | undefined;
  /** Fires when nobody waits for the answer any more. */
  readonly signal: Signal;
}

/** Answers a request: its result is the answer's payload. What it throws is 500, a `HandlerError` its own number. */
export type Handler = (payload: unknown, called: CallContext) => unknown;

/** Handlers and bounds of one side. */
export interface RpcOptions {
  /** By type. */
  readonly handlers?: Readonly<Record<number, Handler>>;
  /** Notifications by type, one after the other. What a listener throws is dropped. */
  readonly listeners?: Readonly<Record<number, (payload: unknown) => void>>;
  /** Requests that are handled at once (default: 256); the next is read when one of them is done. */
  readonly atOnceMax?: number;
  /** Longest frame that is read and written, in bytes. */
  readonly frameMax?: number;
}

/** About one call. */
export interface CallOptions {
  /** Timeout, in ms; at most 2^32 - 1. */
  readonly timeoutMs?: number;
  /** Takes the request back. */
  readonly signal?: Signal;
}

/** Frames in a row that are no envelope, before the stream is given up. */
const MALFORMED_MAX = 16;

interface PendingReply {
  readonly resolve: (payload: unknown) => void;
  readonly reject: (why: RpcError) => void;
}

/**
 * Remote calls on a stream, from either side: many at once, each with a deadline, and able to be taken back.
 * SPEC rpc.md#envelope
 */
export class Rpc {
  readonly #stream: Stream;
  readonly #handlers: ReadonlyMap<number, Handler>;
  readonly #listeners: ReadonlyMap<number, (payload: unknown) => void>;
  readonly #atOnceMax: number;
  readonly #frameMax: number;
  readonly #waiting = new Map<number, PendingReply>();
  readonly #running = new Map<number, AbortController>();
  #active = 0;
  #roomMade: (() => void) | undefined;
  #nextId = 1;
  #isOver = false;
  /** The peer answers nothing more, and may wait for answers. */
  #hasPeerFinished = false;
  /** Reason why the stream broke, if it did. */
  #why: ChannelError | undefined;
  readonly #reading: Promise<void>;

  private constructor(stream: Stream, options: RpcOptions) {
    check.needs(typeof stream?.read === "function", "stream", stream, "a Stream of a channel");
    this.#stream = stream;
    this.#handlers = byNumber("handlers", options.handlers);
    this.#listeners = byNumber("listeners", options.listeners);
    this.#atOnceMax = options.atOnceMax ?? 256;
    this.#frameMax = options.frameMax ?? FRAME_MAX;
    stream.onFail = (why, hadFinished) => {
      this.#why = why;
      // What a peer said before it finished is still read.
      if (!hadFinished) this.#end();
      this.#roomMade?.();
    };
    this.#reading = this.#read();
  }

  /** Opens a stream for calls. @throws ChannelError why the channel is over. */
  static async open(channel: Channel, options: RpcOptions = {}): Promise<Rpc> {
    check.needs(typeof channel?.open === "function", "channel", channel, "a Channel");
    checkRpc(options);
    return new Rpc(await channel.open({ kind: "rpc", v: 1 }), options);
  }

  /** Calls over a stream whose prologue has passed, from either side. */
  static over(stream: Stream, options: RpcOptions = {}): Rpc {
    checkRpc(options);
    return new Rpc(stream, options);
  }

  /** True after the end in both directions. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Calls of this side that wait for an answer. */
  get pending(): number {
    return this.#waiting.size;
  }

  /**
   * Asks the handler of a type and waits for its answer.
   * @throws RpcError.
   */
  async call(typeId: number, payload: unknown, options: CallOptions = {}): Promise<unknown> {
    const timeoutMs = Math.min(Math.max(Math.ceil(options.timeoutMs ?? TIMEOUT_MS), 0), 0xffff_ffff);
    const { signal } = options;
    const id = this.#nextId;
    this.#nextId = id >= Number.MAX_SAFE_INTEGER ? 1 : id + 1;
    const frame = this.#frame({ kind: "request", id, typeId, payload, timeoutMs });
    if (this.#isOver || this.#hasPeerFinished) throw this.#broken();
    if (signal?.aborted) throw new RpcError("rpc_cancelled", "the call was taken back");
    return await new Promise((resolve, reject) => {
      const done = (): void => {
        clearTimeout(late);
        signal?.removeEventListener("abort", cancel);
        this.#waiting.delete(id);
      };
      const giveUp = (why: RpcError): void => {
        done();
        reject(why);
        // The peer may still be at work on it.
        this.#send(this.#frame({ kind: "cancel", id })).catch(() => undefined);
      };
      const cancel = (): void => giveUp(new RpcError("rpc_cancelled", "the call was taken back"));
      // Timers hold no more than 2^31 - 1.
      const late = setTimeout(
        () => giveUp(new RpcError("rpc_timeout", `no answer within ${timeoutMs} ms`)),
        Math.min(timeoutMs, 0x7fff_ffff),
      );
      signal?.addEventListener("abort", cancel);
      this.#waiting.set(id, {
        resolve: (answer) => {
          done();
          resolve(answer);
        },
        reject: (why) => {
          done();
          reject(why);
        },
      });
      this.#send(frame).catch(() => this.#waiting.get(id)?.reject(this.#broken()));
    });
  }

  /**
   * Tells the peer something. It returns when that is on its way; nobody says whether it arrived.
   * @throws RpcError `rpc_too_large`, `transport_error`.
   */
  async notify(typeId: number, payload: unknown): Promise<void> {
    const frame = this.#frame({ kind: "notification", typeId, payload });
    await this.#send(frame).catch(() => {
      throw this.#broken();
    });
  }

  /** Says that this side asks nothing more; calls that wait are broken off. */
  async close(): Promise<void> {
    await this.#stream.end().catch(() => undefined);
    this.#end();
    this.#stream.reset();
  }

  /** Waits until nothing more can come or go. */
  over(): Promise<void> {
    return this.#reading;
  }

  #frame(envelope: Envelope): Bytes {
    const json = encodeEnvelope(envelope);
    if (json.length > this.#frameMax)
      throw new RpcError("rpc_too_large", `longer than ${this.#frameMax} bytes`);
    return jsonFrame(json);
  }

  async #send(frame: Bytes): Promise<void> {
    if (this.#isOver) throw this.#broken();
    await this.#stream.write(frame);
  }

  async #read(): Promise<void> {
    let malformed = 0;
    try {
      while (malformed < MALFORMED_MAX && !this.#isOver) {
        const json = await readFrame(this.#stream, this.#frameMax);
        this.#hasPeerFinished = json === undefined;
        if (json === undefined) break;
        const envelope = parseEnvelope(json);
        malformed = envelope === undefined ? malformed + 1 : 0;
        if (envelope !== undefined) await this.#take(envelope);
      }
    } catch {
      // A frame over its bound leaves no way to find the next one; or the stream broke off.
    }
    if (this.#hasPeerFinished) {
      // What it asked is still answered.
      this.#breakOff();
      while (this.#active > 0 && !this.#isOver && this.#why === undefined) await this.#room();
      await this.#stream.end().catch(() => undefined);
    }
    this.#end();
    this.#stream.reset();
  }

  async #take(envelope: Envelope): Promise<void> {
    switch (envelope.kind) {
      case "request":
        while (this.#active >= this.#atOnceMax && this.#why === undefined) await this.#room();
        // Nobody is there to hear the answer.
        if (this.#why !== undefined) return;
        this.#active++;
        void this.#handle(envelope);
        return;
      case "answer": {
        const waiting = this.#waiting.get(envelope.id);
        const { error, payload } = envelope;
        if (error === undefined) waiting?.resolve(payload);
        else waiting?.reject(RpcError.answered(error.code, error.message));
        return;
      }
      case "notification":
        try {
          this.#listeners.get(envelope.typeId)?.(envelope.payload);
        } catch {
          // Nobody waits for an answer that could say so.
        }
        return;
      case "cancel":
        this.#running.get(envelope.id)?.abort();
    }
  }

  async #handle(request: Envelope & { kind: "request" }): Promise<void> {
    const { id, typeId } = request;
    const stop = new AbortController();
    this.#running.set(id, stop);
    try {
      const result = await this.#answer(request, stop);
      // Who took a request back hears no answer.
      if (result !== undefined) await this.#send(this.#answerFrame(id, typeId, result));
    } catch {
      // The stream is over: nobody is there to hear.
    } finally {
      if (this.#running.get(id) === stop) this.#running.delete(id);
      stop.abort();
      this.#active--;
      this.#roomMade?.();
    }
  }

  /** A handler's answer, or nothing where nobody waits any more. */
  async #answer(request: Envelope & { kind: "request" }, stop: AbortController): Promise<Answer | undefined> {
    const { typeId, payload, timeoutMs } = request;
    const handler = this.#handlers.get(typeId);
    if (handler === undefined) return failure(RPC_CODES.handlerNotFound, "handler not found");
    const { signal } = stop;
    let late: ReturnType<typeof setTimeout> | undefined;
    const ended = new Promise<Answer | undefined>((resolve) => {
      signal.addEventListener("abort", () => resolve(undefined));
      if (timeoutMs === undefined) return;
      const tell = (): void => {
        resolve(failure(RPC_CODES.deadlineExceeded, "not done in the time that was given"));
        stop.abort();
      };
      late = setTimeout(tell, Math.min(timeoutMs, 0x7fff_ffff));
    });
    const handled = (async (): Promise<Answer> => {
      try {
        return { payload: await handler(payload, { typeId, timeoutMs, signal }) };
      } catch (error) {
        // The peer does not learn the reason, unless the handler gives one.
        if (error instanceof HandlerError) return failure(error.number, error.message);
        return failure(RPC_CODES.failed, "the handler failed");
      }
    })();
    const answer = await Promise.race([handled, ended]);
    clearTimeout(late);
    return answer;
  }

  #answerFrame(id: number, typeId: number, answer: Answer): Bytes {
    const { payload, error } = answer;
    try {
      return this.#frame({ kind: "answer", id, typeId, payload, error });
    } catch (cause) {
      const told =
        cause instanceof RpcError
          ? failure(RPC_CODES.tooLarge, `the answer is longer than ${this.#frameMax} bytes`)
          : failure(RPC_CODES.failed, "the handler failed");
      return jsonFrame(encodeEnvelope({ kind: "answer", id, typeId, payload: null, error: told.error }));
    }
  }

  /** Waits until a handler is done, or all is over. */
  #room(): Promise<void> {
    return new Promise((resolve) => {
      this.#roomMade = resolve;
    });
  }

  #breakOff(): void {
    for (const waiting of [...this.#waiting.values()]) waiting.reject(this.#broken());
  }

  #broken(): RpcError {
    const why = this.#why;
    const told = why === undefined ? "" : `: ${why.message}`;
    return new RpcError("transport_error", `the stream of calls is over${told}`, undefined, why);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#breakOff();
    for (const stop of this.#running.values()) stop.abort();
    this.#roomMade?.();
  }
}

interface Answer {
  readonly payload?: unknown;
  readonly error?: { readonly code: number; readonly message: string } | undefined;
}

function failure(
  code: number,
  message: string,
): Answer & { readonly error: { code: number; message: string } } {
  return { error: { code, message } };
}

function checkRpc(options: RpcOptions): void {
  check.object(options, "options");
  check.numbers(options, 1, true, "atOnceMax", "frameMax");
}

function byNumber<T>(name: string, members: Readonly<Record<number, T>> = {}): ReadonlyMap<number, T> {
  check.object(members, name, "functions by the number of their type, or leave it out");
  for (const [typeId, value] of Object.entries(members)) {
    const holds = /^\d+$/.test(typeId) && typeof value === "function";
    check.needs(holds, `${name}[${typeId}]`, value, "a function under the number of a type");
  }
  return new Map(Object.entries(members).map(([typeId, value]) => [Number(typeId), value as T]));
}
