/** HTTP through a `fetch`: with deadlines, bounds and no redirects. */
import { type Bytes, concat, owned } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import type { HeaderList } from "../wire/headers.js";
import type { ResponseHead } from "./refusal.js";

/** A request as it goes out. */
export interface HttpRequest {
  readonly method: string;
  readonly headers: HeaderList;
  readonly body?: Bytes | ReadableStream<Uint8Array> | undefined;
  /** How the body gets on, if it flows: an answer has its time from when a part was last taken. */
  readonly pace?: Pace | undefined;
  /** Whether cookies go with it, as `fetch` has it. */
  readonly credentials?: RequestCredentials | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether an answer that is a redirect is given to the caller where the platform shows it. */
  readonly showRedirects?: boolean | undefined;
}

/** How a body that flows gets on. */
export interface Pace {
  /** A part was taken, or, if `isIdle`, its source is waited for: that may take as long as it likes. */
  note?: ((isIdle: boolean) => void) | undefined;
  /** Lets go of the source: a `fetch` that ends early may keep what it reads from. */
  stop?: () => void;
}

export class Transport {
  readonly #fetch: typeof fetch;
  readonly timeoutMs: number;

  constructor(run: typeof fetch, timeoutMs: number) {
    this.#fetch = run;
    this.timeoutMs = timeoutMs;
  }

  /**
   * Sends a request and waits for the head of its answer.
   *
   * @throws {SealwayError} `timeout`, `network`, `redirected`; the reason of `signal` when that is aborted.
   */
  async send(url: URL, outgoing: HttpRequest): Promise<HttpResponse> {
    const watch = new Watch(url.host, this.timeoutMs, outgoing.signal);
    const { body, pace } = outgoing;
    if (pace !== undefined) {
      pace.note = (isIdle) => (isIdle ? watch.pause() : watch.restart());
      watch.signal.addEventListener("abort", () => pace.stop?.());
    }
    const init: RequestInit & { duplex?: "half" } = {
      method: outgoing.method,
      headers: outgoing.headers as [string, string][],
      redirect: "manual",
      cache: "no-store",
      signal: watch.signal,
    };
    if (outgoing.credentials !== undefined) init.credentials = outgoing.credentials;
    if (body !== undefined) init.body = body;
    if (body instanceof ReadableStream) init.duplex = "half";
    const response = await watch.guard(() => this.#fetch(url, init));
    if (pace !== undefined) {
      pace.note = undefined;
      watch.restart();
    }
    const { status, type } = response;
    const isRedirect = type === "opaqueredirect" || [301, 302, 303, 307, 308].includes(status);
    if (isRedirect && (outgoing.showRedirects !== true || type === "opaqueredirect")) {
      watch.stop();
      throw new SealwayError("redirected", `${url.host} redirects: not followed`, { status });
    }
    return new HttpResponse(url.host, response, watch);
  }
}

/** An answer whose body is yet to be read. */
export class HttpResponse implements ResponseHead {
  readonly host: string;
  readonly status: number;
  readonly headers: HeaderList;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #watch: Watch;
  /** How many bytes of the body have come. */
  received = 0;

  constructor(host: string, response: Response, watch: Watch) {
    this.host = host;
    this.status = response.status;
    this.headers = [...response.headers];
    this.#reader = response.body?.getReader();
    this.#watch = watch;
  }

  /** Begins the time for the next part anew. */
  restart(): void {
    this.#watch.restart();
  }

  /** Stops the time: nobody waits now. */
  pause(): void {
    this.#watch.pause();
  }

  /** What comes next; none at the end. The time for it runs on from one part to the next until {@link restart}. */
  async read(): Promise<Uint8Array | undefined> {
    const value = (await this.#watch.guard(async () => this.#reader?.read()))?.value;
    if (value) this.received += value.length;
    else this.#watch.finish();
    return value;
  }

  /**
   * The whole body.
   *
   * @throws {SealwayError} `body_too_large`, `timeout`, `network`.
   */
  async whole(lengthMax: number): Promise<Bytes> {
    const parts: Uint8Array[] = [];
    for (;;) {
      const part = await this.read();
      if (part === undefined) break;
      if (this.received > lengthMax) {
        this.stop();
        const what = `the answer has more than ${lengthMax} bytes`;
        throw new SealwayError("body_too_large", what, { status: this.status });
      }
      parts.push(part);
    }
    const [only] = parts;
    return parts.length === 1 && only !== undefined ? owned(only) : concat(...parts);
  }

  /** Lets go of the rest. */
  stop(): void {
    this.#watch.stop();
    this.#reader?.cancel().catch(() => undefined);
  }
}

/** Ends an exchange when its time is over or its caller wants no more of it. */
class Watch {
  readonly #controller = new AbortController();
  readonly #host: string;
  readonly #timeoutMs: number;
  readonly #callers: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#controller.abort();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isLate = false;

  constructor(host: string, timeoutMs: number, callers: AbortSignal | undefined) {
    this.#host = host;
    this.#timeoutMs = timeoutMs;
    this.#callers = callers;
    callers?.addEventListener("abort", this.#onAbort);
    if (callers?.aborted) this.#controller.abort();
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  pause(): void {
    clearTimeout(this.#timer);
  }

  restart(): void {
    this.pause();
    this.#timer = setTimeout(() => {
      this.#isLate = true;
      this.#controller.abort();
    }, this.#timeoutMs);
  }

  /** Nothing more is waited for. */
  finish(): void {
    clearTimeout(this.#timer);
    this.#callers?.removeEventListener("abort", this.#onAbort);
  }

  stop(): void {
    this.finish();
    this.#controller.abort();
  }

  /** Runs a step; a `fetch` of somebody's own may not look at the signal, so it is raced with it. */
  async guard<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await abortable(run(), this.signal);
    } catch (error) {
      this.stop();
      if (this.#isLate) {
        const what = `no answer from ${this.#host} in ${this.#timeoutMs} ms`;
        throw new SealwayError("timeout", what, { blame: "network" });
      }
      if (this.#callers?.aborted) throw this.#callers.reason;
      // A body of the caller's that breaks off is its own error.
      if (error instanceof SealwayError) throw error;
      const what = `no answer from ${this.#host}, or it broke off`;
      throw new SealwayError("network", what, { blame: "network", cause: error });
    }
  }
}

/** Waits no longer than a signal lets one. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  // Whoever waits no longer does not hear of its end: that is nobody's unhandled rejection.
  promise.catch(() => undefined);
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop);
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
