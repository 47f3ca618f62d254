/** Sessions of wires 1 and 2 over HTTP. Nothing on these wires proves who the service is, nor why a call is refused. */
import type { Provider } from "../crypto/provider.js";
import {
  type CompatClientSession,
  CompatInit,
  openCompatAnswer,
  sealCompatRequest,
} from "../session/compat/client.js";
import { type Bytes, fromUtf8, hex, owned } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import { PROBLEM_LEN_MAX, WINDOW_MS } from "../wire/forms.js";
import { firstOf, X_KID } from "../wire/headers.js";
import { membersOf, parseJson } from "../wire/json.js";
import { moment, wallMs } from "./clock.js";
import { Measure, serverTiming } from "./measure.js";
import type { CallMetrics, SessionInfo, Settings } from "./options.js";
import { notOurs, type ResponseHead } from "./refusal.js";
import type { Call } from "./request.js";
import { Life } from "./session.js";
import type { Sessions } from "./slot.js";
import { Transport } from "./transport.js";

const INIT_PATH = "/session/init";

/** A session in use. */
export interface CompatSession {
  readonly session: CompatClientSession;
  readonly life: Life;
  readonly info: SessionInfo;
}

export class CompatClient {
  readonly #provider: Provider;
  readonly #settings: Settings;
  readonly #transport: Transport;
  readonly #onMetrics: (metrics: CallMetrics) => void;

  constructor(provider: Provider, settings: Settings, onMetrics: (metrics: CallMetrics) => void) {
    this.#provider = provider;
    this.#settings = settings;
    this.#transport = new Transport(settings.fetch, settings.timeoutMs);
    this.#onMetrics = onMetrics;
  }

  /** Agrees a session. */
  async agree(): Promise<CompatSession> {
    const provider = this.#provider;
    const { clientId, ttlSec, authorization, url } = this.#settings;
    const wire = this.#settings.wire === 1 ? 1 : 2;
    const measure = new Measure("init", "POST", INIT_PATH);
    const key = await measure.step("share", () => provider.p256());
    const init = new CompatInit(wire, false, clientId, ttlSec, key, provider.random(16), wallMs());
    const value = await authorization?.();
    const headers: [string, string][] = [...init.headers, ["Content-Type", "application/json"]];
    if (value !== undefined) headers.push(["Authorization", value]);
    measure.requestBytes = init.body.length;
    const outgoing = { method: "POST", headers, body: init.body };
    const received = await measure.http(() => this.#transport.send(new URL(INIT_PATH, url), outgoing));
    const arrived = moment();
    measure.status = received.status;
    measure.serverTiming = serverTiming(received.headers);
    const body = await measure.http(() => received.whole(PROBLEM_LEN_MAX));
    measure.responseBytes = body.length;
    try {
      // A captive portal answers with a page of its own, and 200.
      const isPage = /html/i.test(firstOf(received.headers, "Content-Type") ?? "");
      if (received.status !== 200 || isPage) throw refusal(received, body);
      const session = await measure.step("agree", () => init.finish(provider, body, wallMs()));
      const life = new Life(arrived, session.expiresInSec);
      const info: SessionInfo = Object.freeze({
        id: session.id,
        wire,
        suite: undefined,
        expiresInSec: session.expiresInSec,
        expiresAt: life.expiresAt,
        remainingMs: () => life.remainingMs(),
        keyId: undefined,
        auth: value === undefined ? "none" : "bearer",
      });
      return { session, life, info };
    } finally {
      this.#onMetrics(measure.done());
    }
  }

  /**
   * A call; after 401 `SESSION_EXPIRED` it is sent once more, in a new session. These wires prove nothing of a refusal, as
   * `spec/session.md` has it: whoever is in between can have a call served twice.
   */
  async call(call: Call, sessions: Sessions<CompatSession>): Promise<Response> {
    if (call.method !== "POST") {
      throw new SealwayError("policy", "wires 1 and 2 seal POST alone", { blame: "caller" });
    }
    const body = owned(new Uint8Array(await new Response(call.body).arrayBuffer()));
    const agreed = await sessions.get();
    try {
      return await this.#once(agreed, call, body);
    } catch (error) {
      if (!(error instanceof SealwayError && error.code === "session_expired")) throw error;
      sessions.drop(agreed);
      return this.#once(await sessions.get(), call, body);
    }
  }

  async #once(agreed: CompatSession, call: Call, plaintext: Bytes): Promise<Response> {
    const provider = this.#provider;
    const { session } = agreed;
    const path = call.target.split("?", 1)[0] ?? "/";
    const measure = new Measure("call", call.method, call.target);
    const [stamp, nonce] = [String(wallMs()), hex(provider.random(16))];
    const sealed = await measure.step("seal", () =>
      sealCompatRequest(session, path, plaintext, stamp, nonce, provider.random(12)),
    );
    const headers: [string, string][] = [...sealed.headers, ["Content-Type", sealed.contentType]];
    measure.requestBytes = sealed.body.length;
    const { url, method, signal, credentials, showRedirects } = call;
    const outgoing = { method, headers, body: sealed.body, signal, credentials, showRedirects };
    const received = await measure.http(() => this.#transport.send(url, outgoing));
    measure.status = received.status;
    measure.serverTiming = serverTiming(received.headers);
    try {
      const isSealed = firstOf(received.headers, X_KID) !== undefined;
      const lengthMax = isSealed ? this.#settings.answerMax : PROBLEM_LEN_MAX;
      const body = await measure.http(() => received.whole(lengthMax));
      measure.responseBytes = body.length;
      if (!isSealed) throw refusal(received, body);
      const { status } = received;
      const opened = await measure.step("open", () =>
        openCompatAnswer(session, path, status, received.headers, body, wallMs(), WINDOW_MS),
      );
      // The type of the plaintext is not told on these wires; JSON is what services of theirs speak.
      const answer = new Response(opened, { status, headers: { "content-type": "application/json" } });
      Object.defineProperty(answer, "url", { value: url.href });
      return answer;
    } finally {
      this.#onMetrics(measure.done());
    }
  }
}

/** The error of an answer in plain: what it says is public, coarse and proven by nothing. */
function refusal(answered: ResponseHead, body: Uint8Array): SealwayError {
  const { host, status } = answered;
  let error: unknown;
  try {
    error = fromUtf8(body) === undefined ? undefined : membersOf(parseJson(body))?.["error"];
  } catch {
    error = undefined;
  }
  const said = typeof error === "string" && /^[A-Z_]{1,64}$/.test(error) ? error : undefined;
  const code = status === 401 && said === "SESSION_EXPIRED" ? "session_expired" : "unsealed";
  const what = said === undefined ? notOurs(answered) : `${host} refused: ${status} ${said}`;
  return new SealwayError(code, what, { status });
}
