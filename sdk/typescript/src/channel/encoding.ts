/** Bytes, numbers and texts as the wires have them: big-endian, base64url without padding. SPEC channel.md#conventions */
import { type Bytes, fromUtf8 } from "../wire/bytes.js";

export { type Bytes, concat, equal as isEqual, fromUtf8 as text, utf8 } from "../wire/bytes.js";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUES = new Int8Array(128).fill(-1);
for (let i = 0; i < ALPHABET.length; i++) VALUES[ALPHABET.charCodeAt(i)] = i;

/** A number in so many bytes, at most 8; it is below 2^53. */
export function uint(value: number, length: number): Bytes {
  const out = new Uint8Array(length);
  let rest = value;
  for (let i = length - 1; i >= 0; i--) {
    out[i] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  return out;
}

/** A u64 in 8 bytes. */
export function u64(value: bigint): Bytes {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setBigUint64(0, value);
  return out;
}

/** base64url without padding. */
export function b64u(bytes: Uint8Array): string {
  let out = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i;
    const group = (bytes[i]! << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    for (let j = 0; j < Math.min(left + 1, 4); j++) out += ALPHABET[(group >> (18 - 6 * j)) & 63];
  }
  return out;
}

/** The bytes of canonical base64url, or nothing: padding, spaces and stray bits are refused. */
export function unb64u(encoded: string): Bytes | undefined {
  const tail = encoded.length % 4;
  if (tail === 1) return undefined;
  const out = new Uint8Array(Math.floor((encoded.length * 3) / 4));
  let [held, bits, at] = [0, 0, 0];
  for (let i = 0; i < encoded.length; i++) {
    const code = encoded.charCodeAt(i);
    const value = code < 128 ? VALUES[code]! : -1;
    if (value < 0) return undefined;
    held = ((held << 6) | value) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out[at++] = (held >> bits) & 0xff;
    }
  }
  return (held & ((1 << bits) - 1)) === 0 ? out : undefined;
}

/** A JSON object from UTF-8, or nothing for anything else. Of a repeated member the last counts. */
export function jsonObject(bytes: Uint8Array): Record<string, unknown> | undefined {
  const json = fromUtf8(bytes);
  if (json === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(json);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** True for an object that is neither null nor a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** True for a whole number from 0 up to a bound. */
export function isUint(value: unknown, max: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= max;
}
