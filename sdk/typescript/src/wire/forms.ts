/** The forms of identifiers, nonces and timestamps (`spec/session.md`, Encodings), and the limits of the wires. */
import { SealwayError } from "./error.js";

/** The wires that exist. */
export type Wire = 1 | 2 | 3;

export const KID_PREFIX = "session:";
/** The longest body of an init of wire 3, in bytes. */
export const INIT_LEN_MAX = 16_384;
/** The longest `X-Sealed`, in characters. */
export const SEALED_HEADER_LEN_MAX = 8192;
/** The longest path and query, in bytes. */
export const TARGET_LEN_MAX = 8192;
/** The longest key set or key document, in bytes. */
export const SET_LEN_MAX = 65_536;
/** The longest identity key, and the longest signature of one, in bytes. */
export const SIGNATURE_LEN_MAX = 8192;
/** The longest problem that is read, in bytes: it may hold a key set. */
export const PROBLEM_LEN_MAX = 98_304;
/** Default of the largest difference between a timestamp and the reader's clock, in milliseconds. */
export const WINDOW_MS = 300_000;
/** The widest window of wire 3, in milliseconds either way, however it is configured: what is older no server takes. */
export const WINDOW_MAX_MS = 300_000;

const SESSION_ID = /^[SA]-[0-9a-f]{32}$/;
const CLIENT_ID = /^[\x20-\x7b\x7d\x7e]{1,256}$/;

/** True if a text is a session id. */
export function isSessionId(text: string): boolean {
  return SESSION_ID.test(text);
}

/** True if a text is a client id: 1 to 256 bytes of printable ASCII without the vertical bar. */
export function isClientId(text: string): boolean {
  return CLIENT_ID.test(text);
}

/**
 * The id within a kid.
 *
 * @throws {SealwayError} `kid_prefix`.
 */
export function idOf(kid: string, prefix = KID_PREFIX): string {
  if (!kid.startsWith(prefix)) {
    throw new SealwayError("kid_prefix", `X-Kid does not begin with ${prefix}`);
  }
  return kid.slice(prefix.length);
}

/**
 * The session id within a kid; none if it has no id's form.
 *
 * @throws {SealwayError} `kid_prefix`.
 */
export function sessionIdOf(kid: string): string | undefined {
  const id = idOf(kid);
  return isSessionId(id) ? id : undefined;
}

/**
 * Timestamp and nonce of an `X-Idempotency-Key`: two parts, neither empty, and one dot.
 *
 * @throws {SealwayError} `idempotency_key_shape`.
 */
export function splitIdempotencyKey(key: string): [stamp: string, nonce: string] {
  const [stamp, nonce, more] = key.split(".");
  if (!stamp || !nonce || more !== undefined) {
    throw new SealwayError("idempotency_key_shape", "X-Idempotency-Key is not timestamp.nonce");
  }
  return [stamp, nonce];
}

/**
 * Checks a nonce's form; it has at least `least` characters.
 *
 * @throws {SealwayError} `nonce_invalid`.
 */
export function checkNonce(nonce: string, least: number): void {
  if (nonce.length < least || !/^[A-Za-z0-9_-]{1,128}$/.test(nonce)) {
    throw new SealwayError("nonce_invalid", "the nonce has a wrong length or alphabet");
  }
}

/**
 * Checks a request's nonce: of its form, and not of the kind that answers have.
 *
 * @throws {SealwayError} `nonce_invalid`, `nonce_reserved`.
 */
export function checkRequestNonce(nonce: string, least: number): void {
  checkNonce(nonce, least);
  if (/^r-/i.test(nonce))
    throw new SealwayError("nonce_reserved", "the nonce is of the kind that answers have");
}

/**
 * Checks an answer's nonce: of its form, and of the kind that answers have: `begin` is the form of its beginning.
 *
 * @throws {SealwayError} `nonce_invalid`, `answer_mismatch`.
 */
export function checkAnswerNonce(nonce: string, least: number, begin = /^r-/): void {
  checkNonce(nonce, least);
  if (!begin.test(nonce)) throw new SealwayError("answer_mismatch", "the answer has the nonce of a request");
}

/**
 * The time that a timestamp says, in milliseconds of the epoch.
 *
 * @throws {SealwayError} `timestamp_invalid`.
 */
export function parseStamp(stamp: string): number {
  if (!/^[0-9]{1,15}$/.test(stamp)) {
    throw new SealwayError("timestamp_invalid", "the timestamp is not 1 to 15 decimal digits");
  }
  return Number(stamp);
}
