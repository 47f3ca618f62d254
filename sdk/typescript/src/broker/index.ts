/** A client of the broker, for Node. SPEC broker.md, broker.proto */
export type { BreakerOptions, BreakerState } from "./breaker.js";
export { type BrokerOptions, type CallOptions, isTraceParent, type RetryOptions } from "./call.js";
export { BrokerClient, type Health } from "./client.js";
export { BrokerError, type Delivery } from "./error.js";
export type { Input, KeyState, Message } from "./schema.js";
