/** HTTP through a `fetch`: with deadlines, bounds and no redirects. */
import { type Bytes, joined } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import type { HeaderList } from "../wire/headers.js";
import { steadyMs } from "./clock.js";
import { Measure, serverTiming } from "./measure.js";
import type { CallMetrics, Settings } from "./options.js";
import type { ResponseHead } from "./refusal.js";

/** A request as it goes out. */
export interface HttpRequest {
  readonly method: string;
  readonly headers: HeaderList;
  readonly body?: Bytes | ReadableStream<Uint8Array> | undefined;
  /** Progress of a streamed body: the time of the response begins with the last part that was sent. */
  readonly pace?: Pace | undefined;
  /** Cookie mode of `fetch`. */
  readonly credentials?: RequestCredentials | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Moment of the steady clock at which the whole call times out. Default: never. */
  readonly endsAt?: number | undefined;
  /** Passes a redirect to the caller where the platform shows it. */
  readonly showRedirects?: boolean | undefined;
}

/** Progress of a streamed body. */
export interface Pace {
  /** A part was taken, or, if `isIdle`, its source is waited for: that may take as long as it likes. */
  note?: ((isIdle: boolean) => void) | undefined;
  /** Lets go of the source: a `fetch` that ends early may keep what it reads from. */
  stop?: () => void;
}

/** Codes of causes that stand for a connection, or its TLS, that was never established. */
const UNCONNECTED = /CONNECT_TIMEOUT|CERT|UNABLE_TO|WRONG_VERSION/;

/** The settings that requests need. */
export type TransportSettings = Pick<Settings, "fetch" | "headTimeoutMs" | "idleTimeoutMs" | "onMetrics">;

export class Transport {
  readonly #settings: TransportSettings;

  constructor(settings: TransportSettings) {
    this.#settings = settings;
  }

  /** Begins the measurement of an exchange. */
  measure(endpoint: CallMetrics["endpoint"], method: string, path: string): Measure {
    return new Measure((metrics) => this.#settings.onMetrics?.(metrics), endpoint, method, path);
  }

  /**
   * Sends a request and waits for the head of its response.
   *
   * @throws {SealwayError} `timeout`, `unreachable`, `network`, `redirected`; the reason of `signal` when that is aborted.
   */
  async send(url: URL, outgoing: HttpRequest, measure: Measure): Promise<HttpResponse> {
    const watch = new Watch(url.host, this.#settings, outgoing);
    const { body, pace } = outgoing;
    if (pace !== undefined) {
      pace.note = (isIdle) => (isIdle ? watch.pause() : watch.restart());
      watch.signal.addEventListener("abort", () => pace.stop?.());
    }
    const { method, headers, credentials, showRedirects } = outgoing;
    const { signal } = watch;
    const fixed = { redirect: "manual", cache: "no-store", duplex: "half", signal };
    const init = { ...fixed, method, headers, credentials, body } as unknown as RequestInit;
    const response = await measure.http(() => watch.guard(() => this.#settings.fetch(url, init)));
    if (pace !== undefined) {
      pace.note = undefined;
      watch.restart();
    }
    const { status, type } = response;
    const isRedirect = type === "opaqueredirect" || /^30[12378]$/.test(`${status}`);
    if (isRedirect && (!showRedirects || type === "opaqueredirect")) {
      watch.stop();
      throw new SealwayError("redirected", `${url.host} redirects: not followed`, { status });
    }
    const received = new HttpResponse(url.host, response, watch);
    measure.status = status;
    measure.serverTiming = serverTiming(received.headers);
    return received;
  }
}

/** An answer whose body is yet to be read. */
export class HttpResponse implements ResponseHead {
  readonly host: string;
  readonly status: number;
  readonly headers: HeaderList;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #watch: Watch;
  /** Number of bytes of the body that have arrived. */
  received = 0;

  constructor(host: string, response: Response, watch: Watch) {
    this.host = host;
    this.status = response.status;
    // `fetch` joins headers of one name: one that may stand once alone must not look as if it did.
    this.headers = [...response.headers].flatMap(([name, value]) =>
      value.split(", ").map((each) => [name, each] as const),
    );
    this.#reader = response.body?.getReader();
    this.#watch = watch;
  }

  /** Begins the time for the next part. */
  next(): void {
    this.#watch.next();
  }

  /** Stops the time: nobody waits now. */
  pause(): void {
    this.#watch.pause();
  }

  /** Returns the next part; none at the end. The time for it runs on from one part to the next until {@link next}. */
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
    return joined(parts);
  }

  /** Lets go of the rest. */
  stop(): void {
    this.#watch.stop();
    this.#reader?.cancel().catch(() => undefined);
  }
}

/** Ends an exchange when its time is over or its caller aborts it. */
class Watch {
  readonly #controller = new AbortController();
  readonly #host: string;
  readonly #timeouts: TransportSettings;
  readonly #endsAt: number;
  readonly #callers: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#controller.abort(this.#callers?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(host: string, timeouts: TransportSettings, { signal, endsAt = Infinity }: HttpRequest) {
    this.#host = host;
    this.#timeouts = timeouts;
    this.#endsAt = endsAt;
    this.#callers = signal;
    signal?.addEventListener("abort", this.#onAbort);
    if (signal?.aborted) this.#onAbort();
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Only the time of the whole call runs on. */
  pause(): void {
    this.#arm(Infinity);
  }

  restart(): void {
    this.#arm(this.#timeouts.headTimeoutMs);
  }

  next(): void {
    this.#arm(this.#timeouts.idleTimeoutMs);
  }

  #arm(stepMs: number): void {
    clearTimeout(this.#timer);
    const ms = Math.min(stepMs, this.#endsAt - steadyMs());
    if (ms < Infinity) this.#timer = setTimeout(() => this.#controller.abort(late(this.#host)), ms);
  }

  /** The exchange is over. */
  finish(): void {
    clearTimeout(this.#timer);
    this.#callers?.removeEventListener("abort", this.#onAbort);
  }

  stop(): void {
    this.finish();
    this.#controller.abort();
  }

  /** Runs a step. It is raced with the signal, since a `fetch` that the caller passed may ignore that. */
  async guard<T>(run: () => Promise<T>): Promise<T> {
    const { signal } = this;
    try {
      return await abortable(run(), signal);
    } catch (error) {
      const reason = signal.aborted ? signal.reason : error;
      const isOwn = signal.aborted || error instanceof SealwayError;
      this.stop();
      if (isOwn) throw reason;
      const { cause } = error as { cause?: { errors?: any[] } };
      const { syscall, code = "" } = cause?.errors?.[0] ?? cause ?? {};
      const isUnreachable = /^(?:connect|getaddrinfo)$/.test(syscall) || UNCONNECTED.test(code);
      throw isUnreachable
        ? new SealwayError("unreachable", `${this.#host} is unreachable: ${code}`, { cause: error })
        : new SealwayError("network", `the connection to ${this.#host} broke`, { cause: error });
    }
  }
}

function late(host: string): SealwayError {
  return new SealwayError("timeout", `no answer from ${host} in time`);
}

/** Waits no longer than a signal, or `ms` milliseconds, allow. */
export async function abortable<T>(
  promise: Promise<T>,
  signal?: AbortSignal,
  ms = Infinity,
  host = "",
): Promise<T> {
  // The rejection of a promise that nobody awaits any more is handled.
  promise.catch(() => undefined);
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal?.reason);
    signal?.addEventListener("abort", stop);
    const timer = ms < Infinity ? setTimeout(() => reject(late(host)), ms) : undefined;
    promise.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    });
  });
}
