/** Sessions of wire 3 over HTTP: agreed, renewed, ended, and the calls in them. */
import type { Provider } from "../crypto/provider.js";
import type { PendingCall } from "../session/native/client-call.js";
import { ClientInit } from "../session/native/client-init.js";
import { isSafe, parseProblem, provenTimeMs, sendsAgain } from "../session/native/problem.js";
import { drawShareKeys, type Suite } from "../session/native/suite.js";
import { toBase64Url } from "../wire/base64.js";
import type { Bytes } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import { INIT_LEN_MAX, PROBLEM_LEN_MAX } from "../wire/forms.js";
import type { HeaderList } from "../wire/headers.js";
import { type Moment, moment, passedMs, steadyMs } from "./clock.js";
import { wholeOf } from "./flow.js";
import type { Measure } from "./measure.js";
import type { Settings } from "./options.js";
import { notOurs, type ResponseHead } from "./refusal.js";
import type { Call } from "./request.js";
import { exchange, fetchKeys, type PlainResponse, type RefusalOf, sendCall } from "./sealed.js";
import { NativeSession } from "./session.js";
import type { Sessions } from "./slot.js";
import type { Transport } from "./transport.js";
import { KEY_SET_PATH, Keyring } from "./trust.js";

const INIT_PATH = "/v3/sessions";
/** An init's answer is of the size of its request. */
const ANSWER_LEN_MAX = 4 * INIT_LEN_MAX;

/** Code of the problem of an ended session; the service or an attacker on the path may have sent it. */
const EXPIRED = "session_expired";

/** Exchanges of wire 3 with one service. */
export class NativeClient {
  readonly #provider: Provider;
  readonly #settings: Settings;
  readonly #transport: Transport;
  #keyring: Promise<Keyring> | undefined;

  constructor(provider: Provider, settings: Settings, transport: Transport) {
    this.#provider = provider;
    this.#settings = settings;
    this.#transport = transport;
  }

  readonly #fetchSet = () => fetchKeys(this.#transport, this.#settings.authorityUrl, KEY_SET_PATH);

  /** Agrees a session, or renews `old`. */
  async agree(old?: NativeSession): Promise<NativeSession> {
    const { suites, clientId, ttlSec, authorization, proof, trust, authorityUrl, signatureAlgorithms } =
      this.#settings;
    this.#keyring ??= Keyring.of(this.#provider, trust, authorityUrl.origin, signatureAlgorithms);
    const ring = await this.#keyring;
    let suite: Suite = old === undefined ? suites[0] : (old.session.agreed.suite as Suite);
    let mayChange = true;
    let mayRetake = true;
    for (;;) {
      const path = old === undefined ? INIT_PATH : `${INIT_PATH}/${old.session.id}/renew`;
      const measure = this.#transport.measure(old === undefined ? "init" : "renew", "POST", path);
      const keys = await measure.step("share", () => drawShareKeys(this.#provider, suite));
      const value = old === undefined ? await authorization?.() : undefined;
      const pinnedKeyIds = ring.pinned();
      const own = { suite, suites, clientId, ttlSec, pinnedKeyIds, signatureAlgorithms };
      const offer = { ...own, authorization: value };
      const init = new ClientInit(this.#provider, offer, keys, old?.session);
      // A renewal is proof enough: it is sealed.
      if (old === undefined && proof) {
        const url = new URL(path, authorityUrl).href;
        init.prove(await proof(toBase64Url(await init.initHash()), url));
      }
      try {
        const begin = moment();
        const { status, body } = await this.#ask(init.body(), value, measure, path, old);
        const arrivedMs = steadyMs();
        const said = init.claimed(status, body).answer;
        const key = await ring.key(said.keyId, said.serverTimeMs, this.#fetchSet);
        const session = await measure.step("agree", () => init.finish(status, body, () => key));
        await ring.remember(session.agreed, this.#fetchSet);
        measure.done();
        return new NativeSession(session, begin, arrivedMs);
      } catch (error) {
        if (measure.status) measure.done();
        const problem = error instanceof SealwayError ? error.problem : undefined;
        // The problem's own choice is for a reader of logs: the two lists decide.
        const theirs = problem?.["suites"];
        const wanted = Array.isArray(theirs) ? suites.find((each) => theirs.includes(each)) : undefined;
        if (problem?.code === "suite_required" && wanted !== undefined && wanted !== suite && mayChange) {
          [suite, mayChange] = [wanted, false];
        } else if (problem?.code === "key_retired" && mayRetake) {
          mayRetake = false;
          await ring.retired(problem);
        } else {
          throw error;
        }
      }
    }
  }

  /** Sends an init in plain, or a renewal in the session that it is about. */
  async #ask(
    body: Bytes,
    authorization: string | undefined,
    measure: Measure,
    path: string,
    old: NativeSession | undefined,
  ): Promise<{ status: number; body: Bytes }> {
    const url = new URL(path, this.#settings.authorityUrl);
    const json: HeaderList = [["content-type", "application/json"]];
    if (old !== undefined) {
      const call = this.#own("POST", path, json, body);
      const opened = await this.#once(old, call, measure);
      const lenMax = opened.status === 201 ? ANSWER_LEN_MAX : PROBLEM_LEN_MAX;
      const answer = await wholeOf(opened.flow, opened.first, lenMax);
      opened.done();
      if (opened.status !== 201) throw refusal(opened, answer);
      return { status: opened.status, body: answer };
    }
    const headers = authorization === undefined ? json : [...json, ["Authorization", authorization] as const];
    measure.requestBytes = body.length;
    const received = await this.#transport.send(url, { method: "POST", headers, body }, measure);
    const lenMax = received.status === 201 ? ANSWER_LEN_MAX : PROBLEM_LEN_MAX;
    const answer = await measure.http(() => received.whole(lenMax));
    measure.responseBytes = answer.length;
    if (received.status !== 201) throw refusal(received, answer);
    return { status: received.status, body: answer };
  }

  /** Makes a call in the session in use, or in another one where the service has forgotten that. */
  call(call: Call, sessions: Sessions<NativeSession>): Promise<Response> {
    const once = (agreed: NativeSession) =>
      this.#once(agreed, call, this.#transport.measure("call", call.method, call.target)).catch((error) => {
        // Proven or not: else a client that only ever buys would stay with a session that its service forgot.
        if ((error as Partial<SealwayError>).code === EXPIRED) sessions.drop(agreed);
        throw error;
      });
    return sendCall(call, () => sessions.get(), once);
  }

  /** Has the service forget a session. */
  async end(agreed: NativeSession, endsAt: number): Promise<void> {
    const path = `${INIT_PATH}/${agreed.session.id}`;
    const call = { ...this.#own("DELETE", path, [], new Uint8Array()), endsAt };
    try {
      const opened = await this.#once(agreed, call, this.#transport.measure("end", "DELETE", path));
      const answer = await wholeOf(opened.flow, opened.first, PROBLEM_LEN_MAX);
      opened.done();
      if (opened.status < 200 || opened.status > 299) throw refusal(opened, answer);
    } catch (error) {
      // A service that does not know the session any more has ended it.
      if ((error as Partial<SealwayError>).code !== EXPIRED) throw error;
    }
  }

  /** A call of the client's own, about a session. */
  #own(method: string, target: string, headers: HeaderList, body: Bytes): Call {
    return { url: new URL(target, this.#settings.authorityUrl), method, target, headers, body };
  }

  #once(agreed: NativeSession, call: Call, measure: Measure): Promise<PlainResponse> {
    const sent = moment();
    const refused: RefusalOf = (...rest) => this.#refused(agreed, sent, ...rest);
    const stampMs = agreed.stampMs();
    return exchange(this.#provider, this.#transport, agreed.session, stampMs, call, measure, refused);
  }

  /** Makes the error of an answer in plain, and sets the session's clock where a proof gives the time. */
  async #refused(
    agreed: NativeSession,
    sent: Moment,
    pending: PendingCall,
    answered: ResponseHead,
    body: Bytes,
  ): Promise<SealwayError> {
    // Read first: the steps below take time that does not count. Both clocks may be read a moment too early.
    const elapsedMs = Math.ceil(passedMs(sent)) + 1;
    const { method } = pending.line;
    const error = refusal(answered, body, method);
    const { code, problem } = error;
    const time = problem && (await provenTimeMs(this.#provider, problem, pending));
    if (time !== undefined) agreed.setClock(time);
    error.retryable = sendsAgain(code, time, method, Number(pending.stamp), elapsedMs);
    return error;
  }
}

/** The error of an answer that is not what was hoped for. Nobody has signed it. */
function refusal(answered: ResponseHead, body: Uint8Array, method = "GET"): SealwayError {
  const { host, status } = answered;
  const problem = parseProblem(body);
  if (problem === undefined) {
    // What answers HEAD has no body to say more in; of sealed requests, this status has one reason.
    const isOver = method === "HEAD" && status === 401;
    return new SealwayError(isOver ? EXPIRED : "unsealed", notOurs(answered), { status });
  }
  const said = String(problem.code);
  const code = /^[a-z_]{1,64}$/.test(said) ? said : "unsealed";
  const isOpen = !isSafe(method) && (code === EXPIRED || code === "clock_skew");
  const note = isOpen ? "; whether it was served is unknown. The next call begins a new session" : "";
  return new SealwayError(code, `${host} refused: ${status} ${code}${note}`, { status, problem });
}
