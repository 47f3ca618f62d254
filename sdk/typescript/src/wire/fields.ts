/** The encoding of all that is hashed or expanded over more than one part (`spec/session-3.md`, Encodings). */
import { type Bytes, utf8 } from "./bytes.js";

/**
 * Fields one after the other: of bytes; of a text in UTF-8; `number(n)` of a whole number from 0 to 2^53 - 1; the empty field of
 * what is absent. A list is the field of its fields: `fields(fields(a, b))`.
 */
export function fields(...values: readonly (Uint8Array | string | number | undefined)[]): Bytes {
  let length = 0;
  for (const value of values) length += 4 + (typeof value === "number" ? 8 : (value?.length ?? 0));
  const out = new Uint8Array(length);
  const view = new DataView(out.buffer);
  let at = 0;
  for (const value of values) {
    const begin = at + 4;
    at = begin;
    if (typeof value === "number") {
      view.setUint32(at, Math.floor(value / 2 ** 32));
      view.setUint32(at + 4, value % 2 ** 32);
      at += 8;
    } else if (typeof value === "string") {
      // Nearly all is ASCII, and encoded in place.
      for (let i = 0; i < value.length; i += 1) {
        const code = value.charCodeAt(i);
        if (code > 127)
          return fields(...values.map((each) => (typeof each === "string" ? utf8(each) : each)));
        out[at++] = code;
      }
    } else if (value !== undefined) {
      out.set(value, at);
      at += value.length;
    }
    view.setUint32(begin - 4, at - begin);
  }
  return out;
}
