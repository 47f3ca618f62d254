/** Sealed messages of wires 1 and 2 (`spec/session.md`, Wire 1, Wire 2), for both sides. */
import type { AeadKey } from "../../crypto/provider.js";
import { fromBase64, toBase64 } from "../../wire/base64.js";
import { type Bytes, concat, equal, fromLatin1, utf8 } from "../../wire/bytes.js";
import { X_AAD, X_ENC_ALG, X_IV, X_NONCE, X_TAG, X_TIMESTAMP } from "../../wire/compat-headers.js";
import { SealwayError } from "../../wire/error.js";
import { type HeaderList, invalid, required, X_IDEMPOTENCY_KEY, X_KID } from "../../wire/headers.js";

const A256GCM = "A256GCM";
const IV = 12;
const TAG = 16;

/** A sealed message. */
export interface SealedMessage {
  readonly headers: [string, string][];
  readonly contentType: string;
  readonly body: Bytes;
}

/** Parts of a message of wire 1 that stand in headers. */
export interface DetachedSeal {
  readonly iv: Bytes;
  readonly tag: Bytes;
  readonly aad: Bytes;
}

/** The AAD of wire 1; `subject` is `POST` or the answer's status. */
export function aad1(subject: string, path: string, stamp: string, nonce: string, kid: string): Bytes {
  return utf8([subject, path, stamp, nonce, kid].join("|"));
}

/** The AAD of wire 2. */
export function aad2(stamp: string, nonce: string, kid: string, clientId: string): Bytes {
  return utf8([stamp, nonce, kid, clientId].join("|"));
}

function sized(headers: HeaderList, name: string, length?: number): Bytes {
  const bytes = fromBase64(required(headers, name));
  if (bytes === undefined || (length !== undefined && bytes.length !== length)) throw invalid(name);
  return bytes;
}

/**
 * Reads what a message of wire 1 has beside its body.
 *
 * @throws {SealwayError} `header_missing`, `header_invalid`.
 */
export function parseDetached(headers: HeaderList): DetachedSeal {
  if (required(headers, X_ENC_ALG) !== A256GCM) throw invalid(X_ENC_ALG);
  for (const name of [X_IV, X_TAG, X_AAD]) required(headers, name);
  return { iv: sized(headers, X_IV, IV), tag: sized(headers, X_TAG, TAG), aad: sized(headers, X_AAD) };
}

/**
 * Opens a message of wire 1.
 *
 * @throws {SealwayError} `aad_mismatch`, `base64_invalid`, `unsealable`.
 */
export async function open1(
  key: AeadKey,
  detached: DetachedSeal,
  aad: Bytes,
  body: Uint8Array,
): Promise<Bytes> {
  if (!equal(detached.aad, aad)) {
    throw new SealwayError("aad_mismatch", "X-AAD is not what the message itself gives");
  }
  const ciphertext = fromBase64(fromLatin1(body));
  if (ciphertext === undefined) throw new SealwayError("base64_invalid", "the body is not base64");
  return opened(await key.open(detached.iv, concat(ciphertext, detached.tag), aad));
}

/**
 * Opens a message of wire 2.
 *
 * @throws {SealwayError} `body_too_short`, `unsealable`.
 */
export async function open2(key: AeadKey, aad: Bytes, body: Uint8Array): Promise<Bytes> {
  if (body.length < IV + TAG) {
    throw new SealwayError("body_too_short", "the body is shorter than an empty message");
  }
  return opened(await key.open(body.subarray(0, IV), body.subarray(IV), aad));
}

function opened(plaintext: Bytes | undefined): Bytes {
  if (plaintext === undefined) throw new SealwayError("unsealable", "the tag does not verify");
  return plaintext;
}

/** Seals a message of wire 1. */
export async function seal1(
  key: AeadKey,
  subject: string,
  path: string,
  stamp: string,
  nonce: string,
  kid: string,
  iv: Uint8Array,
  plaintext: Uint8Array,
): Promise<SealedMessage> {
  const aad = aad1(subject, path, stamp, nonce, kid);
  const sealed = await key.seal(iv, plaintext, aad);
  const end = sealed.length - TAG;
  return {
    headers: [
      [X_KID, kid],
      [X_ENC_ALG, A256GCM],
      [X_IV, toBase64(iv)],
      [X_TAG, toBase64(sealed.subarray(end))],
      [X_AAD, toBase64(aad)],
      [X_NONCE, nonce],
      [X_TIMESTAMP, stamp],
    ],
    contentType: "text/plain; charset=utf-8",
    body: utf8(toBase64(sealed.subarray(0, end))),
  };
}

/** Seals a message of wire 2. */
export async function seal2(
  key: AeadKey,
  stamp: string,
  nonce: string,
  kid: string,
  clientId: string,
  iv: Uint8Array,
  plaintext: Uint8Array,
): Promise<SealedMessage> {
  const sealed = await key.seal(iv, plaintext, aad2(stamp, nonce, kid, clientId));
  return {
    headers: [
      [X_KID, kid],
      [X_IDEMPOTENCY_KEY, `${stamp}.${nonce}`],
    ],
    contentType: "application/octet-stream",
    body: concat(iv, sealed),
  };
}
