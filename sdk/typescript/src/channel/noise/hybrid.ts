/** ML-KEM-768 as a second pre-shared key. SPEC channel.md#hybrid */
import { ml_kem768 } from "@noble/post-quantum/ml-kem.js";
import { type Bytes, concat, utf8 } from "../encoding.js";
import { ofHandshake } from "../error.js";
import { hmac256, sha256 } from "../hash.js";
import type { HandshakeRandoms } from "../settings.js";

const PUBLIC_LENGTH = 1184;
const CIPHERTEXT_LENGTH = 1088;
/** Offset of the encapsulation key in an expanded private key (FIPS 203). */
const PUBLIC_AT = 1152;

/** Kind of the pre-shared key. */
export const PSK_PLACE = 2;

/** The client's pair for one channel. */
export interface KemPair {
  readonly publicKey: Bytes;
  readonly privateKey: Bytes;
}

/** The pair of a seed (64 bytes) or of an expanded private key (2400 bytes). */
export function kemPair(randoms: HandshakeRandoms): KemPair {
  const given = randoms.kemPrivate.reveal();
  if (given.length === 64) {
    const { publicKey, secretKey } = ml_kem768.keygen(given);
    randoms.kemPrivate.wipe();
    return { publicKey: publicKey as Bytes, privateKey: secretKey as Bytes };
  }
  return { publicKey: given.slice(PUBLIC_AT, PUBLIC_AT + PUBLIC_LENGTH), privateKey: given };
}

/** The server's answer to an encapsulation key, and what it adds. */
export function encapsulate(publicKey: Bytes, randoms: HandshakeRandoms): { ciphertext: Bytes; psk: Bytes } {
  const given = randoms.kemEncapsulated;
  try {
    if (publicKey.length !== PUBLIC_LENGTH) throw new RangeError("length");
    if ("ciphertext" in given) {
      return {
        ciphertext: given.ciphertext,
        psk: second(given.secret.reveal(), publicKey, given.ciphertext),
      };
    }
    const { cipherText, sharedSecret } = ml_kem768.encapsulate(publicKey, given.reveal());
    given.wipe();
    const ciphertext = cipherText as Bytes;
    return { ciphertext, psk: second(sharedSecret as Bytes, publicKey, ciphertext) };
  } catch {
    throw ofHandshake("peer_key_invalid", "the peer's ML-KEM key is none");
  }
}

/** The payload of frame 2, taken apart: the Noise message, and what the ciphertext before it adds. */
export function decapsulate(pair: KemPair, payload: Bytes): { noise: Bytes; psk: Bytes } {
  if (payload.length < CIPHERTEXT_LENGTH) {
    throw ofHandshake("handshake_frame_invalid", "a message without its ML-KEM ciphertext");
  }
  const ciphertext = payload.slice(0, CIPHERTEXT_LENGTH);
  const secret = ml_kem768.decapsulate(ciphertext, pair.privateKey) as Bytes;
  pair.privateKey.fill(0);
  return { noise: payload.subarray(CIPHERTEXT_LENGTH), psk: second(secret, pair.publicKey, ciphertext) };
}

function second(secret: Bytes, publicKey: Bytes, ciphertext: Bytes): Bytes {
  const psk = hmac256(secret, utf8("sealway-channel-v1 ML-KEM-768"), sha256(concat(publicKey, ciphertext)));
  secret.fill(0);
  return psk;
}
