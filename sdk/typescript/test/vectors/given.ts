/** The provider over WebCrypto with private keys that are given, as vectors do and pages do not. */
import { givenKey } from "../../src/crypto/given.js";
import type { Provider } from "../../src/crypto/provider.js";
import { webProvider } from "../../src/crypto/web.js";

/** The provider over `globalThis.crypto`, which takes bytes for a private key. */
export const givenWebProvider: Provider = {
  ...webProvider,
  p256: (given) => (given === undefined ? webProvider.p256() : givenKey("P256", given)),
  p384: (given) => (given === undefined ? webProvider.p384() : givenKey("P384", given)),
  x25519: (given) => (given === undefined ? webProvider.x25519() : givenKey("25519", given)),
};
