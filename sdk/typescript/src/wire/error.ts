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
  declare readonly code: string;
  declare readonly blame: Blame;
  declare readonly status: number | undefined;
  declare readonly problem: Problem | undefined;
  declare readonly field: string | undefined;
  /** The service that a client's error is about: `https://host[:port]`. `remedyOf` of `sealway/errors` says what to do. */
  declare origin?: string;

  constructor(code: string, message: string, details: SealwayErrorDetails = {}) {
    super(message, details);
    const { blame = "peer", status, problem, field } = details;
    Object.assign(this, { code, blame, status, problem, field });
  }
}

/**
 * Checks something that the caller gave.
 *
 * @throws {SealwayError} `configuration`.
 */
export function wants(holds: unknown, what: string): asserts holds {
  if (!holds) throw new SealwayError("configuration", what, { blame: "caller" });
}
