/** The server's side of sealed sessions: middleware around ordinary handlers (`spec/session.md`, `spec/session-3.md`). */
export type { ClaimOutcome } from "../session/claim.js";
export { SealwayError } from "../wire/error.js";
export type { AnswerBody } from "./body.js";
export { type Middleware, type SealedMessage, sealedExpress } from "./express.js";
export { sealedCaller, sealedFastify } from "./fastify.js";
export { type FetchHandler, sealedFetch } from "./fetch.js";
export { Gate, type GateAnswer, type GateOutcome, type GateRequest, type OpenCall } from "./gate.js";
export type { Caller } from "./headers.js";
export type { Route, ServerOptions } from "./options.js";
export {
  type AuthorityOptions,
  AuthorityStore,
  MemoryStore,
  type SessionStore,
  type StoreClaim,
  type StoredSession,
} from "./store.js";
