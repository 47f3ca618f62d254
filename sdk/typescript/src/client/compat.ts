/** Sessions of wires 1 and 2 over HTTP. Nothing on these wires proves who the service is, nor why a call is refused. */
import type { Provider } from "../crypto/provider.js";
import {
  type CompatClientSession,
  CompatInit,
  openCompatAnswer,
  sealCompatRequest,
} from "../session/compat/client.js";
import { type Bytes, fromUtf8, hex, owned } from "../wire/bytes.js";
import { SealwayError, wants } from "../wire/error.js";
import { PROBLEM_LEN_MAX, WINDOW_MS } from "../wire/forms.js";
import { firstOf, X_KID } from "../wire/headers.js";
import { membersOf, parseJson } from "../wire/json.js";
import { type Moment, moment, wallMs } from "./clock.js";
import type { Settings } from "./options.js";
import { notOurs, type ResponseHead } from "./refusal.js";
import type { Call } from "./request.js";
import type { CompatSession, Traits } from "./session.js";
import type { Sessions } from "./slot.js";
import type { Transport } from "./transport.js";

/** Calls in sessions of wires 1 and 2. */
export class CompatClient {
  readonly #provider: Provider;
  readonly #settings: Settings;
  readonly #transport: Transport;

  constructor(provider: Provider, settings: Settings, transport: Transport) {
    this.#provider = provider;
    this.#settings = settings;
    this.#transport = transport;
  }

  /** Agrees a session. */
  async agree(): Promise<{ session: CompatClientSession; begin: Moment; traits: Traits }> {
    const provider = this.#provider;
    const { clientId, ttlSec, authorization, authorityUrl, initPath } = this.#settings;
    const wire = this.#settings.wire === 1 ? 1 : 2;
    const measure = this.#transport.measure("init", "POST", initPath);
    const key = await measure.step("share", () => provider.p256());
    const init = new CompatInit(
      wire,
      initPath.endsWith("/anon"),
      clientId,
      ttlSec,
      key,
      provider.random(16),
      wallMs(),
    );
    const value = await authorization?.();
    const headers: [string, string][] = [...init.headers, ["Content-Type", "application/json"]];
    if (value !== undefined) headers.push(["Authorization", value]);
    measure.requestBytes = init.body.length;
    const outgoing = { method: "POST", headers, body: init.body };
    const begin = moment();
    const received = await this.#transport.send(new URL(initPath, authorityUrl), outgoing, measure);
    const body = await measure.http(() => received.whole(PROBLEM_LEN_MAX));
    measure.responseBytes = body.length;
    try {
      // A captive portal answers with a page of its own, and 200.
      const isPage = /html/i.test(firstOf(received.headers, "Content-Type") ?? "");
      if (received.status !== 200 || isPage) throw refusal(received, body);
      const session = await measure.step("agree", () => init.finish(provider, body, wallMs()));
      const auth = value === undefined ? "none" : "bearer";
      const traits: Traits = { wire, auth, suite: undefined, keyId: undefined };
      return { session, begin, traits };
    } finally {
      measure.done();
    }
  }

  /**
   * A call; after 401 `SESSION_EXPIRED` it is sent once more, in a new session. These wires prove nothing of a refusal, as
   * `spec/session.md` has it: an attacker on the path can have a call served twice.
   */
  async call(call: Call, sessions: Sessions<CompatSession>): Promise<Response> {
    wants(call.method === "POST", "wires 1 and 2 seal POST alone");
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
    const measure = this.#transport.measure("call", call.method, call.target);
    const [stamp, nonce] = [String(wallMs()), hex(provider.random(16))];
    const sealed = await measure.step("seal", () =>
      sealCompatRequest(session, path, plaintext, stamp, nonce, provider.random(12)),
    );
    const headers: [string, string][] = [...sealed.headers, ["Content-Type", sealed.contentType]];
    measure.requestBytes = sealed.body.length;
    const outgoing = { ...call, headers, body: sealed.body };
    const received = await this.#transport.send(call.url, outgoing, measure);
    try {
      const isSealed = firstOf(received.headers, X_KID) !== undefined;
      const lengthMax = isSealed ? this.#settings.answerMaxBytes : PROBLEM_LEN_MAX;
      const body = await measure.http(() => received.whole(lengthMax));
      measure.responseBytes = body.length;
      if (!isSealed) throw refusal(received, body);
      const { status } = received;
      const opened = await measure.step("open", () =>
        openCompatAnswer(session, path, status, received.headers, body, wallMs(), WINDOW_MS),
      );
      // The type of the plaintext is not told on these wires; JSON is what services of theirs speak.
      const answer = new Response(opened, { status, headers: { "content-type": "application/json" } });
      Object.defineProperty(answer, "url", { value: call.url.href });
      return answer;
    } finally {
      measure.done();
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
