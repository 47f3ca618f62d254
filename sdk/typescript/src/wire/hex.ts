/** Hexadecimal digits read; apart from the bytes that a page loads. */
import type { Bytes } from "./bytes.js";

/** The bytes of hexadecimal digits; none if they are none. */
export function fromHex(text: string): Bytes | undefined {
  if (text.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(text)) return undefined;
  const out = new Uint8Array(text.length / 2);
  for (let i = 0; i < out.length; i += 1) out[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return out;
}
