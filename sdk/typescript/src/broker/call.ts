/** Steps of every call: its turn, the breaker, attempts, and one deadline over all of them. */
import {
  Client,
  connectivityState,
  credentials,
  Metadata,
  type MethodDefinition,
  type ServiceError,
} from "@grpc/grpc-js";
import { Check } from "../wire/check.js";
import { Breaker, type BreakerOptions, type BreakerState } from "./breaker.js";
import { BrokerError, type Delivery } from "./error.js";
import { services } from "./schema.js";

/** Options of retries, always within the deadline of a call. Times are in ms. */
export interface RetryOptions {
  /** Attempts of one call, the first included; 1 never repeats. Default: 5. */
  readonly attempts: number;
  /** The longest pause before the second attempt; it doubles with each. Default: 20. */
  readonly firstMs: number;
  /** The longest pause at all. Default: 500. */
  readonly longestMs: number;
}

/** Options of a {@link BrokerClient}. */
export interface BrokerOptions {
  /** The path of its Unix socket. */
  readonly socket: string;
  /** Deadline of a call with its attempts and pauses, in ms; the broker gets the remaining time. Default: 5,000. */
  readonly deadlineMs?: number;
  readonly retry?: Partial<RetryOptions>;
  /** False for never. */
  readonly breaker?: Partial<BreakerOptions> | false;
  /** Calls under way at a time; others wait. Default: 256. */
  readonly inFlightMax?: number;
  /** Calls that wait for their turn; one more fails at once. Default: 1,024. */
  readonly waitingMax?: number;
  /** The longest message, sent or received, in bytes. Default: 4 MiB. */
  readonly messageMax?: number;
}

/** About one call. */
export interface CallOptions {
  readonly deadlineMs?: number;
  /** A W3C `traceparent`: `00-TRACE-SPAN-FLAGS`. */
  readonly traceparent?: string;
  /** Takes the call back. */
  readonly signal?: AbortSignal;
}

const CANCELLED = 1;
const INVALID = 3;
const LATE = 4;
const EXHAUSTED = 8;
const TOO_LONG = 11;
const UNAVAILABLE = 14;

/** Sent twice, these could make a key or a version that nobody knows of. */
const ONCE = new Set(["Generate", "Import", "Rotate"]);

/** Time for which a call waits for a lost connection before it fails, in ms. */
const RECONNECT_TIME_MS = 100;

interface Failure {
  readonly code: number;
  readonly text: string;
  readonly sent: Delivery;
}

const check = new Check((message) => new TypeError(message));

function checkBroker(options: BrokerOptions): void {
  check.object(options, "options", "{ socket } at least");
  const { socket, retry, breaker } = options;
  const what = "the path of the broker's Unix socket";
  check.needs(typeof socket === "string" && socket !== "", "socket", socket, what);
  check.numbers(options, 1, false, "deadlineMs");
  check.numbers(options, 1, true, "inFlightMax", "messageMax");
  check.numbers(options, 0, true, "waitingMax");
  if (retry !== undefined) {
    check.object(retry, "retry");
    check.numbers(retry, 1, true, "attempts");
    check.numbers(retry, 0, false, "firstMs", "longestMs");
  }
  if (breaker !== undefined && breaker !== false) {
    check.object(breaker, "breaker", "an object, or false for none");
    check.numbers(breaker, 1, true, "failures", "probes");
    check.numbers(breaker, 0, false, "openForMs");
  }
}

/** The connection to one broker, and the bounds on its calls. */
export class Caller {
  readonly #client: Client;
  readonly #breaker: Breaker | undefined;
  readonly #retry: RetryOptions;
  readonly #deadlineMs: number;
  readonly #inFlightMax: number;
  readonly #waitingMax: number;
  readonly #messageMax: number;
  readonly #turns: (() => void)[] = [];
  #inFlight = 0;

  constructor(options: BrokerOptions) {
    checkBroker(options);
    this.#messageMax = options.messageMax ?? 4 << 20;
    this.#client = new Client(`unix:${options.socket}`, credentials.createInsecure(), {
      "grpc.enable_retries": 0,
      "grpc.initial_reconnect_backoff_ms": 20,
      "grpc.min_reconnect_backoff_ms": 20,
      "grpc.max_reconnect_backoff_ms": 500,
      "grpc.max_receive_message_length": this.#messageMax,
      "grpc.max_send_message_length": this.#messageMax,
      "grpc.use_local_subchannel_pool": 1,
    });
    this.#breaker = options.breaker === false ? undefined : new Breaker(options.breaker);
    this.#retry = { attempts: 5, firstMs: 20, longestMs: 500, ...options.retry };
    this.#deadlineMs = options.deadlineMs ?? 5_000;
    this.#inFlightMax = options.inFlightMax ?? 256;
    this.#waitingMax = options.waitingMax ?? 1024;
  }

  get breakerState(): BreakerState {
    return this.#breaker?.state(performance.now()) ?? "closed";
  }

  close(): void {
    this.#client.close();
  }

  /** Makes a call of `service` (its full name). @throws BrokerError. */
  async call(service: string, operation: string, request: object, options: CallOptions): Promise<unknown> {
    const refuse = (code: number, text: string): BrokerError =>
      new BrokerError(operation, code, text, "no", 0);
    const definition = services()[service] as Record<string, MethodDefinition<object, object>>;
    const method = definition[operation]!;
    const metadata = new Metadata();
    if (options.traceparent !== undefined) {
      if (!isTraceParent(options.traceparent)) throw refuse(INVALID, "the traceparent is none");
      metadata.set("traceparent", options.traceparent);
    }
    const length = lengthOf(method, request);
    if (length === undefined) throw refuse(INVALID, "the request is none of its operation");
    if (length > this.#messageMax)
      throw refuse(TOO_LONG, `a message of ${length} bytes, of at most ${this.#messageMax}`);
    const deadlineMs = Math.min(Math.max(options.deadlineMs ?? this.#deadlineMs, 1), 3_600_000);
    const endMs = performance.now() + deadlineMs;
    return await this.#attempts(operation, method, request, metadata, {
      deadlineMs,
      endMs,
      signal: options.signal,
    });
  }

  async #attempts(
    operation: string,
    method: MethodDefinition<object, object>,
    request: object,
    metadata: Metadata,
    limits: { deadlineMs: number; endMs: number; signal: AbortSignal | undefined },
  ): Promise<unknown> {
    const { endMs, signal } = limits;
    let [attempts, isSent] = [0, false];
    let last: Failure | undefined;
    const fails = ({ code, text, sent }: Failure): BrokerError =>
      new BrokerError(operation, code, text, sent, attempts);
    for (let tried = 1; ; tried++) {
      const turn = await this.#turn(endMs, signal);
      let failure: Failure;
      if (turn !== undefined) failure = turn;
      else {
        try {
          const pass = this.#breaker?.pass(performance.now());
          if (typeof pass === "number") {
            failure = {
              code: UNAVAILABLE,
              text: `the circuit breaker is open, for ${Math.ceil(pass)} ms yet`,
              sent: "no",
            };
          } else {
            attempts++;
            const result = await this.#attempt(method, request, metadata, endMs, signal);
            const isAway = "failure" in result && result.failure.code === UNAVAILABLE;
            const isTakenBack = "failure" in result && result.failure.code === CANCELLED;
            // What the broker refused is no sign that it is away.
            pass?.(isTakenBack ? undefined : !isAway, performance.now());
            if ("answer" in result) return result.answer;
            failure = result.failure;
            isSent ||= failure.sent !== "no";
          }
        } finally {
          this.#next();
        }
      }
      if (isSent && failure.sent === "no") failure = { ...failure, sent: "perhaps" };
      const isSafe = !isSent || !ONCE.has(operation);
      const isLast = tried >= this.#retry.attempts || attempts === 0;
      if (failure.code === LATE && failure.sent !== "answered") {
        const before = last === undefined ? "" : `; before that: ${last.text}`;
        throw fails({ ...failure, text: `no answer within ${limits.deadlineMs} ms${before}` });
      }
      if (failure.code !== UNAVAILABLE || !isSafe || isLast) {
        // What is refused here was no work of the event loop's: a caller that tries again at once would let it do nothing else.
        if (attempts === 0) await loopTurned();
        throw fails(failure);
      }
      last = failure;
      // No turn is held while it waits, or callers of a broker that is away would hold up each other.
      const most = Math.min(this.#retry.firstMs * 2 ** Math.min(tried - 1, 20), this.#retry.longestMs);
      await pause(Math.min(most * Math.random(), Math.max(endMs - performance.now(), 0)), signal);
    }
  }

  async #attempt(
    method: MethodDefinition<object, object>,
    request: object,
    metadata: Metadata,
    endMs: number,
    signal: AbortSignal | undefined,
  ): Promise<{ answer: unknown } | { failure: Failure }> {
    const away = await this.#connected(endMs, signal);
    if (away !== undefined) return { failure: away };
    return await new Promise((resolve) => {
      const deadline = new Date(Date.now() + Math.max(endMs - performance.now(), 1));
      const { path, requestSerialize, responseDeserialize } = method;
      const done = (error: ServiceError | null, answer?: object): void => {
        signal?.removeEventListener("abort", cancel);
        resolve(error === null ? { answer } : { failure: failureOf(error) });
      };
      const call = this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        metadata,
        { deadline },
        done,
      );
      const cancel = (): void => call.cancel();
      signal?.addEventListener("abort", cancel);
      if (signal?.aborted) cancel();
    });
  }

  /** Waits for a connection, or for the news that there is none. Nothing was sent where it says why. */
  async #connected(endMs: number, signal: AbortSignal | undefined): Promise<Failure | undefined> {
    const channel = this.#client.getChannel();
    const deadline = Date.now() + Math.max(endMs - performance.now(), 1);
    let hasTried = false;
    for (let state = channel.getConnectivityState(true); ; state = channel.getConnectivityState(true)) {
      if (signal?.aborted) return { code: CANCELLED, text: "the call was taken back", sent: "no" };
      if (state === connectivityState.READY) return undefined;
      if (state === connectivityState.SHUTDOWN)
        return { code: CANCELLED, text: "the client has ended", sent: "no" };
      const isAway = state === connectivityState.TRANSIENT_FAILURE;
      const away: Failure = { code: UNAVAILABLE, text: "nobody listens on the socket", sent: "no" };
      if (isAway && hasTried) return away;
      hasTried ||= state === connectivityState.CONNECTING;
      // The library tries again by itself, and says nothing of it until it succeeds.
      const untilMs = isAway ? Math.min(deadline, Date.now() + RECONNECT_TIME_MS) : deadline;
      const isLate = await new Promise<boolean>((resolve) => {
        const cancel = (): void => resolve(false);
        signal?.addEventListener("abort", cancel, { once: true });
        channel.watchConnectivityState(state, untilMs, (error) => {
          signal?.removeEventListener("abort", cancel);
          resolve(error !== undefined);
        });
      });
      if (isLate) return isAway ? away : { code: LATE, text: "there is no connection", sent: "no" };
    }
  }

  /** A turn among those under way, or why there is none. */
  async #turn(endMs: number, signal: AbortSignal | undefined): Promise<Failure | undefined> {
    if (signal?.aborted) return { code: CANCELLED, text: "the call was taken back", sent: "no" };
    if (this.#inFlight < this.#inFlightMax) {
      this.#inFlight++;
      return undefined;
    }
    if (this.#turns.length >= this.#waitingMax)
      return { code: EXHAUSTED, text: "too many calls wait already", sent: "no" };
    return await new Promise((resolve) => {
      const leave = (failure: Failure | undefined): void => {
        clearTimeout(late);
        signal?.removeEventListener("abort", cancel);
        const at = this.#turns.indexOf(take);
        if (at >= 0) this.#turns.splice(at, 1);
        resolve(failure);
      };
      const take = (): void => leave(undefined);
      const cancel = (): void => leave({ code: CANCELLED, text: "the call was taken back", sent: "no" });
      const late = setTimeout(
        () => leave({ code: LATE, text: "no turn came", sent: "no" }),
        Math.max(endMs - performance.now(), 0),
      );
      signal?.addEventListener("abort", cancel);
      this.#turns.push(take);
    });
  }

  /** Gives the turn to the call that has waited longest. */
  #next(): void {
    const next = this.#turns[0];
    if (next === undefined) this.#inFlight--;
    else next();
  }
}

/** From `00-TRACE-SPAN-FLAGS` in lower-case hexadecimal, neither of which is zeros. */
export function isTraceParent(text: string): boolean {
  return /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/.test(text);
}

function lengthOf(method: MethodDefinition<object, object>, request: object): number | undefined {
  try {
    return method.requestSerialize(request).length;
  } catch {
    return undefined;
  }
}

function failureOf(error: ServiceError): Failure {
  // The library's own words, where no answer came.
  const isOwn = /^(No connection established|Name resolution|Failed to (start|connect))/.test(error.details);
  const isLost =
    /Connection dropped|ECONNRESET|Stream (refused|removed)|^Received RST_STREAM|Cancelled|^Deadline exceeded|channel has been shut down/i;
  const sent: Delivery = isOwn ? "no" : isLost.test(error.details) ? "perhaps" : "answered";
  return { code: error.code, text: error.details, sent };
}

/** The event loop has looked at sockets and timers. */
function loopTurned(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}
