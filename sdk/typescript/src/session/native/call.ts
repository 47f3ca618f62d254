/** Keys and contexts of requests and answers of the native protocol, and the place of their streams. */
import type { MacKey, Provider } from "../../crypto/provider.js";
import { fromBase64 } from "../../wire/base64.js";
import type { Bytes } from "../../wire/bytes.js";
import { fields } from "../../wire/fields.js";
import { SEALED_HEADER_LEN_MAX } from "../../wire/forms.js";
import { type HeaderList, invalid, optional, X_SEALED } from "../../wire/headers.js";
import { type StreamKeys, streamKeys } from "./stream.js";

/** Method, and path and query as sent. */
export interface RequestLine {
  readonly method: string;
  readonly target: string;
}

/** The outer content type of a sealed body. */
export const CONTENT_TYPE = "application/octet-stream";

/** The keys of a request's stream. */
export function requestKeys(
  provider: Provider,
  c2s: MacKey,
  nonce: string,
  stamp: string,
): Promise<StreamKeys> {
  return streamKeys(provider, c2s, fields("sealway/3 request", nonce, stamp));
}

/** The keys of an answer's stream. */
export function answerKeys(
  provider: Provider,
  s2c: MacKey,
  requestNonce: string,
  nonce: string,
): Promise<StreamKeys> {
  return streamKeys(provider, s2c, fields("sealway/3 answer", requestNonce, nonce));
}

/** The context of a request: the AAD of its frames. */
export function requestContext(
  provider: Provider,
  line: RequestLine,
  contentType: string,
  stamp: string,
  nonce: string,
  sessionId: string,
): Promise<Bytes> {
  const { method, target } = line;
  return provider.sha256(
    fields("sealway/3 request context", method, target, contentType, stamp, nonce, sessionId),
  );
}

/** The context of an answer; timestamp and nonce are its own. */
export function answerContext(
  provider: Provider,
  status: number,
  line: RequestLine,
  contentType: string,
  stamp: string,
  nonce: string,
  sessionId: string,
): Promise<Bytes> {
  const { method, target } = line;
  return provider.sha256(
    fields("sealway/3 answer context", status, method, target, contentType, stamp, nonce, sessionId),
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
