/** The client of single sealed requests, without a session (`spec/one-shot.md`). */
export type { CallMetrics, KnownKeys, Timing, TrustStore } from "../client/options.js";
export { KEMS, type Kem } from "../session/one-shot/hpke.js";
export { type Problem, SealwayError, type Stage, Truncated } from "../wire/error.js";
export { type OneShot, sealOnce } from "./client.js";
export { ClockSkew, KeyRetired, PolicyDenial, Replayed } from "./error.js";
export type { OneShotOptions, Pin } from "./options.js";
