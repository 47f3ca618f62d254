import { hmac } from "@noble/hashes/hmac.js";
import { sha256 as digest } from "@noble/hashes/sha2.js";
import { type Bytes, concat, utf8 } from "./encoding.js";

/** SHA-256 of parts behind one another. */
export function sha256(...parts: readonly Uint8Array[]): Bytes {
  const hash = digest.create();
  for (const part of parts) hash.update(part);
  return hash.digest() as Bytes;
}

/** HMAC-SHA256 of parts behind one another. */
export function hmac256(key: Uint8Array, ...parts: readonly Uint8Array[]): Bytes {
  const mac = hmac.create(digest, key);
  for (const part of parts) mac.update(part);
  return mac.digest() as Bytes;
}

/** HKDF-Expand (RFC 5869) of at most 32 bytes. */
export function expand(key: Uint8Array, info: string, length = 32): Bytes {
  return hmac256(key, utf8(info), Uint8Array.of(1)).subarray(0, length);
}

/** Noise's HKDF: two or three outputs of 32 bytes. */
export function noiseHkdf(chaining: Uint8Array, material: Uint8Array, count: 2 | 3): Bytes[] {
  const key = hmac256(chaining, material);
  const out: Bytes[] = [];
  let last: Bytes = new Uint8Array(0);
  for (let i = 1; i <= count; i++) {
    last = hmac256(key, concat(last, Uint8Array.of(i)));
    out.push(last);
  }
  key.fill(0);
  return out;
}
