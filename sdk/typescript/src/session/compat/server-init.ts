/** The server's side of an init of wires 1 and 2 (`spec/session.md`, Init). */
import type { AgreementKey, Provider } from "../../crypto/provider.js";
import { fromBase64, toBase64 } from "../../wire/base64.js";
import { type Bytes, hex, utf8 } from "../../wire/bytes.js";
import { compatWireOf, X_CLIENT_ID, X_NONCE, X_TIMESTAMP } from "../../wire/compat-headers.js";
import { SealwayError } from "../../wire/error.js";
import { checkRequestNonce, isClientId, parseStamp, splitIdempotencyKey } from "../../wire/forms.js";
import { type HeaderList, invalid, required, X_IDEMPOTENCY_KEY } from "../../wire/headers.js";
import { type Members, membersOf, parseJson } from "../../wire/json.js";
import { checkWindow } from "../../wire/window.js";
import { type Claim, makeClaim } from "../claim.js";
import { keyInfo, sessionKey } from "./keys.js";

/** `/session/init`, `/session/init/anon`, `/v1/session/init`. */
export type Family = "session" | "anonymous" | "v1";

const TTL_SEC = { min: 300, max: 3600, default: 1800, anonymous: 120, authenticated: 3600 } as const;

/** An init that was read. Nobody may accept it before its claim is made. */
export interface CompatInitRequest {
  readonly family: Family;
  readonly wire: 1 | 2;
  readonly clientId: string | undefined;
  readonly clientPublicKey: string;
  readonly ttlSec: number | undefined;
  readonly claim: Claim;
}

/** A session that was agreed. */
export interface CompatServerSession {
  readonly id: string;
  readonly wire: 1 | 2;
  readonly clientId: string | undefined;
  readonly key: Bytes;
  readonly createdMs: number;
  readonly expiresMs: number;
  /** The answer's body, whose status is 200. */
  readonly body: Bytes;
}

function fault(field: string): SealwayError {
  return new SealwayError("field_invalid", `the member ${field} is absent or of a wrong type`, { field });
}

function shareOf(members: Members): string {
  const share = members["clientPublicKey"];
  if (typeof share !== "string" || share === "") throw fault("clientPublicKey");
  return share;
}

/** Wire 2's `ttlSec`: a number of integer value, at least 0; the rest is refused. */
function strictTtl(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) throw fault("ttlSec");
  return value;
}

/** Wire 1's `ttlSec`, read as its servers did: finite numbers and those in strings count, the rest is absent. */
function laxTtl(value: unknown): number | undefined {
  const text = typeof value === "string" ? value.trim() : undefined;
  const isNumber = text !== undefined && /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(text);
  const sec = isNumber ? Number(text) : value;
  return typeof sec === "number" && Number.isFinite(sec) ? Math.max(0, Math.trunc(sec)) : undefined;
}

/**
 * Reads an init, in the order of the spec from the body on.
 *
 * @throws {SealwayError} `json_invalid`, `header_missing`, `header_invalid`, `field_invalid`, `idempotency_key_shape`,
 * `nonce_invalid`, `nonce_reserved`, `timestamp_invalid`, `timestamp_outside_window`.
 */
export async function parseCompatInit(
  provider: Provider,
  family: Family,
  headers: HeaderList,
  body: Uint8Array,
  nowMs: number,
  windowMs: number,
): Promise<CompatInitRequest> {
  const wire = family === "session" ? compatWireOf(headers) : family === "v1" ? 2 : 1;
  const members = membersOf(parseJson(body)) ?? {};
  let stamp: string;
  let nonce: string;
  let clientId: string | undefined;
  if (wire === 1) {
    [nonce, stamp] = [required(headers, X_NONCE), required(headers, X_TIMESTAMP)];
    if (members["keyAgreement"] !== "ECDH_P256") throw fault("keyAgreement");
    shareOf(members);
  } else {
    const key = idempotencyKey(headers);
    clientId = required(headers, X_CLIENT_ID);
    if (!isClientId(clientId)) throw invalid(X_CLIENT_ID);
    shareOf(members);
    [stamp, nonce] = splitIdempotencyKey(key);
  }
  checkRequestNonce(nonce, family === "v1" ? 16 : 1);
  const stampMs = parseStamp(stamp);
  checkWindow(stampMs, nowMs, windowMs);
  const ttl = members["ttlSec"];
  const ttlSec = family !== "session" ? undefined : wire === 1 ? laxTtl(ttl) : strictTtl(ttl);
  const claim = await makeClaim(
    provider,
    wire === 1 ? 2 : 1,
    clientId ?? "",
    nonce,
    stampMs,
    nowMs,
    windowMs,
  );
  return { family, wire, clientId, clientPublicKey: shareOf(members), ttlSec, claim };
}

/** A repeated or unprintable one counts as ill-shaped, which is reported after missing ones. */
function idempotencyKey(headers: HeaderList): string {
  try {
    return required(headers, X_IDEMPOTENCY_KEY);
  } catch (error) {
    if (error instanceof SealwayError && error.code === "header_invalid") return "";
    throw error;
  }
}

/**
 * Agrees a session. `key` is a new one of P-256, `random` 16 random bytes.
 *
 * @throws {SealwayError} `public_key_invalid`.
 */
export async function acceptCompatInit(
  provider: Provider,
  init: CompatInitRequest,
  isAuthenticated: boolean,
  key: AgreementKey,
  random: Uint8Array,
  nowMs: number,
): Promise<CompatServerSession> {
  const peer = fromBase64(init.clientPublicKey);
  const secret = peer && (await key.agree(peer));
  if (secret === undefined) {
    throw new SealwayError("public_key_invalid", "the client's key is no point of P-256");
  }
  const isAnonymous = init.family === "anonymous";
  const id = (isAnonymous ? "A-" : "S-") + hex(random);
  const info = keyInfo(init.wire, isAnonymous, init.clientId ?? "");
  const bytes = await sessionKey(provider, secret, id, info);
  const answer = {
    sessionId: id,
    serverPublicKey: toBase64(key.publicKey),
    encAlg: init.family === "v1" ? "aes-256-gcm" : "A256GCM",
    expiresInSec: ttlOf(init, isAuthenticated),
  };
  const { wire, clientId } = init;
  const expiresMs = nowMs + answer.expiresInSec * 1000;
  return { id, wire, clientId, key: bytes, createdMs: nowMs, expiresMs, body: utf8(JSON.stringify(answer)) };
}

function ttlOf(init: CompatInitRequest, isAuthenticated: boolean): number {
  if (init.family === "anonymous") return TTL_SEC.anonymous;
  if (init.family === "v1") return isAuthenticated ? TTL_SEC.authenticated : TTL_SEC.default;
  return Math.min(TTL_SEC.max, Math.max(TTL_SEC.min, init.ttlSec ?? TTL_SEC.default));
}
