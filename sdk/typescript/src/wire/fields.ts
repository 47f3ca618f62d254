/** The encoding of all that is hashed or expanded over more than one part (`spec/session-3.md`, Encodings). */
import { type Bytes, concat, utf8 } from "./bytes.js";

/** `field(x)`: the length in 32 bits, big-endian, and the bytes; of a text its UTF-8. */
export function field(value: Uint8Array | string): Bytes {
  const data = typeof value === "string" ? utf8(value) : value;
  const out = new Uint8Array(4 + data.length);
  new DataView(out.buffer).setUint32(0, data.length);
  out.set(data, 4);
  return out;
}

/** `number(n)` of a whole number from 0 to 2^53 - 1. */
export function number(value: number): Bytes {
  const out = new Uint8Array(12);
  const view = new DataView(out.buffer);
  view.setUint32(0, 8);
  view.setUint32(4, Math.floor(value / 2 ** 32));
  view.setUint32(8, value % 2 ** 32);
  return out;
}

/** `list(a, b…)`, of parts that are no fields yet. */
export function list(values: readonly (Uint8Array | string)[]): Bytes {
  return field(concat(...values.map(field)));
}

/** What may be absent: then the empty field. */
export function optional(value: number | string | undefined): Bytes {
  if (value === undefined) return field("");
  return typeof value === "number" ? number(value) : field(value);
}
