/** The one-shot client: a `fetch` that seals each request to a public key of the service, without a session. */
import { moment, passedMs, steadyMs, wallMs } from "../client/clock.js";
import { wholeOf } from "../client/flow.js";
import { platformProvider } from "../client/platform.js";
import { notOurs, type ResponseHead } from "../client/refusal.js";
import { type Call, callOf } from "../client/request.js";
import { exchange, fetchKeys, type PlainResponse, type RefusalOf, sendCall } from "../client/sealed.js";
import { about } from "../client/stage.js";
import { abortable, Transport } from "../client/transport.js";
import type { Provider } from "../crypto/provider.js";
import { isSafe, parseProblem } from "../session/native/problem.js";
import type { UsableKey } from "../session/one-shot/document.js";
import { drawEncapsulation } from "../session/one-shot/hpke.js";
import { codeOf, isSentAgain, serverTimeMs } from "../session/one-shot/problem.js";
import { sealTo } from "../session/one-shot/request.js";
import { SealwayError } from "../wire/error.js";
import { PROBLEM_LEN_MAX } from "../wire/forms.js";
import type { Fetch } from "../wire/platform.js";
import { ClockSkew, KeyRetired, PolicyDenial, Replayed } from "./error.js";
import { DOCUMENT_PATH, ServiceKeys } from "./keys.js";
import { type OneShotOptions, type OneShotSettings, settingsOf } from "./options.js";

/** A client of a service's public key. */
export interface OneShot {
  /** Sends one sealed request; arguments and result are those of the platform's `fetch`. It needs no `this`. */
  readonly fetch: Fetch;
}

/**
 * Makes a client that seals each request by itself (wire 4). It sends nothing before its first use.
 *
 * @throws {SealwayError} `usage`.
 */
export function sealOnce(options: OneShotOptions): OneShot {
  return new OneShotClient(options);
}

/** Classes of errors, by their codes. */
const CLASSES: Readonly<Record<string, typeof SealwayError>> = {
  clock_skew: ClockSkew,
  policy: PolicyDenial,
  replayed: Replayed,
};

class OneShotClient implements OneShot {
  readonly #settings: OneShotSettings;
  readonly #transport: Transport;
  #keys: Promise<ServiceKeys> | undefined;
  /** Difference of the service's clock to the wall clock, in milliseconds, as a sealed problem gave it last. */
  #offsetMs = 0;

  constructor(options: OneShotOptions) {
    this.#settings = settingsOf(options);
    this.#transport = new Transport(this.#settings);
  }

  readonly fetch: typeof fetch = (input, init) => about(this.#settings.origin, this.#call(input, init));

  async #call(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const { origin, totalTimeoutMs } = this.#settings;
    const endsAt = steadyMs() + (totalTimeoutMs || Infinity);
    const call = await callOf(origin, endsAt, input, init);
    call.signal?.throwIfAborted();
    const provider = await platformProvider();
    this.#keys ??= ServiceKeys.of(provider, this.#settings);
    const keys = await this.#keys;
    const fetchDocument = () => fetchKeys(this.#transport, origin, DOCUMENT_PATH);
    const current = () =>
      abortable(keys.current(fetchDocument), call.signal, endsAt - steadyMs(), origin.host);
    return sendCall(
      call,
      () => about(origin, current(), true),
      (key) => this.#once(provider, keys, key, call),
    );
  }

  /** Seals a request to a key, with a new encapsulation, and opens the answer up to its first frame. */
  async #once(provider: Provider, keys: ServiceKeys, key: UsableKey, call: Call): Promise<PlainResponse> {
    const measure = this.#transport.measure("call", call.method, call.target);
    const made = measure.step("share", async () => {
      const drawn = await drawEncapsulation(provider, key.kem, key.publicKey);
      return sealTo(provider, key, this.#settings.psk, drawn);
    });
    const seal = await about(this.#settings.origin, made, true);
    const sent = moment();
    const stampMs = Math.floor(wallMs() + this.#offsetMs);
    const refused: RefusalOf = (_, head, body) => this.#refused(keys, call, head, body);
    const opened = await exchange(provider, this.#transport, seal, stampMs, call, measure, refused);
    if (!opened.isProblem) return opened;
    const body = await wholeOf(opened.flow, opened.first, PROBLEM_LEN_MAX);
    opened.done();
    throw this.#rejected(call, opened, body, stampMs, Math.ceil(passedMs(sent)) + 1);
  }

  /** Makes the error of an answer in plain, which anybody may have sent. */
  async #refused(
    keys: ServiceKeys,
    { method }: Call,
    head: ResponseHead,
    body: Uint8Array,
  ): Promise<SealwayError> {
    const { status } = head;
    const problem = parseProblem(body);
    const code = problem && codeOf(problem, false);
    if (problem === undefined || code === undefined)
      return new SealwayError("unsealed", notOurs(head), { status });
    const message = rejection(head, code, method);
    if (code !== "key_retired") return new SealwayError(code, message, { status, problem });
    const { kids, isTaken, cause } = await keys.retired(problem);
    const error = new KeyRetired(message, kids, { status, problem, ...(cause !== undefined && { cause }) });
    error.retryable = isTaken && isSentAgain(problem, false, method, 0, 0);
    return error;
  }

  /** Makes the error of a problem that the server has sealed, and takes its time. */
  #rejected(
    { method }: Call,
    head: ResponseHead,
    body: Uint8Array,
    stampMs: number,
    elapsedMs: number,
  ): SealwayError {
    const { host, status } = head;
    const problem = parseProblem(body);
    const code = problem && codeOf(problem, true);
    if (problem === undefined || code === undefined)
      return new SealwayError("answer_mismatch", `${host} sealed an unknown problem`, { status });
    const timeMs = serverTimeMs(problem, true);
    if (timeMs !== undefined) this.#offsetMs = timeMs - wallMs();
    const Class = Object.hasOwn(CLASSES, code) ? CLASSES[code]! : SealwayError;
    const error = new Class(code, rejection(head, code, method), { status, problem });
    error.retryable = isSentAgain(problem, true, method, stampMs, elapsedMs);
    return error;
  }
}

/** Message of a rejection. A copy of the request may have been served before it. */
function rejection({ host, status }: ResponseHead, code: string, method: string): string {
  const note = isSafe(method) ? "" : "; whether it was served is unknown";
  return `${host} rejected the request: ${status} ${code}${note}`;
}
