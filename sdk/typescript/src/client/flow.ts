/** Bodies of wire 3 as they flow: a request's is sealed frame by frame, an answer's opened frame by frame. */
import { FRAME_LEN_MAX, type FrameOpener, type FrameSealer } from "../session/native/stream.js";
import { type Bytes, concat, owned } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import type { HttpResponse, Pace } from "./transport.js";

/** A sealed body of a source that flows. A frame ends where a part of the source does; `pace` follows its progress. */
export function sealFlow(
  source: ReadableStream<Uint8Array>,
  sealer: FrameSealer,
  inner: Bytes,
  pace: Pace,
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  let isStopped = false;
  pace.stop = () => {
    isStopped = true;
    reader.cancel().catch(() => undefined);
  };
  let rest: Uint8Array = inner;
  let isFirst = true;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        pace.note?.(false);
        // The headers go out at once: a service may answer before the body is over.
        while (rest.length === 0 && !isFirst) {
          pace.note?.(true);
          const { done, value } = await reader.read();
          pace.note?.(false);
          // A source that was let go of looks as if it were over: what is cut must not be sealed as whole.
          if (isStopped) throw new TypeError("stopped");
          if (done) {
            controller.enqueue(await sealer.seal(new Uint8Array(), true));
            controller.close();
            return;
          }
          if (!(value instanceof Uint8Array)) throw new TypeError("a stream of bytes is needed");
          rest = value;
        }
        isFirst = false;
        const part = rest.subarray(0, FRAME_LEN_MAX);
        rest = rest.subarray(part.length);
        controller.enqueue(await sealer.seal(part, false));
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** Opens an answer as it comes. */
export class OpenFlow {
  readonly #received: HttpResponse;
  readonly #opener: FrameOpener;
  #hasEnded = false;
  #isBegun = false;

  /** `stream` is the one of `X-Sealed`, if the answer has no body. */
  constructor(received: HttpResponse, opener: FrameOpener, stream: Bytes | undefined) {
    this.#received = received;
    this.#opener = opener;
    if (stream !== undefined) opener.push(stream);
  }

  get host(): string {
    return this.#received.host;
  }

  /** True after the whole body has arrived and opened. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /**
   * The next frame's plaintext; none at the end, which is only there when the last frame was.
   *
   * @throws {SealwayError} `stream_truncated`, `frame_invalid`, `unsealable`, `timeout`, `network`.
   */
  async next(): Promise<Bytes | undefined> {
    // A part has its time from when it is asked for: a reader may take as long as it likes between two.
    if (this.#isBegun && !this.#hasEnded) this.#received.next();
    this.#isBegun = true;
    try {
      for (;;) {
        const frame = await this.#opener.next();
        if (frame !== undefined) {
          if (this.#opener.isDone) await this.#end();
          else this.#received.pause();
          return frame;
        }
        if (this.#hasEnded) return undefined;
        const data = await this.#received.read();
        if (data === undefined) this.#opener.finish();
        else this.#opener.push(data);
      }
    } catch (error) {
      this.#received.stop();
      throw error;
    }
  }

  /** Behind the last frame there may be nothing. */
  async #end(): Promise<void> {
    for (;;) {
      this.#opener.finish();
      const data = await this.#received.read();
      if (data === undefined) break;
      this.#opener.push(data);
    }
    this.#hasEnded = true;
  }

  stop(): void {
    this.#received.stop();
  }
}

/** Returns the body of an answer whose first part is open; `onEnd` runs once, at any end. */
export function bodyOf(flow: OpenFlow, first: Uint8Array, onEnd: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        if (first.length > 0) controller.enqueue(owned(first));
        if (flow.hasEnded) {
          onEnd();
          controller.close();
        }
      },
      async pull(controller) {
        try {
          let frame = await flow.next();
          // The last frame may hold nothing, and a stream wants something or its end.
          while (frame !== undefined && frame.length === 0) frame = await flow.next();
          if (frame !== undefined) controller.enqueue(frame);
          if (frame === undefined || flow.hasEnded) {
            onEnd();
            controller.close();
          }
        } catch (error) {
          onEnd();
          if (error instanceof SealwayError) error.host = flow.host;
          throw error;
        }
      },
      cancel() {
        flow.stop();
        onEnd();
      },
    },
    { highWaterMark: 0 },
  );
}

/** All of an answer, up to a bound in bytes. */
export async function wholeOf(flow: OpenFlow, first: Uint8Array, lengthMax: number): Promise<Bytes> {
  const parts = [first];
  let length = first.length;
  for (;;) {
    const frame = await flow.next();
    if (frame === undefined) return concat(...parts);
    length += frame.length;
    if (length > lengthMax) {
      flow.stop();
      throw new SealwayError("body_too_large", `the answer has more than ${lengthMax} bytes`);
    }
    parts.push(frame);
  }
}
