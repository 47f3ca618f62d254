/** True where `node:crypto` is available: a call costs some microseconds there, and WebCrypto needs a thread. */
export const isNode: boolean =
  typeof (globalThis as { process?: { getBuiltinModule?: unknown } }).process?.getBuiltinModule ===
  "function";
