/**
 * The provider over `node:crypto`, where a call costs a few microseconds instead of WebCrypto's way through a thread.
 * Loaded lazily and only on Node, through `process.getBuiltinModule`, so that no bundler for browsers meets it.
 */
import type { KeyObject } from "node:crypto";
import type { Bytes } from "../wire/bytes.js";
import { fromHex } from "../wire/hex.js";
import { encapsulate, newKemKey } from "./kem.js";
import type { AeadKey, AgreementKey, MacKey, Provider } from "./provider.js";

/** Undefined outside Node, where this module can be loaded but not used: channels choose a provider without waiting. */
const crypto = (
  globalThis as { process?: Pick<NodeJS.Process, "getBuiltinModule"> }
).process?.getBuiltinModule?.("node:crypto") as typeof import("node:crypto");

const P256_SPKI = fromHex("3059301306072a8648ce3d020106082a8648ce3d030107034200") ?? new Uint8Array();
const P384_SPKI = fromHex("3076301006072a8648ce3d020106052b81040022036200") ?? new Uint8Array();
const X25519_SPKI = fromHex("302a300506032b656e032100") ?? new Uint8Array();
const X25519_PKCS8 = fromHex("302e020100300506032b656e04220420") ?? new Uint8Array();
const TAG = 16;

/** A view of the platform's buffer as plain bytes; a small one sits in a pool and is copied out of it. */
function plain(buffer: Buffer): Bytes {
  const view = new Uint8Array(buffer.buffer as ArrayBuffer, buffer.byteOffset, buffer.length);
  return buffer.length < 4096 ? view.slice() : view;
}

class NodeMacKey implements MacKey {
  readonly #key: KeyObject;
  constructor(key: Uint8Array) {
    this.#key = crypto.createSecretKey(key);
  }
  async mac(...parts: readonly Uint8Array[]): Promise<Bytes> {
    const hmac = crypto.createHmac("sha256", this.#key);
    for (const part of parts) hmac.update(part);
    return plain(hmac.digest());
  }
}

/** A key of AES-256-GCM, or of the other cipher with the same nonces and tags. */
export class NodeAeadKey implements AeadKey {
  // Most are good for one message: an object of the platform's for each would cost as much as the message. It is private,
  // so nothing prints it.
  #key: Uint8Array;
  readonly #cipher: "aes-256-gcm";
  constructor(key: Uint8Array, cipher: "aes-256-gcm" | "chacha20-poly1305" = "aes-256-gcm") {
    this.#key = key.slice();
    // Both have the same calls; the types know one of them only with the length of a plaintext.
    this.#cipher = cipher as "aes-256-gcm";
  }
  async seal(iv: Uint8Array, plaintext: Uint8Array, aad: Uint8Array, out?: Bytes): Promise<Bytes> {
    const cipher = crypto.createCipheriv(this.#cipher, this.#key, iv, { authTagLength: TAG });
    cipher.setAAD(aad);
    const ciphertext = cipher.update(plaintext);
    cipher.final();
    const sealed = out ?? new Uint8Array(ciphertext.length + TAG);
    sealed.set(ciphertext);
    sealed.set(cipher.getAuthTag(), ciphertext.length);
    return sealed;
  }
  async open(iv: Uint8Array, sealed: Uint8Array, aad: Uint8Array): Promise<Bytes | undefined> {
    if (sealed.length < TAG) return undefined;
    const end = sealed.length - TAG;
    const decipher = crypto.createDecipheriv(this.#cipher, this.#key, iv, { authTagLength: TAG });
    decipher.setAAD(aad);
    decipher.setAuthTag(sealed.subarray(end));
    const plaintext = decipher.update(sealed.subarray(0, end));
    try {
      decipher.final();
    } catch {
      plaintext.fill(0);
      return undefined;
    }
    return plain(plaintext);
  }
  /** Forgets the key. What is sealed or opened after that is refused, and not done under a key that everybody knows. */
  wipe(): void {
    this.#key.fill(0);
    this.#key = new Uint8Array();
  }
}

async function ecKey(curve: string, length: number, scalar?: Uint8Array): Promise<AgreementKey> {
  const ecdh = crypto.createECDH(curve);
  if (scalar === undefined) ecdh.generateKeys();
  else ecdh.setPrivateKey(scalar);
  return {
    publicKey: plain(ecdh.getPublicKey()),
    agree: async (peer) => {
      if (peer.length !== length || peer[0] !== 4) return undefined;
      try {
        return plain(ecdh.computeSecret(peer));
      } catch {
        return undefined;
      }
    },
  };
}

async function x25519(given?: Uint8Array): Promise<AgreementKey> {
  const privateKey =
    given === undefined
      ? crypto.generateKeyPairSync("x25519").privateKey
      : crypto.createPrivateKey({
          key: Buffer.concat([X25519_PKCS8, given]),
          format: "der",
          type: "pkcs8",
        });
  const spki = crypto.createPublicKey(privateKey).export({ format: "der", type: "spki" });
  return {
    publicKey: plain(spki.subarray(X25519_SPKI.length)),
    agree: async (peer) => {
      if (peer.length !== 32) return undefined;
      try {
        const key = Buffer.concat([X25519_SPKI, peer]);
        const publicKey = crypto.createPublicKey({ key, format: "der", type: "spki" });
        const secret = plain(crypto.diffieHellman({ privateKey, publicKey }));
        return secret.some((byte) => byte !== 0) ? secret : undefined;
      } catch {
        return undefined;
      }
    },
  };
}

/** A key of P-256 or P-384 as the platform has it; none if these bytes are no uncompressed point. */
function point(publicKey: Uint8Array): KeyObject | undefined {
  const spki = new Map([
    [65, P256_SPKI],
    [97, P384_SPKI],
  ]).get(publicKey.length);
  if (spki === undefined || publicKey[0] !== 4) return undefined;
  try {
    const key = Buffer.concat([spki, publicKey]);
    return crypto.createPublicKey({ key, format: "der", type: "spki" });
  } catch {
    return undefined;
  }
}

/** Random bytes that were drawn and not given yet: the platform takes as long for a few as for many. */
const drawn = new Uint8Array(4096);
let left = 0;

function random(length: number): Bytes {
  if (length > 64) return new Uint8Array(crypto.randomBytes(length));
  if (left < length) {
    crypto.randomFillSync(drawn);
    left = drawn.length;
  }
  left -= length;
  const given = drawn.slice(left, left + length);
  // Nobody finds later what was given.
  drawn.fill(0, left, left + length);
  return given;
}

/** The provider over `node:crypto`. */
export const nodeProvider: Provider = {
  name: "node",
  sha256: async (...parts) => {
    const [only] = parts;
    const whole = parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
    return plain(crypto.hash("sha256", whole, "buffer"));
  },
  macKey: async (key) => new NodeMacKey(key),
  aeadKey: async (key) => new NodeAeadKey(key),
  p256: (scalar) => ecKey("prime256v1", 65, scalar),
  p384: (scalar) => ecKey("secp384r1", 97, scalar),
  x25519,
  kem: () => newKemKey("ML-KEM-768"),
  kem1024: () => newKemKey("ML-KEM-1024"),
  encapsulate,
  isPoint: async (publicKey) => point(publicKey) !== undefined,
  verify: async (name, publicKey, message, signature) => {
    if (name === "ML-DSA-65" || name === "ML-DSA-87")
      return (await import("./ml-dsa.js")).verifyMlDsa(name, publicKey, message, signature);
    const key = point(publicKey);
    if (key === undefined) return false;
    const hash = name === "ES256" ? "sha256" : "sha384";
    return crypto.verify(hash, message, { key, dsaEncoding: "ieee-p1363" }, signature);
  },
  random,
};
