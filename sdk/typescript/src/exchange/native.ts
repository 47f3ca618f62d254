/** Wire 3 as a variant of an exchange (`spec/session-3.md`, Sealed requests, Sealed answers): frames, headers within. */
import type { Provider } from "../crypto/provider.js";
import {
  answerContext,
  answerKeys,
  CONTENT_TYPE,
  isBodyless,
  type RequestLine,
  requestContext,
  requestKeys,
  type Seal,
  sealedHeader,
} from "../session/native/call.js";
import { decodeInner } from "../session/native/inner.js";
import { SessionKeys } from "../session/native/keys.js";
import { clockMac } from "../session/native/problem.js";
import { FrameOpener, FrameSealer } from "../session/native/stream.js";
import { toBase64 } from "../wire/base64.js";
import { type Bytes, hex } from "../wire/bytes.js";
import {
  checkRequestNonce,
  KID_PREFIX,
  parseStamp,
  sessionIdOf,
  splitIdempotencyKey,
  TARGET_LEN_MAX,
  WINDOW_MAX_MS,
} from "../wire/forms.js";
import {
  type HeaderList,
  invalid,
  optional,
  required,
  X_IDEMPOTENCY_KEY,
  X_KID,
  X_SEAL,
} from "../wire/headers.js";
import type { Call, Opener, SessionRecord } from "./exchange.js";
import { Rejection } from "./rejection.js";
import { type AnswerSeal, type FrameSeal, type Reply, SealedStream } from "./reply.js";
import { Stream } from "./stream.js";

/** A sealed request of wire 3. */
export class NativeCall implements Call {
  readonly wire = 3;
  readonly sessionId: string | undefined;
  readonly stampMs: number;
  readonly nonce: string;
  // However wide it is configured: a client knows by the greatest width what no server takes any more.
  readonly windowMax = WINDOW_MAX_MS;
  readonly isWhole = false;
  readonly #stamp: string;
  readonly #line: RequestLine;
  readonly #contentType: string;
  readonly #inHeader: Bytes | undefined;

  /**
   * Reads the headers: check 3.
   *
   * @throws {SealwayError} `header_missing`, `header_invalid`, `idempotency_key_shape`, `nonce_invalid`, `nonce_reserved`,
   * `timestamp_invalid`, `kid_prefix`.
   */
  constructor(line: RequestLine, headers: HeaderList) {
    this.#line = line;
    const kid = required(headers, X_KID);
    const key = required(headers, X_IDEMPOTENCY_KEY);
    if (required(headers, X_SEAL) !== "3") throw invalid(X_SEAL);
    [this.#stamp, this.nonce] = splitIdempotencyKey(key);
    checkRequestNonce(this.nonce, 16);
    this.stampMs = parseStamp(this.#stamp);
    this.sessionId = sessionIdOf(kid);
    this.#contentType = optional(headers, "Content-Type") ?? "";
    this.#inHeader = sealedHeader(headers);
    if (line.target.length > TARGET_LEN_MAX) throw invalid("target");
  }

  check(): void {}

  async skewed(provider: Provider, session: SessionRecord, nowMs: number): Promise<Rejection> {
    const keys = await SessionKeys.of(provider, session.key);
    const mac = toBase64(await clockMac(provider, keys, this.nonce, this.#stamp, nowMs));
    const more = { server_time_ms: nowMs, mac };
    return new Rejection(
      "timestamp_outside_window",
      "the timestamp is too far from the clock",
      undefined,
      more,
    );
  }

  async begin(provider: Provider, { id, key }: SessionRecord): Promise<[Stream, Opener]> {
    const inHeader = this.#inHeader;
    const [stamp, nonce, contentType] = [this.#stamp, this.nonce, this.#contentType];
    const seal: Seal = { wire: 3, id, keys: await SessionKeys.of(provider, key) };
    const [keys, context] = await Promise.all([
      requestKeys(provider, seal, nonce, stamp),
      requestContext(provider, seal, this.#line, contentType, stamp, nonce),
    ]);
    const reply = new NativeReply(provider, seal, this.#line, nonce);
    const open: Opener = async (frame) => {
      const { headers, body } = decodeInner(frame);
      return { inner: headers, first: body, reply };
    };
    return [new Stream(new FrameOpener(keys, context, inHeader !== undefined), inHeader), open];
  }
}

/** Answers a request of wire 3. */
export class NativeReply implements Reply {
  readonly #provider: Provider;
  readonly #seal: Seal;
  readonly #line: RequestLine;
  readonly #nonce: string;

  /** `nonce` is the request's. */
  constructor(provider: Provider, seal: Seal, line: RequestLine, nonce: string) {
    [this.#provider, this.#seal, this.#line, this.#nonce] = [provider, seal, line, nonce];
  }

  answer(status: number): AnswerSeal {
    const begin: FrameSeal["begin"] = (inner, nowMs, { nonce }) =>
      this.begin(status, inner, String(nowMs), `r-${hex(nonce)}`);
    return { kind: "frames", begin };
  }

  /** Begins an answer with this very stamp and nonce, and this content type outside where it has a body. */
  async begin(
    status: number,
    inner: HeaderList,
    stamp: string,
    nonce: string,
    contentType = CONTENT_TYPE,
  ): Promise<SealedStream> {
    const inHeader = isBodyless(this.#line.method, status);
    const outer = inHeader ? "" : contentType;
    const [streamKeys, context] = await Promise.all([
      answerKeys(this.#provider, this.#seal, this.#nonce, nonce),
      answerContext(this.#provider, this.#seal, status, this.#line, outer, stamp, nonce),
    ]);
    const headers: [string, string][] = [
      [X_SEAL, "3"],
      [X_KID, KID_PREFIX + this.#seal.id],
      [X_IDEMPOTENCY_KEY, `${stamp}.${nonce}`],
    ];
    if (outer !== "") headers.push(["Content-Type", outer]);
    return new SealedStream(headers, inHeader, new FrameSealer(streamKeys, context), inner);
  }
}
