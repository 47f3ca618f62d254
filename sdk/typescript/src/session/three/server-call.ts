/** The server's side of a sealed call of wire 3 (`spec/session-3.md`, Sealed requests, Sealed answers). */
import type { Provider } from "../../crypto/provider.js";
import { toBase64 } from "../../wire/base64.js";
import { type Bytes, concat, hex } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import {
  checkRequestNonce,
  KID_PREFIX,
  parseStamp,
  sessionIdOf,
  splitIdempotencyKey,
  TARGET_LEN_MAX,
  WINDOW_MAX_MS,
} from "../../wire/forms.js";
import {
  firstOf,
  type HeaderList,
  invalid,
  required,
  X_IDEMPOTENCY_KEY,
  X_KID,
  X_SEAL,
  X_SEALED,
} from "../../wire/headers.js";
import { checkWindow } from "../../wire/window.js";
import { type Claim, makeClaim } from "../claim.js";
import {
  answerContext,
  answerKeys,
  CONTENT_TYPE,
  isBodyless,
  type RequestLine,
  requestContext,
  requestKeys,
  sealedHeader,
} from "./call.js";
import { decodeInner, encodeInner } from "./inner.js";
import type { SessionKeys } from "./keys.js";
import { FrameOpener, FrameSealer, openAll, sealAll } from "./stream.js";

/** The headers of a sealed request, of their forms. */
export interface RequestHeaders {
  /** None if the kid holds no session id. */
  readonly sessionId: string | undefined;
  readonly stamp: string;
  readonly stampMs: number;
  readonly nonce: string;
}

/** A session as its server has it. */
export interface ServerSession {
  readonly id: string;
  readonly wire: number;
  /** Milliseconds of the epoch. */
  readonly expiresMs: number;
  readonly keys: SessionKeys;
}

/** What a server needs to answer a request. */
export interface PendingAnswer {
  readonly session: ServerSession;
  readonly line: RequestLine;
  readonly nonce: string;
}

/**
 * Reads the headers of a request: check 1.
 *
 * @throws {SealwayError} `header_missing`, `header_invalid`, `idempotency_key_shape`, `nonce_invalid`, `nonce_reserved`,
 * `timestamp_invalid`, `kid_prefix`.
 */
export function parseRequestHeaders(headers: HeaderList): RequestHeaders {
  const kid = required(headers, X_KID);
  const key = required(headers, X_IDEMPOTENCY_KEY);
  if (required(headers, X_SEAL) !== "3") throw invalid(X_SEAL);
  const [stamp, nonce] = splitIdempotencyKey(key);
  checkRequestNonce(nonce, 16);
  const stampMs = parseStamp(stamp);
  return { sessionId: sessionIdOf(kid), stamp, stampMs, nonce };
}

/**
 * Whether a session takes the request: checks 2 to 4.
 *
 * @throws {SealwayError} `session_unknown`, `session_expired`, `wire_mismatch`, `timestamp_outside_window`.
 */
export function checkSession(
  request: RequestHeaders,
  session: { readonly id: string; readonly wire: number; readonly expiresMs: number } | undefined,
  nowMs: number,
  windowMs: number,
): void {
  if (session === undefined || request.sessionId !== session.id) {
    throw new SealwayError("session_unknown", "there is no such session");
  }
  if (nowMs >= session.expiresMs) throw new SealwayError("session_expired", "the session is over");
  if (session.wire !== 3) throw new SealwayError("wire_mismatch", "the session was agreed on another wire");
  // However wide it is configured: a client knows by the greatest width what no server takes any more.
  checkWindow(request.stampMs, nowMs, Math.min(windowMs, WINDOW_MAX_MS));
}

/** What opens a request's stream; the stream too, where it is in `X-Sealed`. Check 6 but for the body. */
export async function beginOpen(
  provider: Provider,
  session: ServerSession,
  request: RequestHeaders,
  line: RequestLine,
  headers: HeaderList,
): Promise<{ opener: FrameOpener; stream: Bytes | undefined; pending: PendingAnswer }> {
  if (line.target.length > TARGET_LEN_MAX) throw invalid("target");
  const stream = sealedHeader(headers);
  const contentType = firstOf(headers, "Content-Type") ?? "";
  const { stamp, nonce } = request;
  const [keys, context] = await Promise.all([
    requestKeys(provider, session.keys.c2s, nonce, stamp),
    requestContext(provider, line, contentType, stamp, nonce, session.id),
  ]);
  return { opener: new FrameOpener(keys, context), stream, pending: { session, line, nonce } };
}

/** The claim of a request whose first frame has opened. */
export function requestClaim(
  provider: Provider,
  request: RequestHeaders,
  sessionId: string,
  nowMs: number,
  windowMs: number,
): Promise<Claim> {
  return makeClaim(provider, 3, sessionId, request.nonce, request.stampMs, nowMs, windowMs);
}

/** A whole request, opened. Nobody may see it before its claim is made. */
export interface OpenedRequest {
  readonly headers: [string, string][];
  /** What each frame holds of the body. */
  readonly frames: Uint8Array[];
  readonly claim: Claim;
  readonly pending: PendingAnswer;
}

/**
 * Opens a whole request.
 *
 * @throws {SealwayError} all that the table of the spec has but for `policy`, `body_too_large` and `replayed`.
 */
export async function openRequest(
  provider: Provider,
  session: ServerSession,
  line: RequestLine,
  headers: HeaderList,
  body: Uint8Array,
  nowMs: number,
  windowMs: number,
): Promise<OpenedRequest> {
  const request = parseRequestHeaders(headers);
  checkSession(request, session, nowMs, windowMs);
  const { opener, stream, pending } = await beginOpen(provider, session, request, line, headers);
  if (stream !== undefined && body.length > 0) throw invalid(X_SEALED);
  const [first = new Uint8Array(), ...rest] = await openAll(opener, stream ?? body);
  const inner = decodeInner(first);
  const claim = await requestClaim(provider, request, session.id, nowMs, windowMs);
  return { headers: inner.headers, frames: [inner.body, ...rest], claim, pending };
}

/** An answer whose stream is yet to be made. */
export interface BegunAnswer {
  readonly headers: [string, string][];
  readonly sealer: FrameSealer;
  /** Whether the stream goes into `X-Sealed`. */
  readonly inHeader: boolean;
}

/** Begins an answer. `nonce` are 16 random bytes, or the whole nonce. */
export async function beginSeal(
  provider: Provider,
  pending: PendingAnswer,
  status: number,
  nowMs: number | string,
  nonce: Uint8Array | string,
  contentType = CONTENT_TYPE,
): Promise<BegunAnswer> {
  const { session, line } = pending;
  const inHeader = isBodyless(line.method, status);
  const stamp = String(nowMs);
  const text = typeof nonce === "string" ? nonce : `r-${hex(nonce)}`;
  const outer = inHeader ? "" : contentType;
  const [keys, context] = await Promise.all([
    answerKeys(provider, session.keys.s2c, pending.nonce, text),
    answerContext(provider, status, line, outer, stamp, text, session.id),
  ]);
  const headers: [string, string][] = [
    [X_SEAL, "3"],
    [X_KID, KID_PREFIX + session.id],
    [X_IDEMPOTENCY_KEY, `${stamp}.${text}`],
  ];
  if (!inHeader && outer !== "") headers.push(["Content-Type", outer]);
  return { headers, sealer: new FrameSealer(keys, context), inHeader };
}

/** Seals a whole answer. */
export async function sealAnswer(
  provider: Provider,
  pending: PendingAnswer,
  status: number,
  inner: HeaderList,
  body: Uint8Array,
  nowMs: number,
  nonce: Uint8Array,
): Promise<{ headers: [string, string][]; body: Bytes | undefined }> {
  const begun = await beginSeal(provider, pending, status, nowMs, nonce);
  const block = encodeInner(inner);
  const stream = await sealAll(begun.sealer, begun.inHeader ? block : concat(block, body));
  if (!begun.inHeader) return { headers: begun.headers, body: stream };
  begun.headers.push([X_SEALED, toBase64(stream)]);
  return { headers: begun.headers, body: undefined };
}
