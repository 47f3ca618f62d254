/** Headers within a seal (`spec/session-3.md`, Sealed requests). */
import { type Bytes, concat, fromLatin1, latin1 } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import { type HeaderList, SEALING } from "../../wire/headers.js";

const COUNT_MAX = 64;
const LENGTH_MAX = 16_384;
const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,255}$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones that may not be there
const VALUE = /^[^\x00-\x08\x0a-\x1f\x7f\u0100-\uffff]*$/;
const HOP = new Set([
  "content-length",
  "transfer-encoding",
  "host",
  "expect",
  "te",
  "trailer",
  "upgrade",
  "connection",
  "keep-alive",
  "http2-settings",
]);

/** True if a header of this name, in lower case, may stand inside a seal. */
export function mayBeInner(name: string): boolean {
  return !HOP.has(name) && !SEALING.has(name) && !name.startsWith("proxy-") && !name.startsWith("x-sealway-");
}

function invalid(): SealwayError {
  const what = "headers within the seal are malformed, too many, or not allowed";
  return new SealwayError("inner_headers_invalid", what);
}

function check(name: string, value: string): boolean {
  return NAME.test(name) && VALUE.test(value) && mayBeInner(name);
}

/**
 * Encodes headers; their names are sent in lower case.
 *
 * @throws {SealwayError} `inner_headers_invalid`.
 */
export function encodeInner(headers: HeaderList): Bytes {
  const parts: Uint8Array[] = [];
  for (const [key, value] of headers) {
    const name = key.toLowerCase();
    if (!check(name, value) || value.length > LENGTH_MAX) throw invalid();
    const lengths = Uint8Array.of(value.length >> 8, value.length & 0xff);
    parts.push(Uint8Array.of(name.length), latin1(name), lengths, latin1(value));
  }
  const block = concat(...parts);
  if (headers.length > COUNT_MAX || block.length > LENGTH_MAX) throw invalid();
  return concat(Uint8Array.of(block.length >> 8, block.length & 0xff), block);
}

/**
 * Splits a first frame's plaintext into the headers and what follows them.
 *
 * @throws {SealwayError} `inner_headers_invalid`.
 */
export function decodeInner(plaintext: Uint8Array): { headers: [string, string][]; body: Uint8Array } {
  if (plaintext.length < 2) throw invalid();
  const end = 2 + (plaintext[0] as number) * 256 + (plaintext[1] as number);
  if (end - 2 > LENGTH_MAX || end > plaintext.length) throw invalid();
  const headers: [string, string][] = [];
  for (let at = 2; at < end; ) {
    const nameEnd = at + 1 + (plaintext[at] as number);
    if (nameEnd + 2 > end || headers.length === COUNT_MAX) throw invalid();
    const valueBegin = nameEnd + 2;
    const valueEnd = valueBegin + (plaintext[nameEnd] as number) * 256 + (plaintext[nameEnd + 1] as number);
    if (valueEnd > end) throw invalid();
    const name = fromLatin1(plaintext.subarray(at + 1, nameEnd));
    const value = fromLatin1(plaintext.subarray(valueBegin, valueEnd));
    if (!check(name, value)) throw invalid();
    headers.push([name, value]);
    at = valueEnd;
  }
  return { headers, body: plaintext.subarray(end) };
}
