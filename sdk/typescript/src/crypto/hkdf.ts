/** HKDF-SHA256 (RFC 5869) in its two steps, over a provider's HMAC. */
import { type Bytes, concat, utf8, wipe } from "../wire/bytes.js";
import type { MacKey, Provider } from "./provider.js";

/** The pseudorandom key, 32 bytes. */
export async function extract(provider: Provider, salt: Uint8Array, ikm: Uint8Array): Promise<Bytes> {
  return (await provider.macKey(salt)).mac(ikm);
}

/** So many bytes, at most 64, from a pseudorandom key. */
export async function expand(prk: MacKey, info: Uint8Array | string, length = 32): Promise<Bytes> {
  const label = typeof info === "string" ? utf8(info) : info;
  const first = await prk.mac(label, Uint8Array.of(1));
  if (length <= 32) return first.slice(0, length);
  const second = await prk.mac(first, label, Uint8Array.of(2));
  const out = concat(first, second.subarray(0, length - 32));
  wipe(first, second);
  return out;
}

/** A key of HMAC made of another one, readable nowhere. */
export async function expandKey(provider: Provider, prk: MacKey, info: string): Promise<MacKey> {
  const bytes = await expand(prk, info);
  const key = await provider.macKey(bytes);
  wipe(bytes);
  return key;
}
