/** Signature algorithms of identity keys and roots (`spec/session-3.md`, Algorithms). */
import type { Provider, SigningPart } from "../../crypto/provider.js";
import { type Bytes, concat } from "../../wire/bytes.js";
import { fields } from "../../wire/fields.js";

export type SignatureAlgorithm = SigningPart | "ES256+ML-DSA-65" | "ES384+ML-DSA-87";

/** Bytes of a public key and of a signature. */
const LENGTHS: Readonly<Record<SigningPart, readonly [key: number, signature: number]>> = {
  ES256: [65, 64],
  ES384: [97, 96],
  "ML-DSA-65": [1952, 3309],
  "ML-DSA-87": [2592, 4627],
};

/** All signature algorithms that this SDK has. */
export const SIGNATURE_ALGORITHMS = [
  ...Object.keys(LENGTHS),
  "ES256+ML-DSA-65",
  "ES384+ML-DSA-87",
] as readonly SignatureAlgorithm[];

/** The form of a name, also of one that this SDK does not know. */
export const ALGORITHM_NAME = /^[A-Za-z0-9_+-]{1,32}$/;

const partsOf = (algorithm: string) => algorithm.split("+") as SigningPart[];

/** True if a name is an algorithm of this SDK. */
export function isAlgorithm(name: unknown): name is SignatureAlgorithm {
  return SIGNATURE_ALGORITHMS.includes(name as SignatureAlgorithm);
}

/** The length of a public key (0) or a signature (1) in bytes. */
const lengthOf = (algorithm: string, which: 0 | 1) =>
  partsOf(algorithm).reduce((sum, part) => sum + LENGTHS[part][which], 0);

/** Returns the algorithm of a public key, which its length names; none if this SDK does not know it. */
export function algorithmOf({ length }: Uint8Array): SignatureAlgorithm | undefined {
  return SIGNATURE_ALGORITHMS.find((algorithm) => lengthOf(algorithm, 0) === length);
}

/**
 * Returns true if a client accepts keys of an algorithm. Without a restriction it accepts ES256, and of keys that it pinned any
 * algorithm.
 */
export function isAccepted(
  algorithm: SignatureAlgorithm | undefined,
  accepted: readonly string[] | undefined,
  isPinned: boolean,
): boolean {
  if (algorithm === undefined) return false;
  return accepted ? accepted.includes(algorithm) : isPinned || algorithm === "ES256";
}

/** Returns true if bytes are a public key of an algorithm of this SDK, and its point is on the curve. */
export async function isPublicKey(provider: Provider, key: Uint8Array): Promise<boolean> {
  const [first] = partsOf(algorithmOf(key) ?? "");
  return first?.startsWith("ES") ? provider.isPoint(key.subarray(0, LENGTHS[first][0])) : !!first;
}

/** Verifies the signature of a message; of a composite key both parts. False if this SDK does not know the key's algorithm. */
export async function verify(
  provider: Provider,
  key: Uint8Array,
  message: Bytes,
  signature: Uint8Array,
): Promise<boolean> {
  const algorithm = algorithmOf(key);
  if (algorithm === undefined || signature.length !== lengthOf(algorithm, 1)) return false;
  const parts = partsOf(algorithm);
  // Else the signature of a part were one of a key that consists of that part.
  const signed = parts.length > 1 ? concat(fields(algorithm), message) : message;
  let [keys, signatures] = [key, signature];
  for (const part of parts) {
    const [keyEnd, end] = LENGTHS[part];
    if (!(await provider.verify(part, keys.subarray(0, keyEnd), signed, signatures.subarray(0, end))))
      return false;
    [keys, signatures] = [keys.subarray(keyEnd), signatures.subarray(end)];
  }
  return true;
}
