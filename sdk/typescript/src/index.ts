/** The client of Sealway's sealed sessions (`spec/session.md`, `spec/session-3.md`). */
export { type Client, createClient } from "./client/client.js";
export type {
  CallMetrics,
  ClientOptions,
  KnownKeys,
  Proof,
  SessionInfo,
  Timing,
  Trust,
  TrustStore,
} from "./client/options.js";
export { memoryTrustStore, storageTrustStore } from "./client/trust.js";
export { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from "./session/native/algorithm.js";
export type { Auth } from "./session/native/message.js";
export { SUITES, type Suite } from "./session/native/suite.js";
export { type Problem, SealwayError, type Stage } from "./wire/error.js";
export type { Wire } from "./wire/forms.js";
