/** Key agreement on both curves: the platform's (WebCrypto) where it has the curve, else @noble/curves. */
import { x25519 } from "@noble/curves/ed25519.js";
import { p256 } from "@noble/curves/nist.js";
import { type Bytes, concat, unb64u } from "./encoding.js";
import { ofHandshake } from "./error.js";
import type { Curve } from "./suite.js";

/** PKCS#8 of a private key, up to its 32 bytes (RFC 5958, 5915, 8410). */
const P256_HEAD = hex("3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420");
const X25519_HEAD = hex("302e020100300506032b656e04220420");

/** A private key and its public half. */
export interface KeyPair {
  readonly curve: Curve;
  /** 32 bytes of X25519, or 65 bytes of P-256: `04 || X || Y`. */
  readonly publicKey: Bytes;
  /**
   * The shared secret, 32 bytes. The peer's key is as `publicKey` says.
   * @throws ChannelError `peer_key_invalid` for a key that is none, or leads to zeros.
   */
  agree(peer: Bytes): Promise<Bytes>;
}

/**
 * The pair of a private key of 32 bytes.
 * @throws ChannelError `key_invalid` where it is none of the curve.
 */
export async function keyPair(curve: Curve, privateKey: Bytes): Promise<KeyPair> {
  try {
    return curve === "P256" ? await platformP256(privateKey) : await anyX25519(privateKey);
  } catch {
    throw ofHandshake("key_invalid", `a private key is none of ${curve}`);
  }
}

/** A compressed point of 33 bytes. */
export function compress(point: Bytes): Bytes {
  return concat(Uint8Array.of(2 + (point[64]! & 1)), point.subarray(1, 33));
}

/** The uncompressed point; nothing where there is none. */
export function decompress(point: Bytes): Bytes | undefined {
  if (point.length !== 33) return undefined;
  try {
    return p256.Point.fromBytes(point).toBytes(false) as Bytes;
  } catch {
    return undefined;
  }
}

async function platformP256(privateKey: Bytes): Promise<KeyPair> {
  if (privateKey.length !== 32) throw new RangeError("length");
  const algorithm = { name: "ECDH", namedCurve: "P-256" };
  const encoded = concat(P256_HEAD, privateKey);
  const key = await crypto.subtle.importKey("pkcs8", encoded, algorithm, true, ["deriveBits"]);
  encoded.fill(0);
  const { x, y } = await crypto.subtle.exportKey("jwk", key);
  const [left, right] = [unb64u(x ?? ""), unb64u(y ?? "")];
  if (left?.length !== 32 || right?.length !== 32) throw new RangeError("length");
  const agree = async (peer: Bytes): Promise<Bytes> => {
    try {
      if (peer.length !== 65 || peer[0] !== 4) throw new RangeError("length");
      const theirs = await crypto.subtle.importKey("raw", peer, algorithm, false, []);
      return new Uint8Array(await crypto.subtle.deriveBits({ name: "ECDH", public: theirs }, key, 256));
    } catch {
      throw ofHandshake("peer_key_invalid", "the peer's public key is none");
    }
  };
  return { curve: "P256", publicKey: concat(Uint8Array.of(4), left, right), agree };
}

let hasPlatformX25519: boolean | undefined;

async function anyX25519(privateKey: Bytes): Promise<KeyPair> {
  if (privateKey.length !== 32) throw new RangeError("length");
  let agreeRaw: ((peer: Bytes) => Promise<Uint8Array>) | undefined;
  let publicKey: Bytes | undefined;
  if (hasPlatformX25519 !== false) {
    try {
      const encoded = concat(X25519_HEAD, privateKey);
      const key = await crypto.subtle.importKey("pkcs8", encoded, "X25519", true, ["deriveBits"]);
      encoded.fill(0);
      const { x } = await crypto.subtle.exportKey("jwk", key);
      publicKey = unb64u(x ?? "");
      agreeRaw = async (peer) => {
        const theirs = await crypto.subtle.importKey("raw", peer, "X25519", false, []);
        return new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: theirs }, key, 256));
      };
      hasPlatformX25519 = true;
    } catch {
      hasPlatformX25519 = false;
    }
  }
  if (agreeRaw === undefined || publicKey?.length !== 32) {
    const own = privateKey.slice();
    publicKey = x25519.getPublicKey(own) as Bytes;
    agreeRaw = async (peer) => x25519.getSharedSecret(own, peer);
  }
  const raw = agreeRaw;
  const agree = async (peer: Bytes): Promise<Bytes> => {
    let shared: Uint8Array | undefined;
    try {
      if (peer.length === 32) shared = await raw(peer);
    } catch {
      // A key of small order; some platforms give zeros instead.
    }
    if (shared?.some((byte) => byte !== 0) !== true) {
      throw ofHandshake("peer_key_invalid", "the peer's public key is none");
    }
    return shared as Bytes;
  };
  return { curve: "25519", publicKey, agree };
}

function hex(digits: string): Bytes {
  return Uint8Array.from(digits.match(/../g)!, (pair) => Number.parseInt(pair, 16));
}
