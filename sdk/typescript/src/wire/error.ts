/** Who is to blame for a refusal: whoever calls this SDK, the other side, or what lies between. */
export type Blame = "caller" | "peer" | "network";

/** A problem as a server of wire 3 tells it (RFC 9457; `spec/session-3.md`, Problems). Nobody has signed it. */
export interface Problem {
  readonly type?: string;
  readonly title?: string;
  readonly status?: number;
  readonly code?: string;
  readonly [member: string]: unknown;
}

/** More about a failure; never a key, a plaintext or a token. */
export interface SealwayErrorDetails {
  readonly blame?: Blame;
  /** The HTTP status of the answer that told of the failure. */
  readonly status?: number;
  readonly problem?: Problem;
  /** The member of a message that is at fault. */
  readonly field?: string;
  readonly cause?: unknown;
}

/**
 * Every failure of this SDK. `code` is one of `spec/registry.toml` where the contract names one, else one of the
 * SDK's own (`timeout`, `network`, `redirected`, `configuration`).
 */
export class SealwayError extends Error {
  override readonly name = "SealwayError";
  readonly code: string;
  readonly blame: Blame;
  readonly status: number | undefined;
  readonly problem: Problem | undefined;
  readonly field: string | undefined;

  constructor(code: string, message: string, details: SealwayErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.blame = details.blame ?? "peer";
    this.status = details.status;
    this.problem = details.problem;
    this.field = details.field;
  }
}
