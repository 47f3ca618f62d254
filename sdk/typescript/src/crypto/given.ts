/**
 * Private keys that are given, by WebCrypto: channels are given theirs. Apart from the provider, so that a page with sessions
 * alone, whose keys the platform draws, is not sent it.
 */
import { type Bytes, concat, wipe } from "../wire/bytes.js";
import { fromHex } from "../wire/hex.js";
import type { AgreementKey } from "./provider.js";
import { agreementKeyOf, P256, P384, webProvider, X25519 } from "./web.js";

/** PKCS #8 of a private key without its public half, up to its bytes (RFC 5958, 5915, 8410). */
const CURVES = {
  P256: {
    algorithm: P256,
    head: "3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420",
  },
  P384: {
    algorithm: P384,
    head: "304e020100301006072a8648ce3d020106052b81040022043730350201010430",
  },
  "25519": { algorithm: X25519, head: "302e020100300506032b656e04220420" },
} as const;

/** The key of 32 bytes, of P-384 48. It rejects where they are none of the curve. Where WebCrypto has no X25519, a library has. */
export async function givenKey(curve: keyof typeof CURVES, privateKey: Uint8Array): Promise<AgreementKey> {
  if (curve !== "25519") return await imported(curve, privateKey);
  return await imported(curve, privateKey).catch(() => webProvider.x25519(privateKey));
}

async function imported(curve: keyof typeof CURVES, privateKey: Uint8Array): Promise<AgreementKey> {
  const { subtle } = globalThis.crypto;
  const { algorithm, head } = CURVES[curve];
  const pkcs8 = concat(fromHex(head) ?? new Uint8Array(), privateKey);
  const taken = (isReadable: boolean): Promise<CryptoKey> =>
    subtle.importKey("pkcs8", pkcs8, algorithm, isReadable, ["deriveBits"]);
  // What is read is the public half; the key that is kept shows nothing.
  const [readable, own] = await Promise.all([taken(true), taken(false)]).finally(() => wipe(pkcs8));
  const { x, y } = await subtle.exportKey("jwk", readable);
  const publicKey =
    curve !== "25519" ? concat(Uint8Array.of(4), coordinate(x), coordinate(y)) : coordinate(x);
  return agreementKeyOf(publicKey, own, algorithm);
}

function coordinate(text = ""): Bytes {
  const decoded = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(decoded, (char) => char.charCodeAt(0));
}
