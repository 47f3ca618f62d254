import { nodeProvider } from "../crypto/node.js";
import type { Provider } from "../crypto/provider.js";
import { webProvider } from "../crypto/web.js";

/** Whether `node:crypto` is there, where a call costs some microseconds instead of WebCrypto's way through a thread. */
export const isNode: boolean =
  typeof (globalThis as { process?: { getBuiltinModule?: unknown } }).process?.getBuiltinModule ===
  "function";

/** The platform's cryptography, as sessions have it. */
export const provider: Provider = isNode ? nodeProvider : webProvider;
