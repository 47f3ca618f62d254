/** Keys and contexts of requests and answers of wires 3 and 4, and the place of their streams. */
import type { MacKey, Provider } from "../../crypto/provider.js";
import { fromBase64 } from "../../wire/base64.js";
import type { Bytes } from "../../wire/bytes.js";
import { fields } from "../../wire/fields.js";
import { KID_PREFIX, SEALED_HEADER_LEN_MAX } from "../../wire/forms.js";
import { type HeaderList, invalid, optional, X_SEALED } from "../../wire/headers.js";
import { type StreamKeys, streamKeys } from "./stream.js";

/** Method, and path and query as sent. */
export interface RequestLine {
  readonly method: string;
  readonly target: string;
}

/** Wires with streams of frames: 3 in a session, 4 under a public key (`spec/one-shot.md`). */
export type NativeWire = 3 | 4;

/** What a call is sealed under: a session, or on wire 4 the secrets of this one request. */
export interface Seal {
  readonly wire: NativeWire;
  /** Session id; on wire 4 the key name. */
  readonly id: string;
  readonly keys: { readonly c2s: MacKey; readonly s2c: MacKey };
  /** Bytes in front of the stream, on wire 4 alone. */
  readonly prefix?: Bytes | undefined;
}

/** Returns the text in front of the id in `X-Kid`. */
export const kidPrefix = (wire: NativeWire): string => (wire === 3 ? KID_PREFIX : "hpke:");

/** The outer content type of a sealed body. */
export const CONTENT_TYPE = "application/octet-stream";

/** The keys of a request's stream. */
export function requestKeys(
  provider: Provider,
  { wire, keys }: Seal,
  nonce: string,
  stamp: string,
): Promise<StreamKeys> {
  return streamKeys(provider, keys.c2s, fields(`sealway/${wire} request`, nonce, stamp));
}

/** The keys of an answer's stream. */
export function answerKeys(
  provider: Provider,
  { wire, keys }: Seal,
  requestNonce: string,
  nonce: string,
): Promise<StreamKeys> {
  return streamKeys(provider, keys.s2c, fields(`sealway/${wire} answer`, requestNonce, nonce));
}

/** The context of a request: the AAD of its frames. */
export function requestContext(
  provider: Provider,
  { wire, id }: Seal,
  { method, target }: RequestLine,
  contentType: string,
  stamp: string,
  nonce: string,
): Promise<Bytes> {
  return provider.sha256(
    fields(`sealway/${wire} request context`, method, target, contentType, stamp, nonce, id),
  );
}

/** The context of an answer; timestamp and nonce are its own. */
export function answerContext(
  provider: Provider,
  { wire, id }: Seal,
  status: number,
  { method, target }: RequestLine,
  contentType: string,
  stamp: string,
  nonce: string,
): Promise<Bytes> {
  return provider.sha256(
    fields(`sealway/${wire} answer context`, status, method, target, contentType, stamp, nonce, id),
  );
}

/**
 * The stream within `X-Sealed`; none if there is no such header.
 *
 * @throws {SealwayError} `header_invalid`.
 */
export function sealedHeader(headers: HeaderList): Bytes | undefined {
  const value = optional(headers, X_SEALED);
  if (value === undefined) return undefined;
  const stream = value.length <= SEALED_HEADER_LEN_MAX ? fromBase64(value) : undefined;
  if (stream === undefined) throw invalid(X_SEALED);
  return stream;
}

/** True if an answer has no body, so that its stream goes into a header. */
export function isBodyless(method: string, status: number): boolean {
  return method === "HEAD" || status === 204 || status === 205 || status === 304;
}
