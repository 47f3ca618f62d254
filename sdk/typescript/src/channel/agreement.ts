/** Key agreement on both curves, by the platform's cryptography as sessions have it. */
import { p256 } from "@noble/curves/nist.js";
import { givenKey } from "../crypto/given.js";
import { nodeProvider } from "../crypto/node.js";
import type { AgreementKey } from "../crypto/provider.js";
import { type Bytes, concat } from "./encoding.js";
import { ofHandshake } from "./error.js";
import { isNode } from "./platform.js";
import type { Curve } from "./suite.js";

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
 * The pair of a private key of 32 bytes, of which it keeps a copy.
 * @throws ChannelError `key_invalid` where it is none of the curve.
 */
export async function keyPair(curve: Curve, privateKey: Bytes): Promise<KeyPair> {
  const key = await keyOf(curve, privateKey).catch(() => {
    throw ofHandshake("key_invalid", `a private key is none of ${curve}`);
  });
  const agree = async (peer: Bytes): Promise<Bytes> => {
    const secret = await key.agree(peer);
    if (secret === undefined) throw ofHandshake("peer_key_invalid", "the peer's public key is none");
    return secret;
  };
  return { curve, publicKey: key.publicKey, agree };
}

async function keyOf(curve: Curve, privateKey: Bytes): Promise<AgreementKey> {
  if (privateKey.length !== 32) throw new RangeError("length");
  const copy = privateKey.slice();
  if (!isNode) return await givenKey(curve, copy);
  return await (curve === "P256" ? nodeProvider.p256(copy) : nodeProvider.x25519(copy));
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
