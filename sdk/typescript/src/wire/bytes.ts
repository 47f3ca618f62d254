/** Bytes as this SDK passes them: never shared memory, so that WebCrypto takes them. */
export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The bytes of a text in UTF-8. */
export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

/** The text of bytes in UTF-8, a byte order mark kept; none if they are not UTF-8. */
export function fromUtf8(bytes: Uint8Array): string | undefined {
  try {
    return strict.decode(bytes);
  } catch {
    return undefined;
  }
}

/** A text whose characters are bytes, as headers are. A character beyond is cut to its lowest byte: check before. */
export function latin1(text: string): Bytes {
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) out[i] = text.charCodeAt(i);
  return out;
}

/** The text whose characters are these bytes. */
export function fromLatin1(bytes: Uint8Array): string {
  let out = "";
  // A call has a bounded number of arguments.
  for (let i = 0; i < bytes.length; i += 8192) out += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return out;
}

/** All parts behind one another. */
export function concat(...parts: readonly Uint8Array[]): Bytes {
  let length = 0;
  for (const part of parts) length += part.length;
  const out = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** A view of bytes that WebCrypto takes; copies only where they are in shared memory. */
export function owned(bytes: Uint8Array): Bytes {
  return bytes.buffer instanceof ArrayBuffer ? (bytes as Bytes) : new Uint8Array(bytes);
}

/** All parts behind one another, without a copy of a single one. */
export function joined(parts: readonly Uint8Array[]): Bytes {
  return parts.length === 1 && parts[0] ? owned(parts[0]) : concat(...parts);
}

/** Lower-case hexadecimal digits. */
export function hex(bytes: Uint8Array): string {
  let out = "";
  for (const byte of bytes) out += byte.toString(16).padStart(2, "0");
  return out;
}

/** Compares bytes in constant time for their length. */
export function equal(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i += 1) difference |= (a[i] as number) ^ (b[i] as number);
  return difference === 0;
}

/** Overwrites what is not needed any more. The engine may have made copies before: this is all that the language lets one do. */
export function wipe(...parts: readonly Uint8Array[]): void {
  for (const part of parts) part.fill(0);
}
