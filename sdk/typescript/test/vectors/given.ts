/** The provider over WebCrypto with private keys that are given, as vectors do and pages do not. */
import type { AgreementKey, Provider } from "../../src/crypto/provider.js";
import { agreementKeyOf, P256, webProvider, X25519 } from "../../src/crypto/web.js";
import { type Bytes, concat, fromHex } from "../../src/wire/bytes.js";

/** PKCS #8 of a private key without its public half, up to its 32 bytes. */
const P256_PKCS8 = "3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420";
const X25519_PKCS8 = "302e020100300506032b656e04220420";

/** The provider over `globalThis.crypto`, which takes 32 bytes for a private key. */
export const givenWebProvider: Provider = {
  ...webProvider,
  p256: (given) => (given === undefined ? webProvider.p256() : importPrivate(P256, given)),
  x25519: async (given) => {
    if (given === undefined) return webProvider.x25519();
    // As the provider itself: where WebCrypto has no X25519, a library has.
    return importPrivate(X25519, given).catch(() => webProvider.x25519(given));
  },
};

async function importPrivate(algorithm: { name: string }, privateKey: Uint8Array): Promise<AgreementKey> {
  const { subtle } = globalThis.crypto;
  const isP256 = algorithm.name === "ECDH";
  const pkcs8 = concat(fromHex(isP256 ? P256_PKCS8 : X25519_PKCS8) ?? new Uint8Array(), privateKey);
  const readable = await subtle.importKey("pkcs8", pkcs8, algorithm, true, ["deriveBits"]);
  const jwk = await subtle.exportKey("jwk", readable);
  const key = await subtle.importKey("pkcs8", pkcs8, algorithm, false, ["deriveBits"]);
  const [x, y] = [coordinate(jwk.x), coordinate(jwk.y)];
  return agreementKeyOf(isP256 ? concat(Uint8Array.of(4), x, y) : x, key, algorithm);
}

function coordinate(text = ""): Bytes {
  const decoded = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(decoded, (char) => char.charCodeAt(0));
}
