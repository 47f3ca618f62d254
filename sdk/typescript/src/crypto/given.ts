/** Private keys that are given, with WebCrypto, which takes none without its wrapping. */
import { type Bytes, concat, fromHex, wipe } from "../wire/bytes.js";

/** PKCS #8 of a private key without its public half, up to its 32 bytes. */
const P256_PKCS8 = "3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420";
const X25519_PKCS8 = "302e020100300506032b656e04220420";

/** The public key, and the private one, not readable, of 32 bytes for ECDH on P-256 or X25519. */
export async function importPrivate(
  algorithm: { name: string },
  privateKey: Uint8Array,
): Promise<[publicKey: Bytes, key: CryptoKey]> {
  const { subtle } = globalThis.crypto;
  const isP256 = algorithm.name === "ECDH";
  const pkcs8 = concat(fromHex(isP256 ? P256_PKCS8 : X25519_PKCS8) ?? new Uint8Array(), privateKey);
  const readable = await subtle.importKey("pkcs8", pkcs8, algorithm, true, ["deriveBits"]);
  const jwk = await subtle.exportKey("jwk", readable);
  const key = await subtle.importKey("pkcs8", pkcs8, algorithm, false, ["deriveBits"]);
  wipe(pkcs8);
  const [x, y] = [coordinate(jwk.x), coordinate(jwk.y)];
  return [isP256 ? concat(Uint8Array.of(4), x, y) : x, key];
}

function coordinate(text = ""): Bytes {
  const decoded = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(decoded, (char) => char.charCodeAt(0));
}
