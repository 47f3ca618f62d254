/** The gate of wires 1 and 2 (`spec/session.md`, Open, Answer). */
import type { Provider } from "../crypto/provider.js";
import {
  checkOldSession,
  type OldRequest,
  type OldServerSession,
  oldWireOf,
  openOldRequest,
  parseOldRequest,
  sealOldAnswer,
} from "../session/old/server.js";
import { type Bytes, wipe } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import type { HeaderList } from "../wire/headers.js";
import { checkWindow } from "../wire/window.js";
import { type Answering, BodySource, collect } from "./body.js";
import { type Incoming, type OpenedCall, Refused } from "./gate.js";
import { answerHeaders, callerOf, oldHandlerHeaders } from "./handled.js";
import type { ServerSettings } from "./options.js";
import { type Answer, plain } from "./refusal.js";
import type { Holding } from "./room.js";

const ANONYMOUS_BODY_MAX = 4096;

export class OldGate {
  readonly #provider: Provider;
  readonly #settings: ServerSettings;

  constructor(provider: Provider, settings: ServerSettings) {
    this.#provider = provider;
    this.#settings = settings;
  }

  /** @throws {Refused} or {SealwayError}, which is told as its code. */
  async open(incoming: Incoming, path: string, routeMax: number, holding: Holding): Promise<OpenedCall> {
    try {
      return await this.#open(incoming, path, routeMax, holding);
    } finally {
      holding.release();
    }
  }

  async #open(incoming: Incoming, path: string, routeMax: number, holding: Holding): Promise<OpenedCall> {
    const { store, wires, windowMs, anonymousPaths, bodyTimeoutMs, now } = this.#settings;
    const { headers } = incoming;
    if (!wires.includes(oldWireOf(headers))) throw new Refused("wire_disabled", plain(403, "WIRE_DISABLED"));
    if (incoming.method !== "POST") {
      throw new Refused("method_not_allowed", plain(405, "METHOD_NOT_ALLOWED"));
    }
    const request = parseOldRequest(headers, path, now(), windowMs);
    const found = request.sessionId === undefined ? undefined : await store.get(request.sessionId);
    checkOldSession(request, found, now());
    if (found === undefined) throw new SealwayError("session_unknown", "there is no such session");
    const isAnonymous = found.id.startsWith("A-");
    if (isAnonymous && !anonymousPaths.includes(path)) {
      throw new SealwayError("policy", "an anonymous session may not go here");
    }
    const bodyMax = Math.min(routeMax, holding.max, isAnonymous ? ANONYMOUS_BODY_MAX : routeMax);
    const body = await new BodySource(incoming.body, bodyMax, bodyTimeoutMs, holding).whole();
    const key = await this.#provider.aeadKey(found.key);
    const session: OldServerSession = { ...found, clientId: found.clientId, key };
    // A body that came slowly may come after the end of its session, or after its nonce was forgotten.
    const nowMs = now();
    checkWindow(request.stampMs, nowMs, windowMs);
    checkOldSession(request, await store.get(found.id), nowMs);
    const { plaintext, claim } = await openOldRequest(
      this.#provider,
      request,
      session,
      body,
      nowMs,
      windowMs,
    );
    const outcome = await store.claim(claim);
    if (outcome !== "fresh") {
      wipe(plaintext);
      throw new SealwayError("replayed", `the claim is ${outcome}`);
    }
    const caller = callerOf(found);
    const working = new AbortController();
    let isSealed = false;
    return {
      caller,
      signal: working.signal,
      headers: oldHandlerHeaders(headers, caller, plaintext.length > 0, this.#settings.trustForwarded),
      body: plaintext.length > 0 ? once(plaintext) : undefined,
      seal: async (status, answered, content) => {
        const answer = await this.#seal(request, session, status, answered, content);
        isSealed = true;
        return answer;
      },
      drop: () => {
        if (!isSealed) working.abort(new SealwayError("stream_truncated", "the client is gone"));
      },
    };
  }

  async #seal(
    request: OldRequest,
    session: OldServerSession,
    status: number,
    headers: HeaderList,
    body: Answering,
  ): Promise<Answer> {
    // Clients expect that of a plaintext that cannot be read.
    if (status === 400 || status === 422) return plain(400, "CRYPTO_ERROR");
    // It has no body to seal.
    if (status === 304) return plain(502, "SERVICE_UNAVAILABLE");
    let plaintext: Bytes;
    try {
      plaintext = await collect(body, this.#settings.answerMax);
    } catch {
      return plain(502, "SERVICE_UNAVAILABLE");
    }
    const told = status >= 200 && status <= 299 ? 200 : status;
    const [nowMs, nonce, iv] = [this.#settings.now(), this.#provider.random(16), this.#provider.random(12)];
    const sealed = await sealOldAnswer(request, session, told, plaintext, nowMs, nonce, iv);
    const { outer } = answerHeaders(headers);
    return {
      status: told,
      headers: [...sealed.headers, ["Content-Type", sealed.contentType], ...outer],
      body: sealed.body,
    };
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
