/** Content encryption: the closed list of `enc` (RFC 7518 section 5), by `node:crypto`. */
import {
  type CipherGCMTypes,
  createCipheriv,
  createDecipheriv,
  createHmac,
  timingSafeEqual,
} from "node:crypto";

interface ContentAlgorithm {
  /** Lengths in bytes; `ivLength` is that of IVs that are sent. */
  readonly keyLength: number;
  readonly ivLength: number;
  readonly tagLength: number;
  readonly cipher: string;
  /** The hash of the MAC of AES-CBC; AES-GCM has none. */
  readonly hash?: string;
}

function gcm(keyLength: number): ContentAlgorithm {
  return { keyLength, ivLength: 12, tagLength: 16, cipher: `aes-${8 * keyLength}-gcm` };
}

function cbc(keyLength: number, hash: string): ContentAlgorithm {
  return { keyLength, ivLength: 16, tagLength: keyLength / 2, cipher: `aes-${4 * keyLength}-cbc`, hash };
}

/** All algorithms. A name that is not here does not exist. */
export const ENCS = {
  A128GCM: gcm(16),
  A192GCM: gcm(24),
  A256GCM: gcm(32),
  "A128CBC-HS256": cbc(32, "sha256"),
  "A192CBC-HS384": cbc(48, "sha384"),
  "A256CBC-HS512": cbc(64, "sha512"),
} as const satisfies Readonly<Record<string, ContentAlgorithm>>;

/** The name of a content encryption algorithm (`enc`). */
export type MleEnc = keyof typeof ENCS;

/** Encrypts a plaintext. The key and the IV are new, and used once. */
export function sealContent(
  enc: MleEnc,
  key: Uint8Array,
  iv: Uint8Array,
  aad: Uint8Array,
  plaintext: Uint8Array,
): { ciphertext: Uint8Array; tag: Uint8Array } {
  const algorithm: ContentAlgorithm = ENCS[enc];
  if (algorithm.hash === undefined) {
    const cipher = createCipheriv(algorithm.cipher as CipherGCMTypes, key, iv, { authTagLength: 16 });
    cipher.setAAD(aad);
    const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
    return { ciphertext, tag: cipher.getAuthTag() };
  }
  const cipher = createCipheriv(algorithm.cipher, key.subarray(key.length / 2), iv);
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return { ciphertext, tag: mac(algorithm, key, iv, aad, ciphertext) };
}

/** Verifies the tag and decrypts; the lengths of key, IV and tag were checked. Returns none if the tag does not verify. */
export function openContent(
  enc: MleEnc,
  key: Uint8Array,
  iv: Uint8Array,
  aad: Uint8Array,
  ciphertext: Uint8Array,
  tag: Uint8Array,
): Buffer | undefined {
  const algorithm: ContentAlgorithm = ENCS[enc];
  if (algorithm.hash === undefined) {
    const decipher = createDecipheriv(algorithm.cipher as CipherGCMTypes, key, iv, { authTagLength: 16 });
    decipher.setAAD(aad);
    decipher.setAuthTag(tag);
    const plaintext = decipher.update(ciphertext);
    try {
      decipher.final();
    } catch {
      plaintext.fill(0);
      return undefined;
    }
    return plaintext;
  }
  // The MAC decides before any byte is decrypted, so that the padding is never an oracle.
  if (!timingSafeEqual(mac(algorithm, key, iv, aad, ciphertext), tag)) return undefined;
  const decipher = createDecipheriv(algorithm.cipher, key.subarray(key.length / 2), iv);
  try {
    return Buffer.concat([decipher.update(ciphertext), decipher.final()]);
  } catch {
    return undefined;
  }
}

/** Computes the tag of AES-CBC with HMAC (RFC 7518 section 5.2.2.1): the first half of the key authenticates. */
function mac(
  { hash = "", tagLength }: ContentAlgorithm,
  key: Uint8Array,
  iv: Uint8Array,
  aad: Uint8Array,
  ciphertext: Uint8Array,
): Uint8Array {
  const bits = Buffer.alloc(8);
  bits.writeBigUInt64BE(8n * BigInt(aad.length));
  const hmac = createHmac(hash, key.subarray(0, key.length / 2));
  for (const part of [aad, iv, ciphertext, bits]) hmac.update(part);
  return hmac.digest().subarray(0, tagLength);
}
