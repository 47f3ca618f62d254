/**
 * The seam behind which a crypto library stands. The pure core is given a {@link Provider}; everything is asynchronous,
 * because WebCrypto is. Keys do not leave it: where the platform can, they are not readable.
 */
import type { Bytes } from "../wire/bytes.js";

/** A key of HMAC-SHA256. */
export interface MacKey {
  /** The mac of all parts behind one another, 32 bytes. */
  mac(...parts: readonly Uint8Array[]): Promise<Bytes>;
}

/** A key of AES-256-GCM. */
export interface AeadKey {
  /** Ciphertext and tag, written to `out` where that is given. `iv` has 12 bytes and is new for each message. */
  seal(iv: Uint8Array, plaintext: Uint8Array, aad: Uint8Array, out?: Bytes): Promise<Bytes>;
  /** The plaintext of ciphertext and tag; none if the tag does not verify. */
  open(iv: Uint8Array, sealed: Uint8Array, aad: Uint8Array): Promise<Bytes | undefined>;
}

/** A private key of a key agreement, good for one. */
export interface AgreementKey {
  /** Its public key: 65 bytes of P-256 or 97 of P-384, uncompressed; 32 of X25519. */
  readonly publicKey: Bytes;
  /** The shared secret, 32 bytes, of P-384 48; none if the peer's key is none, and for X25519's all-zero secret. */
  agree(peer: Uint8Array): Promise<Bytes | undefined>;
}

/** A private key of ML-KEM. */
export interface KemKey {
  /** The encapsulation key: 1184 bytes of ML-KEM-768, 1568 of ML-KEM-1024. */
  readonly publicKey: Bytes;
  /** The secret within a ciphertext of 1088 or 1568 bytes; never refused, as FIPS 203 has it. */
  decapsulate(ciphertext: Uint8Array): Promise<Bytes>;
}

/** Algorithms of which signatures consist (`spec/session-3.md`, Algorithms). */
export type SigningPart = "ES256" | "ES384" | "ML-DSA-65" | "ML-DSA-87";

export interface Provider {
  /** Name for messages: `node` or `webcrypto`. */
  readonly name: string;
  sha256(...parts: readonly Uint8Array[]): Promise<Bytes>;
  /** Takes a key of 32 bytes. */
  macKey(key: Uint8Array): Promise<MacKey>;
  /** Takes a key of 32 bytes. */
  aeadKey(key: Uint8Array): Promise<AeadKey>;
  /** A new key pair of P-256; of a given scalar for vectors. */
  p256(scalar?: Uint8Array): Promise<AgreementKey>;
  /** A new key pair of P-384; of a given scalar for vectors. */
  p384(scalar?: Uint8Array): Promise<AgreementKey>;
  /** A new key pair of X25519; of given bytes for vectors. */
  x25519(privateKey?: Uint8Array): Promise<AgreementKey>;
  /** A new key pair of ML-KEM-768. */
  kem(): Promise<KemKey>;
  /** A new key pair of ML-KEM-1024. */
  kem1024(): Promise<KemKey>;
  /** A secret of 32 bytes and the ciphertext that holds it. The encapsulation key, which names the KEM by its length, was checked before. */
  encapsulate(publicKey: Uint8Array): Promise<{ ciphertext: Bytes; secret: Bytes }>;
  /** Returns true if 65 bytes are an uncompressed point of P-256, or 97 bytes one of P-384. */
  isPoint(publicKey: Uint8Array): Promise<boolean>;
  /** Verifies a signature; key and signature have the lengths of the algorithm. */
  verify(
    algorithm: SigningPart,
    publicKey: Uint8Array,
    message: Uint8Array,
    signature: Uint8Array,
  ): Promise<boolean>;
  /** Bytes that nobody can foretell, for the shell: the core is given its random bytes. */
  random(length: number): Bytes;
}
