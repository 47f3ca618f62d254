/** The gate of wire 3 (`spec/session-3.md`, Sealed requests, Sealed answers). */
import type { Provider } from "../crypto/provider.js";
import { decodeInner, encodeInner } from "../session/three/inner.js";
import { SessionKeys } from "../session/three/keys.js";
import { clockMac } from "../session/three/problem.js";
import {
  type BegunAnswer,
  beginOpen,
  beginSeal,
  checkSession,
  type PendingAnswer,
  parseRequestHeaders,
  type RequestHeaders,
  requestClaim,
} from "../session/three/server-call.js";
import { cut, type FrameOpener, sealAll } from "../session/three/stream.js";
import { toBase64 } from "../wire/base64.js";
import { type Bytes, concat } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import { TARGET_LEN_MAX } from "../wire/forms.js";
import { type HeaderList, invalid, X_SEALED } from "../wire/headers.js";
import { type Answering, BodySource } from "./body.js";
import { type Incoming, type OpenedCall, Refused } from "./gate.js";
import { answerHeaders, callerOf, handlerHeaders } from "./handled.js";
import type { ServerSettings } from "./options.js";
import { type Answer, problem, problemOf } from "./refusal.js";
import type { StoredSession } from "./store.js";

export class ThreeGate {
  readonly #provider: Provider;
  readonly #settings: ServerSettings;

  constructor(provider: Provider, settings: ServerSettings) {
    this.#provider = provider;
    this.#settings = settings;
  }

  /** @throws {Refused} or {SealwayError}, which is told as its problem. */
  async open(incoming: Incoming, _path: string, bodyMax: number): Promise<OpenedCall> {
    const { store, wires, windowMs, bodyTimeoutMs, now } = this.#settings;
    const { method, target, headers } = incoming;
    if (!wires.includes(3)) throw new Refused("wire_disabled", problem("wire_disabled"));
    if (method === "CONNECT" || method === "TRACE") {
      throw new Refused("method_not_allowed", problem("method_not_allowed"));
    }
    const request = parseRequestHeaders(headers);
    if (target.length > TARGET_LEN_MAX) throw invalid("target");
    const found = request.sessionId === undefined ? undefined : await store.get(request.sessionId);
    const nowMs = now();
    if (found === undefined || nowMs >= found.expiresMs) {
      // Without an identity key at hand nothing is proven: the client may try anew where that does no harm.
      const code = found === undefined ? "session_unknown" : "session_expired";
      throw new Refused(code, problem("session_expired", { server_time_ms: nowMs }));
    }
    if (found.wire !== 3) throw new SealwayError("wire_mismatch", "the session was agreed on another wire");
    const keys = await SessionKeys.of(this.#provider, found.key);
    const session = { id: found.id, wire: 3, expiresMs: found.expiresMs, keys };
    await this.#fresh(request, keys, () => checkSession(request, session, nowMs, windowMs));
    const line = { method, target };
    const { opener, stream, pending } = await beginOpen(this.#provider, session, request, line, headers);
    const source = new BodySource(incoming.body, bodyMax, bodyTimeoutMs);
    const opening = new Opening(opener, source, stream);
    const first = decodeInner(await opening.first());
    // All of it is there: a part of a stream that was cut is not taken for a whole one without a body.
    if (stream !== undefined) first.body = concat(first.body, ...(await opening.others()));
    const claim = await requestClaim(this.#provider, request, session.id, nowMs, windowMs);
    const outcome = await store.claim(claim);
    if (outcome === "replayed") throw new SealwayError("replayed", "the nonce was seen before");
    if (outcome === "full") throw new SealwayError("store_unavailable", "the store of nonces is full");
    await this.#fresh(request, keys, () => {
      if (outcome === "outside_window") {
        throw new SealwayError("timestamp_outside_window", "the authority's clock is another");
      }
    });
    return this.#opened(found, pending, incoming, opening, first);
  }

  /** Runs a check of the stamp, whose refusal carries a proof. */
  async #fresh(request: RequestHeaders, keys: SessionKeys, check: () => void): Promise<void> {
    try {
      check();
    } catch (error) {
      if (!(error instanceof SealwayError) || error.code !== "timestamp_outside_window") throw error;
      const nowMs = this.#settings.now();
      const mac = await clockMac(this.#provider, keys, request.nonce, request.stamp, nowMs);
      throw new Refused(error.code, problem("clock_skew", { server_time_ms: nowMs, mac: toBase64(mac) }));
    }
  }

  #opened(
    found: StoredSession,
    pending: PendingAnswer,
    incoming: Incoming,
    opening: Opening,
    first: { headers: [string, string][]; body: Uint8Array },
  ): OpenedCall {
    const caller = callerOf(found);
    return {
      caller,
      headers: handlerHeaders(first.headers, incoming.headers, caller, this.#settings.trustForwarded),
      body: opening.isOver && first.body.length === 0 ? undefined : opening.rest(first.body),
      seal: (status, headers, body) => this.#seal(pending, opening, status, headers, body),
    };
  }

  async #seal(
    pending: PendingAnswer,
    opening: Opening,
    status: number,
    headers: HeaderList,
    body: Answering,
  ): Promise<Answer> {
    // A handler saw a part of a request that did not open: whatever it made of that is nobody's answer.
    if (opening.fault !== undefined) return this.#late(opening.fault, pending);
    const { inner, outer } = answerHeaders(headers);
    let block: Bytes;
    try {
      block = encodeInner(inner);
    } catch (error) {
      return this.#late(
        new SealwayError("upstream_unreachable", "the handler's headers cannot be sealed", { cause: error }),
        pending,
      );
    }
    const nonce = this.#provider.random(16);
    const begun = await beginSeal(this.#provider, pending, status, this.#settings.now(), nonce);
    const out = [...begun.headers, ...outer];
    if (begun.inHeader) {
      out.push([X_SEALED, toBase64(await sealAll(begun.sealer, block))]);
      return { status, headers: out, body: undefined };
    }
    if (body === undefined || body instanceof Uint8Array) {
      const whole = body === undefined ? block : concat(block, body);
      return { status, headers: out, body: await sealAll(begun.sealer, whole) };
    }
    return { status, headers: out, body: sealParts(begun, block, body) };
  }

  #late(error: SealwayError, pending: PendingAnswer): Answer {
    const isUpstream = error.code === "upstream_unreachable";
    const answer = problem(isUpstream ? "upstream_unreachable" : problemOf(error));
    this.#settings.onRefused({ code: error.code, status: answer.status, path: pending.line.target });
    return answer;
  }
}

/** The frames of a request's stream, one after the other. */
class Opening {
  readonly #opener: FrameOpener;
  readonly #source: BodySource;
  readonly #inHeader: boolean;
  /** Whether the last frame has opened, and nothing stands behind it. */
  isOver = false;
  /** Why the stream broke, if it did. */
  fault: SealwayError | undefined;

  constructor(opener: FrameOpener, source: BodySource, stream: Bytes | undefined) {
    this.#opener = opener;
    this.#source = source;
    this.#inHeader = stream !== undefined;
    if (stream !== undefined) opener.push(stream);
  }

  /** @throws {SealwayError} for what is no first frame. */
  async first(): Promise<Bytes> {
    if (this.#inHeader && ((await this.#source.read())?.length ?? 0) > 0) throw invalid(X_SEALED);
    const frame = await this.#next();
    if (frame === undefined) throw new SealwayError("stream_truncated", "the stream has no frame");
    return frame;
  }

  /** What stands behind the first frame, to the last one. */
  async others(): Promise<Bytes[]> {
    const frames: Bytes[] = [];
    for (let frame = await this.#next(); frame !== undefined; frame = await this.#next()) frames.push(frame);
    return frames;
  }

  async *rest(first: Uint8Array): AsyncGenerator<Uint8Array> {
    try {
      if (first.length > 0) yield first;
      for (;;) {
        const frame = await this.#next();
        if (frame === undefined) return;
        if (frame.length > 0) yield frame;
      }
    } catch (error) {
      this.fault = error instanceof SealwayError ? error : new SealwayError("unsealable", "the stream broke");
      throw this.fault;
    }
  }

  async #next(): Promise<Bytes | undefined> {
    if (this.isOver) return undefined;
    for (;;) {
      const frame = await this.#opener.next();
      if (frame === undefined) {
        const data = await this.#source.read();
        if (data === undefined) this.#opener.finish();
        else this.#opener.push(data);
        continue;
      }
      if (this.#opener.isDone) {
        // The last one is held back until the body has ended: a service is never sent a whole body of a stream that broke.
        for (let data = await this.#source.read(); data !== undefined; data = await this.#source.read()) {
          this.#opener.push(data);
          this.#opener.finish();
        }
        this.#opener.finish();
        this.isOver = true;
      }
      return frame;
    }
  }
}

/** Seals an answer as it comes: a frame ends where a part does. One whose source breaks off has no last frame. */
async function* sealParts(
  begun: BegunAnswer,
  block: Bytes,
  parts: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield await begun.sealer.seal(block, false);
  for await (const part of parts) {
    if (part.length === 0) continue;
    for (const each of cut(part)) yield await begun.sealer.seal(each.part, false);
  }
  yield await begun.sealer.seal(new Uint8Array(), true);
}
