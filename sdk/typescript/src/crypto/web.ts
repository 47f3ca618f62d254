/** The provider over WebCrypto: browsers, and any runtime. No key that lasts is readable. */
import { type Bytes, joined, owned, wipe } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import type { AeadKey, AgreementKey, MacKey, Provider } from "./provider.js";

const HMAC = { name: "HMAC", hash: "SHA-256" };
const curve = (name: string, bits: number) => ({ name, namedCurve: `P-${bits}` });
export const P256 = curve("ECDH", 256);
export const P384 = curve("ECDH", 384);
export const X25519 = { name: "X25519" };

const subtle = (): SubtleCrypto => globalThis.crypto.subtle;
const bytes = (buffer: ArrayBuffer): Bytes => new Uint8Array(buffer);

// Keys are in closures: nothing that prints an object shows them.
const macKeyOf = (key: CryptoKey): MacKey => ({
  mac: async (...parts) => bytes(await subtle().sign(HMAC, key, joined(parts))),
});

const aeadKeyOf = (key: CryptoKey): AeadKey => {
  const algorithm = (iv: Uint8Array, aad: Uint8Array) => ({
    name: "AES-GCM",
    iv: owned(iv),
    additionalData: owned(aad),
  });
  return {
    seal: async (iv, plaintext, aad, out) => {
      const sealed = bytes(await subtle().encrypt(algorithm(iv, aad), key, owned(plaintext)));
      out?.set(sealed);
      return out ?? sealed;
    },
    open: async (iv, sealed, aad) => {
      try {
        return bytes(await subtle().decrypt(algorithm(iv, aad), key, owned(sealed)));
      } catch {
        return undefined;
      }
    },
  };
};

/** Imports a public key; points are uncompressed. */
async function imported(
  key: Uint8Array,
  algorithm: { name: string },
  uses: KeyUsage[] = [],
): Promise<CryptoKey> {
  if (algorithm !== X25519 && key[0] !== 4) throw new TypeError("not a point");
  return subtle().importKey("raw", owned(key), algorithm, false, uses);
}

/** A key for ECDH with P-256, P-384 or X25519, of its two halves. */
export const agreementKeyOf = (
  publicKey: Bytes,
  own: CryptoKey,
  algorithm: { name: string },
): AgreementKey => ({
  publicKey,
  agree: async (peer) => {
    try {
      const key = await imported(peer, algorithm);
      const bits = algorithm === P384 ? 384 : 256;
      const secret = bytes(await subtle().deriveBits({ name: algorithm.name, public: key }, own, bits));
      // RFC 7748 section 6.1: a point of small order gives everybody the same secret.
      return algorithm === X25519 && secret.every((byte) => byte === 0) ? undefined : secret;
    } catch {
      return undefined;
    }
  },
});

async function newKey(algorithm: { name: string }): Promise<AgreementKey> {
  const pair = (await subtle().generateKey(algorithm, false, ["deriveBits"])) as CryptoKeyPair;
  return agreementKeyOf(bytes(await subtle().exportKey("raw", pair.publicKey)), pair.privateKey, algorithm);
}

/** Draws keys of a curve; a scalar is for other providers. */
const ecdh =
  (algorithm: { name: string }): Provider["p256"] =>
  async (scalar) => {
    if (scalar === undefined) return newKey(algorithm);
    throw new SealwayError("provider", "WebCrypto takes no scalar");
  };

/** X25519 where WebCrypto has none: a library, loaded when it is needed. */
async function libraryX25519(given?: Uint8Array): Promise<AgreementKey> {
  const { x25519 } = await import("@noble/curves/ed25519.js");
  const privateKey = given ?? x25519.utils.randomSecretKey();
  return {
    publicKey: owned(x25519.getPublicKey(privateKey)),
    agree: async (peer) => {
      try {
        return owned(x25519.getSharedSecret(privateKey, peer));
      } catch {
        return undefined;
      } finally {
        if (given === undefined) wipe(privateKey);
      }
    },
  };
}

/** The provider over `globalThis.crypto`. */
export const webProvider: Provider = {
  name: "webcrypto",
  sha256: async (...parts) => bytes(await subtle().digest("SHA-256", joined(parts))),
  macKey: async (key) => macKeyOf(await subtle().importKey("raw", owned(key), HMAC, false, ["sign"])),
  aeadKey: async (key) =>
    aeadKeyOf(await subtle().importKey("raw", owned(key), "AES-GCM", false, ["encrypt", "decrypt"])),
  p256: ecdh(P256),
  p384: ecdh(P384),
  x25519: async (privateKey) => {
    try {
      if (privateKey === undefined) return await newKey(X25519);
    } catch {
      // There is none: below.
    }
    return libraryX25519(privateKey);
  },
  kem: async () => (await import("./kem.js")).newKemKey("ML-KEM-768"),
  kem1024: async () => (await import("./kem.js")).newKemKey("ML-KEM-1024"),
  encapsulate: async (publicKey) => (await import("./kem.js")).encapsulate(publicKey),
  isPoint: async (publicKey) => {
    try {
      return !!(await imported(publicKey, publicKey.length === 97 ? P384 : P256));
    } catch {
      return false;
    }
  },
  verify: async (name, publicKey, message, signature) => {
    if (name === "ML-DSA-65" || name === "ML-DSA-87")
      return (await import("./ml-dsa.js")).verifyMlDsa(name, publicKey, message, signature);
    const bits = name === "ES256" ? 256 : 384;
    try {
      const key = await imported(publicKey, curve("ECDSA", bits), ["verify"]);
      const algorithm = { name: "ECDSA", hash: `SHA-${bits}` };
      return await subtle().verify(algorithm, key, owned(signature), owned(message));
    } catch {
      return false;
    }
  },
  random: (length) => globalThis.crypto.getRandomValues(new Uint8Array(length)),
};
