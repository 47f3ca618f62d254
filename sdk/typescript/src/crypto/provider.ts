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
  /** Its public key: 65 bytes of P-256, uncompressed; 32 of X25519. */
  readonly publicKey: Bytes;
  /** The shared secret, 32 bytes; none if the peer's key is none, and for X25519's all-zero secret. */
  agree(peer: Uint8Array): Promise<Bytes | undefined>;
}

/** A private key of ML-KEM-768. */
export interface KemKey {
  /** The encapsulation key, 1184 bytes. */
  readonly publicKey: Bytes;
  /** The secret within a ciphertext of 1088 bytes; never refused, as FIPS 203 has it. */
  decapsulate(ciphertext: Uint8Array): Promise<Bytes>;
}

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
  /** A new key pair of X25519; of given bytes for vectors. */
  x25519(privateKey?: Uint8Array): Promise<AgreementKey>;
  /** A new key pair of ML-KEM-768. */
  kem(): Promise<KemKey>;
  /** A secret of 32 bytes and the ciphertext that holds it. The encapsulation key was checked before. */
  encapsulate(publicKey: Uint8Array): Promise<{ ciphertext: Bytes; secret: Bytes }>;
  /** Returns true if 65 bytes are an uncompressed point of P-256. */
  isPoint(publicKey: Uint8Array): Promise<boolean>;
  /** Verifies ES256: ECDSA on P-256 with SHA-256, a signature of 64 bytes, a key of 65. */
  verify(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean>;
  /** Bytes that nobody can foretell, for the shell: the core is given its random bytes. */
  random(length: number): Bytes;
}
