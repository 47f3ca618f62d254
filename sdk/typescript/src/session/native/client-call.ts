/** The client's side of a sealed call of wires 3 and 4 (`spec/session-3.md`, Sealed requests, Sealed answers; `spec/one-shot.md`). */
import type { Provider } from "../../crypto/provider.js";
import { toBase64 } from "../../wire/base64.js";
import { type Bytes, concat, hex } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import {
  checkAnswerNonce,
  idOf,
  parseStamp,
  SEALED_HEADER_LEN_MAX,
  splitIdempotencyKey,
  TARGET_LEN_MAX,
} from "../../wire/forms.js";
import {
  firstOf,
  type HeaderList,
  invalid,
  optional,
  required,
  X_IDEMPOTENCY_KEY,
  X_KID,
  X_SEAL,
  X_SEALED,
} from "../../wire/headers.js";
import {
  answerContext,
  answerKeys,
  CONTENT_TYPE,
  kidPrefix,
  type RequestLine,
  requestContext,
  requestKeys,
  type Seal,
  sealedHeader,
} from "./call.js";
import { decodeInner, encodeInner } from "./inner.js";
import { FrameOpener, FrameSealer, openAll, sealAll, streamLength } from "./stream.js";

/** The parts of a request that opening its answer needs. */
export interface PendingCall {
  readonly seal: Seal;
  readonly line: RequestLine;
  readonly stamp: string;
  readonly nonce: string;
}

/** A request whose stream is yet to be made. */
export interface BegunRequest {
  readonly headers: [string, string][];
  readonly sealer: FrameSealer;
  readonly pending: PendingCall;
}

/** A whole sealed request. */
export interface SealedRequest {
  readonly headers: [string, string][];
  /** None where the stream is in `X-Sealed`. */
  readonly body: Bytes | undefined;
  readonly pending: PendingCall;
}

/** A whole opened answer. */
export interface OpenedAnswer {
  /** True if the server and not the service has sealed it, as a problem (wire 4 alone). */
  readonly isProblem: boolean;
  readonly headers: [string, string][];
  readonly body: Bytes;
}

/**
 * Begins a request. `nonce` are 16 random bytes; `contentType` is the outer one, absent where there is no body.
 *
 * @throws {SealwayError} `header_invalid` for a target over its bound, `policy` for a method that is not sealed.
 */
export async function beginRequest(
  provider: Provider,
  seal: Seal,
  line: RequestLine,
  contentType: string | undefined,
  stampMs: number | string,
  nonce: Uint8Array | string,
): Promise<BegunRequest> {
  if (["CONNECT", "TRACE", "OPTIONS"].includes(line.method)) {
    throw new SealwayError("policy", `${line.method} is not sealed`);
  }
  if (line.target.length > TARGET_LEN_MAX) {
    throw new SealwayError("header_invalid", "path and query are too long");
  }
  const stamp = String(stampMs);
  const text = typeof nonce === "string" ? nonce : hex(nonce);
  const [keys, context] = await Promise.all([
    requestKeys(provider, seal, text, stamp),
    requestContext(provider, seal, line, contentType ?? "", stamp, text),
  ]);
  const headers: [string, string][] = [
    [X_SEAL, `${seal.wire}`],
    [X_KID, kidPrefix(seal.wire) + seal.id],
    [X_IDEMPOTENCY_KEY, `${stamp}.${text}`],
  ];
  if (contentType !== undefined) headers.push(["Content-Type", contentType]);
  const pending = { seal, line, stamp, nonce: text };
  return { headers, sealer: new FrameSealer(keys, context, seal.prefix), pending };
}

/** True if a request without a body goes into `X-Sealed`: proxies drop or reject bodies of such methods. */
export function isHeaderRequest(
  seal: Seal,
  method: string,
  bodyLength: number,
  innerLength: number,
): boolean {
  if (bodyLength > 0 || !["GET", "HEAD", "DELETE"].includes(method)) return false;
  const length = (seal.prefix?.length ?? 0) + streamLength(innerLength);
  return Math.ceil(length / 3) * 4 <= SEALED_HEADER_LEN_MAX;
}

/** Seals a whole request. */
export async function sealRequest(
  provider: Provider,
  seal: Seal,
  line: RequestLine,
  inner: HeaderList,
  body: Uint8Array,
  stampMs: number,
  nonce: Uint8Array,
): Promise<SealedRequest> {
  const block = encodeInner(inner);
  const inHeader = isHeaderRequest(seal, line.method, body.length, block.length);
  const contentType = inHeader ? undefined : CONTENT_TYPE;
  const { headers, sealer, pending } = await beginRequest(provider, seal, line, contentType, stampMs, nonce);
  const stream = await sealAll(sealer, concat(block, body));
  if (!inHeader) return { headers, body: stream, pending };
  headers.push([X_SEALED, toBase64(stream)]);
  return { headers, body: undefined, pending };
}

/**
 * Checks an answer's headers, and gives what opens its stream; the stream too, where it is in `X-Sealed`. `isProblem` is
 * true of a problem that the server has sealed (wire 4 alone).
 *
 * @throws {SealwayError} `unsealed`, `header_missing`, `header_invalid`, `kid_prefix`, `answer_mismatch`,
 * `idempotency_key_shape`, `nonce_invalid`, `timestamp_invalid`.
 */
export async function beginAnswer(
  provider: Provider,
  pending: PendingCall,
  status: number,
  headers: HeaderList,
): Promise<{ opener: FrameOpener; stream: Bytes | undefined; isProblem: boolean }> {
  const { seal, line } = pending;
  const { wire } = seal;
  if (firstOf(headers, X_SEAL) === undefined) {
    throw new SealwayError("unsealed", "the answer is not sealed", { status });
  }
  if (required(headers, X_SEAL) !== `${wire}`) throw invalid(X_SEAL);
  if (idOf(required(headers, X_KID), kidPrefix(wire)) !== seal.id) {
    throw new SealwayError("answer_mismatch", "the answer is of another session or key");
  }
  const [stamp, nonce] = splitIdempotencyKey(required(headers, X_IDEMPOTENCY_KEY));
  checkAnswerNonce(nonce, 16, wire === 4 ? /^[pr]-/ : undefined);
  parseStamp(stamp);
  const stream = sealedHeader(headers);
  const contentType = optional(headers, "Content-Type") ?? "";
  const [keys, context] = await Promise.all([
    answerKeys(provider, seal, pending.nonce, nonce),
    answerContext(provider, seal, status, line, contentType, stamp, nonce),
  ]);
  const isProblem = nonce.startsWith("p-");
  return { opener: new FrameOpener(keys, context, stream !== undefined), stream, isProblem };
}

/**
 * Opens a whole answer.
 *
 * @throws {SealwayError} as {@link beginAnswer} does; `stream_truncated`, `frame_invalid`, `unsealable`,
 * `inner_headers_invalid`.
 */
export async function openAnswer(
  provider: Provider,
  pending: PendingCall,
  status: number,
  headers: HeaderList,
  body: Uint8Array,
): Promise<OpenedAnswer> {
  const { opener, stream, isProblem } = await beginAnswer(provider, pending, status, headers);
  if (stream !== undefined && body.length > 0) throw invalid(X_SEALED);
  const [first = new Uint8Array(), ...rest] = await openAll(opener, stream ?? body);
  const inner = decodeInner(first);
  return { isProblem, headers: inner.headers, body: concat(inner.body, ...rest) };
}
