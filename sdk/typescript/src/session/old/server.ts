/** The server's side of wires 1 and 2 (`spec/session.md`, Open, Answer). */
import type { AeadKey, Provider } from "../../crypto/provider.js";
import { type Bytes, hex } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import {
  checkRequestNonce,
  isClientId,
  KID_PREFIX,
  parseStamp,
  sessionIdOf,
  splitIdempotencyKey,
  TARGET_LEN_MAX,
} from "../../wire/forms.js";
import {
  type HeaderList,
  invalid,
  required,
  valuesOf,
  X_IDEMPOTENCY_KEY,
  X_KID,
} from "../../wire/headers.js";
import { X_CLIENT_ID, X_NONCE, X_TIMESTAMP } from "../../wire/old-headers.js";
import { checkWindow } from "../../wire/window.js";
import { type Claim, makeClaim } from "../claim.js";
import {
  aad1,
  aad2,
  type Detached,
  open1,
  open2,
  parseDetached,
  type Sealed,
  seal1,
  seal2,
} from "./message.js";

/** The headers of a sealed request of wire 1 or 2, of their forms and within the window. */
export interface OldRequest {
  readonly wire: 1 | 2;
  readonly kid: string;
  /** None if the kid holds no session id. */
  readonly sessionId: string | undefined;
  readonly stamp: string;
  readonly stampMs: number;
  readonly nonce: string;
  /** Of wire 2. */
  readonly clientId: string;
  /** Of wire 1. */
  readonly detached: Detached | undefined;
  /** Without the query. */
  readonly path: string;
}

/** A session as its server has it. */
export interface OldServerSession {
  readonly id: string;
  readonly wire: number;
  readonly clientId: string | undefined;
  readonly expiresMs: number;
  readonly key: AeadKey;
}

/** Which of the two a request speaks: wire 1 when `X-Nonce` is there and `X-Idempotency-Key` is not. */
export function oldWireOf(headers: HeaderList): 1 | 2 {
  const has = (name: string) => valuesOf(headers, name).length > 0;
  return has(X_NONCE) && !has(X_IDEMPOTENCY_KEY) ? 1 : 2;
}

/**
 * Reads the headers: checks 2 to 7.
 *
 * @throws {SealwayError} the codes of those checks.
 */
export function parseOldRequest(
  headers: HeaderList,
  path: string,
  nowMs: number,
  windowMs: number,
): OldRequest {
  const kid = required(headers, X_KID);
  const wire = oldWireOf(headers);
  let [stamp, nonce, clientId] = ["", "", ""];
  let detached: Detached | undefined;
  if (wire === 1) {
    [nonce, stamp] = [required(headers, X_NONCE), required(headers, X_TIMESTAMP)];
    detached = parseDetached(headers);
    if (path.length > TARGET_LEN_MAX) throw new SealwayError("body_too_large", "the path is too long");
  } else {
    const key = required(headers, X_IDEMPOTENCY_KEY);
    clientId = required(headers, X_CLIENT_ID);
    if (!isClientId(clientId)) throw invalid(X_CLIENT_ID);
    [stamp, nonce] = splitIdempotencyKey(key);
  }
  checkRequestNonce(nonce, 1);
  const stampMs = parseStamp(stamp);
  checkWindow(stampMs, nowMs, windowMs);
  return { wire, kid, sessionId: sessionIdOf(kid), stamp, stampMs, nonce, clientId, detached, path };
}

/**
 * Whether a session takes the request: checks 7 to 10.
 *
 * @throws {SealwayError} `session_unknown`, `session_expired`, `wire_mismatch`, `client_mismatch`.
 */
export function checkOldSession(
  request: OldRequest,
  session: Omit<OldServerSession, "key"> | undefined,
  nowMs: number,
): void {
  if (session === undefined || request.sessionId !== session.id) {
    throw new SealwayError("session_unknown", "there is no such session");
  }
  if (nowMs >= session.expiresMs) throw new SealwayError("session_expired", "the session is over");
  if (session.wire !== request.wire) {
    throw new SealwayError("wire_mismatch", "the session was agreed on another wire");
  }
  if (request.wire === 2 && session.clientId !== request.clientId) {
    throw new SealwayError("client_mismatch", "the session belongs to another client id");
  }
}

/**
 * Opens a request whose session takes it: checks 12 and 13. Nobody may see the plaintext before the claim is made.
 *
 * @throws {SealwayError} `body_too_short`, `aad_mismatch`, `base64_invalid`, `unsealable`.
 */
export async function openOldRequest(
  provider: Provider,
  request: OldRequest,
  session: OldServerSession,
  body: Uint8Array,
  nowMs: number,
  windowMs: number,
): Promise<{ plaintext: Bytes; claim: Claim }> {
  const { stamp, nonce, kid, detached } = request;
  const plaintext =
    detached === undefined
      ? await open2(session.key, aad2(stamp, nonce, kid, request.clientId), body)
      : await open1(session.key, detached, aad1("POST", request.path, stamp, nonce, kid), body);
  const claim = await makeClaim(provider, 3, session.id, nonce, request.stampMs, nowMs, windowMs);
  return { plaintext, claim };
}

/** Seals an answer. `nonce` are 16 random bytes, `iv` 12. */
export function sealOldAnswer(
  request: OldRequest,
  session: OldServerSession,
  status: number,
  plaintext: Uint8Array,
  nowMs: number,
  nonce: Uint8Array,
  iv: Uint8Array,
): Promise<Sealed> {
  const text = `r-${hex(nonce)}`;
  const kid = KID_PREFIX + session.id;
  if (request.wire === 1) {
    return seal1(session.key, String(status), request.path, String(nowMs), text, kid, iv, plaintext);
  }
  return seal2(session.key, String(nowMs), text, kid, session.clientId ?? "", iv, plaintext);
}
