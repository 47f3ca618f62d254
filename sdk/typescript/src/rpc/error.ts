import { ChannelError } from "../channel/error.js";
import { RPC_CODES } from "./envelope.js";

/**
 * Why a call has no answer. `code` is `handler_not_found`, `rpc_error` (another answer that is an error), `rpc_timeout`,
 * `rpc_too_large`, `rpc_cancelled` (the caller took it back) or `transport_error` (the stream or channel is over; whether the
 * request was handled is not known).
 */
export class RpcError extends ChannelError {
  override readonly name = "RpcError";
  /** The number in the peer's answer, if it has one. */
  readonly number: number | undefined;

  constructor(code: string, message: string, number?: number, cause?: unknown) {
    super("rpc", code, message, cause);
    this.number = number;
  }

  /** @internal The peer answered with an error. */
  static answered(number: number, message: string): RpcError {
    const code = number === RPC_CODES.handlerNotFound ? "handler_not_found" : "rpc_error";
    return new RpcError(
      code,
      `the peer answers with the error ${number}: ${JSON.stringify(message)}`,
      number,
    );
  }
}

/** An error that a handler throws to answer with its number: from 1000 up, or 400 for a payload that it cannot read. */
export class HandlerError extends Error {
  override readonly name = "HandlerError";
  readonly number: number;

  /** The message goes to the caller, up to 1,024 bytes. */
  constructor(number: number, message: string) {
    super(message);
    if (!Number.isInteger(number) || number < 1 || number > 0xffff_ffff)
      throw new RangeError("not an error's number");
    this.number = number;
  }
}
