/** Remote calls on streams of a channel. SPEC rpc.md */
export { RPC_CODES } from "./envelope.js";
export { HandlerError, RpcError } from "./error.js";
export {
  type CallContext,
  type CallOptions,
  FRAME_MAX,
  type Handler,
  Rpc,
  type RpcOptions,
  TIMEOUT_MS,
} from "./rpc.js";
