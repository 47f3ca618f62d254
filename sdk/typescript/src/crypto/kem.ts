/** ML-KEM-768 and ML-KEM-1024: by WebCrypto where the runtime has it, else by a library that is loaded when it is needed. */
import type { Bytes } from "../wire/bytes.js";
import type { KemKey } from "./provider.js";

/** Parameter k of each size of ML-KEM (FIPS 203 section 8). */
const RANKS = { "ML-KEM-768": 3, "ML-KEM-1024": 4 } as const;
type Size = keyof typeof RANKS;

/** ML-KEM of WebCrypto, in runtimes that have it. */
interface KemSubtle {
  encapsulateBits(
    algorithm: { name: string },
    key: CryptoKey,
  ): Promise<{ sharedKey: ArrayBuffer; ciphertext: ArrayBuffer }>;
  decapsulateBits(algorithm: { name: string }, key: CryptoKey, ciphertext: Bytes): Promise<ArrayBuffer>;
  generateKey(algorithm: { name: string }, extractable: boolean, usages: string[]): Promise<CryptoKeyPair>;
  exportKey(format: string, key: CryptoKey): Promise<ArrayBuffer>;
  importKey(
    format: string,
    key: Bytes,
    algorithm: { name: string },
    extractable: boolean,
    usages: string[],
  ): Promise<CryptoKey>;
}

function platform(): KemSubtle | undefined {
  const subtle = globalThis.crypto.subtle as unknown as Partial<KemSubtle>;
  return typeof subtle.encapsulateBits === "function" ? (subtle as KemSubtle) : undefined;
}

async function library(size: Size) {
  const { ml_kem768, ml_kem1024 } = await import("@noble/post-quantum/ml-kem.js");
  return size === "ML-KEM-768" ? ml_kem768 : ml_kem1024;
}

/** A new key pair. */
export async function newKemKey(name: Size): Promise<KemKey> {
  const subtle = platform();
  if (subtle !== undefined) {
    try {
      const pair = await subtle.generateKey({ name }, false, ["encapsulateBits", "decapsulateBits"]);
      const publicKey = new Uint8Array(await subtle.exportKey("raw-public", pair.publicKey));
      return {
        publicKey,
        decapsulate: async (ciphertext) =>
          new Uint8Array(await subtle.decapsulateBits({ name }, pair.privateKey, new Uint8Array(ciphertext))),
      };
    } catch (error) {
      // Some runtimes have the functions and not the algorithm.
      if (!(error instanceof DOMException && error.name === "NotSupportedError")) throw error;
    }
  }
  const kem = await library(name);
  const { publicKey, secretKey } = kem.keygen();
  return {
    publicKey: new Uint8Array(publicKey),
    decapsulate: async (ciphertext) => {
      const secret = new Uint8Array(kem.decapsulate(ciphertext, secretKey));
      secretKey.fill(0);
      return secret;
    },
  };
}

/** A key from its expanded form of 2400 or 3168 bytes (FIPS 203), for vectors. */
export async function kemKeyOf(expanded: Uint8Array): Promise<KemKey> {
  const name = expanded.length === 2400 ? "ML-KEM-768" : "ML-KEM-1024";
  const kem = await library(name);
  const begin = 384 * RANKS[name];
  return {
    publicKey: new Uint8Array(expanded.slice(begin, 2 * begin + 32)),
    decapsulate: async (ciphertext) => new Uint8Array(kem.decapsulate(ciphertext, expanded)),
  };
}

/** A secret and the ciphertext that holds it. */
export async function encapsulate(publicKey: Uint8Array): Promise<{ ciphertext: Bytes; secret: Bytes }> {
  const name = publicKey.length === 384 * RANKS["ML-KEM-768"] + 32 ? "ML-KEM-768" : "ML-KEM-1024";
  const subtle = platform();
  if (subtle !== undefined) {
    try {
      const key = await subtle.importKey("raw-public", new Uint8Array(publicKey), { name }, false, [
        "encapsulateBits",
      ]);
      const { sharedKey, ciphertext } = await subtle.encapsulateBits({ name }, key);
      return { ciphertext: new Uint8Array(ciphertext), secret: new Uint8Array(sharedKey) };
    } catch (error) {
      if (!(error instanceof DOMException && error.name === "NotSupportedError")) throw error;
    }
  }
  const { cipherText, sharedSecret } = (await library(name)).encapsulate(publicKey);
  return { ciphertext: new Uint8Array(cipherText), secret: new Uint8Array(sharedSecret) };
}
