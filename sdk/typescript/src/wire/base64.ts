import { type Bytes, fromLatin1, latin1 } from "./bytes.js";

/** Base64 as RFC 4648 section 4 has it: the standard alphabet, padded. */
export function toBase64(bytes: Uint8Array): string {
  return btoa(fromLatin1(bytes));
}

/** The bytes of a base64 text, which must be the one that {@link toBase64} makes; none for any other spelling. */
export function fromBase64(text: string): Bytes | undefined {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  try {
    const bytes = latin1(atob(text));
    // Bits that are not used must be zero: else one message has many spellings.
    const tail = bytes.length - (bytes.length % 3);
    return toBase64(bytes.subarray(tail)) === (bytes.length % 3 === 0 ? "" : text.slice(-4))
      ? bytes
      : undefined;
  } catch {
    return undefined;
  }
}

/** Base64url without padding (RFC 4648 section 5). */
export function toBase64Url(bytes: Uint8Array): string {
  return toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
