import type { Provider } from "../crypto/provider.js";
import { webProvider } from "../crypto/web.js";

/** The provider of this runtime: `node:crypto` on Node, WebCrypto elsewhere. */
export async function platformProvider(): Promise<Provider> {
  if (typeof process === "undefined" || typeof process.getBuiltinModule !== "function") return webProvider;
  return (await import("../crypto/node.js")).nodeProvider;
}
