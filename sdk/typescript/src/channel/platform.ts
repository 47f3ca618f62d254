/** The module `node:crypto` on Node, where a call costs some microseconds instead of WebCrypto's way through a thread. */
type NodeCrypto = typeof import("node:crypto");

/** The module, or nothing in browsers. No bundler for browsers meets it. */
export const nodeCrypto: NodeCrypto | undefined = (
  globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }
).process?.getBuiltinModule?.("node:crypto") as NodeCrypto | undefined;
