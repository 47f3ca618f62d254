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
import { cut, FRAME_LEN_MAX, type FrameOpener, sealAll } from "../session/three/stream.js";
import { toBase64 } from "../wire/base64.js";
import { type Bytes, concat } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import { TARGET_LEN_MAX } from "../wire/forms.js";
import { type HeaderList, invalid, X_SEALED } from "../wire/headers.js";
import { type Answering, BodySource, Gathered } from "./body.js";
import { type Incoming, type OpenedCall, Refused } from "./gate.js";
import { answerHeaders, callerOf, handlerHeaders } from "./handled.js";
import type { ServerSettings } from "./options.js";
import { type Answer, problem, problemOf } from "./refusal.js";
import type { Holding } from "./room.js";
import type { StoredSession } from "./store.js";
import { SessionWatch } from "./watch.js";

const [COMMIT, FRAME_HEAD, FRAME_MAX] = [16, 4, FRAME_LEN_MAX + 16];

export class ThreeGate {
  readonly #provider: Provider;
  readonly #settings: ServerSettings;
  readonly #holdsWhole: boolean;

  constructor(provider: Provider, settings: ServerSettings, holdsWhole: boolean) {
    this.#provider = provider;
    this.#settings = settings;
    this.#holdsWhole = holdsWhole;
  }

  /** @throws {Refused} or {SealwayError}, which is told as its problem. */
  async open(incoming: Incoming, _path: string, bodyMax: number, holding: Holding): Promise<OpenedCall> {
    try {
      return await this.#open(incoming, bodyMax, holding);
    } catch (error) {
      holding.release();
      throw error;
    }
  }

  async #open(incoming: Incoming, bodyMax: number, holding: Holding): Promise<OpenedCall> {
    const { store, wires, windowMs, bodyTimeoutMs, now } = this.#settings;
    const { method, target, headers } = incoming;
    if (!wires.includes(3)) throw new Refused("wire_disabled", problem("wire_disabled"));
    if (method === "CONNECT" || method === "TRACE") {
      throw new Refused("method_not_allowed", problem("method_not_allowed"));
    }
    const request = parseRequestHeaders(headers);
    if (target.length > TARGET_LEN_MAX) throw invalid("target");
    const found = await this.#session(request);
    if (found.wire !== 3) throw new SealwayError("wire_mismatch", "the session was agreed on another wire");
    const keys = await SessionKeys.of(this.#provider, found.key);
    const session = { id: found.id, wire: 3, expiresMs: found.expiresMs, keys };
    await this.#fresh(request, keys, () => checkSession(request, session, now(), windowMs));
    const line = { method, target };
    const { opener, stream, pending } = await beginOpen(this.#provider, session, request, line, headers);
    const lengthMax = this.#holdsWhole ? Math.min(bodyMax, holding.max) : bodyMax;
    const source = new BodySource(incoming.body, lengthMax, bodyTimeoutMs, holding);
    const watch = new SessionWatch(async () => now() >= ((await store.get(found.id))?.expiresMs ?? 0));
    const opening = new Opening(opener, source, stream, watch, holding, this.#holdsWhole);
    const first = decodeInner(await opening.first());
    // All of it is there: a part of a stream that was cut is not taken for a whole one without a body.
    if (stream !== undefined) first.body = concat(first.body, ...(await opening.others()));
    // A first frame that came slowly may come after the end of its session, or after its nonce was forgotten.
    await this.#session(request);
    const nowMs = now();
    await this.#fresh(request, keys, () => checkSession(request, session, nowMs, windowMs));
    const claim = await requestClaim(this.#provider, request, session.id, nowMs, windowMs);
    const outcome = await store.claim(claim);
    if (outcome === "replayed") throw new SealwayError("replayed", "the nonce was seen before");
    if (outcome === "full") throw new SealwayError("store_unavailable", "the store of nonces is full");
    await this.#fresh(request, keys, () => {
      if (outcome === "outside_window") {
        throw new SealwayError("timestamp_outside_window", "the authority's clock is another");
      }
    });
    return this.#opened(found, pending, incoming, opening, watch, first);
  }

  /** The session that a request is of, as the store has it now. */
  async #session(request: RequestHeaders): Promise<StoredSession> {
    const { store, now } = this.#settings;
    const found = request.sessionId === undefined ? undefined : await store.get(request.sessionId);
    const nowMs = now();
    if (found !== undefined && nowMs < found.expiresMs) return found;
    // Without an identity key at hand nothing is proven: the client may try anew where that does no harm.
    const code = found === undefined ? "session_unknown" : "session_expired";
    throw new Refused(code, problem("session_expired", { server_time_ms: nowMs }));
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
    watch: SessionWatch,
    first: { headers: [string, string][]; body: Uint8Array },
  ): OpenedCall {
    const caller = callerOf(found);
    watch.begin();
    return {
      caller,
      signal: watch.signal,
      headers: handlerHeaders(first.headers, incoming.headers, caller, this.#settings.trustForwarded),
      body: opening.isOver && first.body.length === 0 ? undefined : opening.rest(first.body),
      seal: async (status, headers, body) => {
        let isStream = false;
        try {
          const answer = await this.#seal(pending, opening, watch, status, headers, body);
          isStream = answer.body !== undefined && !(answer.body instanceof Uint8Array);
          return answer;
        } finally {
          // A stream may be of what the request still brings.
          if (!isStream) opening.release();
        }
      },
      drop: () => {
        watch.drop();
        opening.release();
      },
    };
  }

  async #seal(
    pending: PendingAnswer,
    opening: Opening,
    watch: SessionWatch,
    status: number,
    headers: HeaderList,
    body: Answering,
  ): Promise<Answer> {
    // A handler saw a part of a request that did not open: whatever it made of that is nobody's answer.
    const over = opening.fault ?? (await watch.ended());
    if (over !== undefined) {
      watch.finish();
      return this.#late(over, pending);
    }
    const { inner, outer } = answerHeaders(headers);
    let block: Bytes;
    try {
      block = encodeInner(inner);
    } catch (error) {
      watch.finish();
      return this.#late(
        new SealwayError("upstream_unreachable", "the handler's headers cannot be sealed", { cause: error }),
        pending,
      );
    }
    const nonce = this.#provider.random(16);
    const begun = await beginSeal(this.#provider, pending, status, this.#settings.now(), nonce);
    const out = [...begun.headers, ...outer];
    const isWhole = begun.inHeader || body === undefined || body instanceof Uint8Array;
    if (isWhole) watch.finish();
    if (begun.inHeader) {
      out.push([X_SEALED, toBase64(await sealAll(begun.sealer, block))]);
      return { status, headers: out, body: undefined };
    }
    if (body === undefined || body instanceof Uint8Array) {
      const whole = body === undefined ? block : concat(block, body);
      return { status, headers: out, body: await sealAll(begun.sealer, whole) };
    }
    return { status, headers: out, body: sealParts(begun, block, body, watch, opening) };
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
  readonly #watch: SessionWatch;
  readonly #holding: Holding;
  readonly #holdsWhole: boolean;
  /** Bytes of frames that are not opened yet. */
  readonly #unopened = new Gathered();
  #hasCommit = false;
  /** Whether the last frame has opened, and nothing stands behind it. */
  isOver = false;
  /** Why the stream broke, if it did. */
  fault: SealwayError | undefined;

  constructor(
    opener: FrameOpener,
    source: BodySource,
    stream: Bytes | undefined,
    watch: SessionWatch,
    holding: Holding,
    holdsWhole: boolean,
  ) {
    this.#opener = opener;
    this.#source = source;
    this.#watch = watch;
    this.#holding = holding;
    this.#holdsWhole = holdsWhole;
    this.#inHeader = stream !== undefined;
    if (stream !== undefined) opener.push(stream);
  }

  /** Gives back the room that it takes. */
  release(): void {
    this.#holding.release();
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
      this.#source.flow();
      for (;;) {
        const frame = await this.#watch.guard(this.#next());
        if (frame === undefined) return;
        if (frame.length > 0) yield frame;
      }
    } catch (error) {
      this.fault = error instanceof SealwayError ? error : new SealwayError("unsealable", "the stream broke");
      throw this.fault;
    } finally {
      this.release();
    }
  }

  async #next(): Promise<Bytes | undefined> {
    if (this.isOver) return undefined;
    for (;;) {
      const frame = await this.#opener.next();
      if (frame === undefined) {
        const arrived = this.#arrived();
        const data = arrived === undefined ? await this.#source.read() : undefined;
        if (arrived !== undefined) this.#opener.push(arrived);
        else if (data !== undefined) this.#unopened.push(data);
        else this.#opener.finish();
        continue;
      }
      if (!this.#holdsWhole) this.#holding.keep(this.#unopened.length);
      if (this.#opener.isDone) {
        this.#opener.push(this.#unopened.take(this.#unopened.length));
        this.#opener.finish();
        // The last one is held back until the body has ended: a service is never sent a whole body of a stream that broke.
        for (let data = await this.#source.read(); data !== undefined; data = await this.#source.read()) {
          this.#opener.push(data);
          this.#opener.finish();
        }
        this.isOver = true;
        this.release();
      }
      return frame;
    }
  }

  /** Returns the commit, or a frame, that has arrived whole; all bytes if their length is that of no frame. */
  #arrived(): Bytes | undefined {
    const unopened = this.#unopened;
    if (!this.#hasCommit) {
      if (unopened.length < COMMIT) return undefined;
      this.#hasCommit = true;
      // Copied: it stays as long as the stream.
      return unopened.take(COMMIT).slice();
    }
    if (unopened.length < FRAME_HEAD) return undefined;
    const length = unopened.word() % 0x8000_0000;
    if (length > FRAME_MAX) return unopened.take(unopened.length);
    return unopened.length < FRAME_HEAD + length ? undefined : unopened.take(FRAME_HEAD + length);
  }
}

/**
 * Seals an answer as it comes: a frame ends where a part does. One whose source breaks off, or whose session ends, has no last
 * frame.
 */
async function* sealParts(
  begun: BegunAnswer,
  block: Bytes,
  parts: AsyncIterable<Uint8Array>,
  watch: SessionWatch,
  opening: Opening,
): AsyncGenerator<Uint8Array> {
  yield await begun.sealer.seal(block, false);
  const iterator = parts[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await watch.guard(iterator.next());
      if (done) break;
      if (value.length === 0) continue;
      for (const each of cut(value)) yield await begun.sealer.seal(each.part, false);
    }
    yield await begun.sealer.seal(new Uint8Array(), true);
  } finally {
    watch.finish();
    opening.release();
    // Not waited for: a source that is in the middle of a part may never end it.
    iterator.return?.().catch(() => undefined);
  }
}
