/** Whether `node:crypto` is there, where a call costs some microseconds instead of WebCrypto's way through a thread. */
export const isNode: boolean =
  typeof (globalThis as { process?: { getBuiltinModule?: unknown } }).process?.getBuiltinModule ===
  "function";
