/**
 * Stage at which a client's error arose: `configuration` (an option, or a request that cannot be sealed; nothing was sent),
 * `agreement` (agreeing, renewing or ending a session, and trust; the request was not sent), or `call` (from the departure of
 * the sealed request to the end of its response).
 */
export type Stage = "configuration" | "agreement" | "call";

/** A problem of the native protocol (RFC 9457; `spec/session-3.md`, Problems). It carries no signature. */
export interface Problem {
  readonly type?: string;
  readonly title?: string;
  readonly status?: number;
  readonly code?: string;
  readonly [member: string]: unknown;
}

/** Details of an error; none holds a key, a plaintext or a token. */
export interface SealwayErrorDetails {
  readonly stage?: Stage;
  /** HTTP status of the response that reported the error. */
  readonly status?: number;
  readonly problem?: Problem;
  /** Name of the invalid member of a message. */
  readonly field?: string;
  readonly cause?: unknown;
}

/** An error of this SDK. `remedyOf` of `sealway/errors` returns its remedy. */
export class SealwayError extends Error {
  override readonly name = "SealwayError";
  /**
   * Code of `spec/registry.toml`, or `usage`, `unreachable` (no connection), `timeout`, `redirected` or `network` (a connection
   * that broke).
   */
  declare readonly code: string;
  declare stage: Stage;
  /** True only if sending the same request again cannot execute it twice, and may succeed. */
  declare retryable: boolean;
  /** Host and port of the service that responded or should have; empty if nothing was sent. */
  declare host: string;
  declare readonly status: number | undefined;
  declare readonly problem: Problem | undefined;
  declare readonly field: string | undefined;

  constructor(code: string, message: string, details: SealwayErrorDetails = {}) {
    super(message, details);
    const { stage = "call", status, problem, field } = details;
    Object.assign(this, { code, stage, retryable: false, host: "", status, problem, field });
  }
}

/** A message that was cut on its way (code `stream_truncated`): what was read of it is not whole. */
export class Truncated extends SealwayError {}

/**
 * Checks an option, or an argument of a call.
 *
 * @throws {SealwayError} `usage`.
 */
export function wants(holds: unknown, what: string): asserts holds {
  if (!holds) throw new SealwayError("usage", what, { stage: "configuration" });
}
