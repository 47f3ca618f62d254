/** Key configurations of wire 4 (`spec/one-shot.md`, Keys). */
import type { Provider } from "../../crypto/provider.js";
import { type Bytes, concat, equal } from "../../wire/bytes.js";
import { keyIdOf } from "../native/key-set.js";
import { KDF_AEAD, type Kem, kemOf, publicKeyLength } from "./hpke.js";

/** Form of a kid. */
export const KID = /^hpke:[0-9a-f]{32}$/;

/** Number of bytes in front of the public key: key id and KEM id. */
const HEAD = 3;
/** The one suite, behind its length. */
const SUITES = concat(Uint8Array.of(0, 4), KDF_AEAD);

/** A key configuration of its form; whether its public key is one of its KEM shows at its use. */
export interface KeyConfig {
  readonly bytes: Bytes;
  /** Absent of a KEM that this SDK does not have. */
  readonly kem: Kem | undefined;
  readonly publicKey: Bytes;
}

/** Reads a key configuration (RFC 9458 section 3.1) with exactly one suite; none if it has another form. */
export function parseConfig(bytes: Bytes): KeyConfig | undefined {
  const end = bytes.length - SUITES.length;
  if (end <= HEAD || !equal(bytes.subarray(end), SUITES)) return undefined;
  const kem = kemOf(bytes[1]! * 256 + bytes[2]!);
  const publicKey = bytes.subarray(HEAD, end);
  const holds = kem === undefined || publicKey.length === publicKeyLength(kem);
  return holds ? { bytes, kem, publicKey } : undefined;
}

/** The name of a key: the first 16 bytes of the SHA-256 of its configuration, in hexadecimal digits. */
export function keyNameOf(provider: Provider, config: KeyConfig): Promise<string> {
  return keyIdOf(provider, config.bytes);
}
