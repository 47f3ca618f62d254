/** Delivery of a failed call: not sent, perhaps executed, or answered by the broker. */
export type Delivery = "no" | "perhaps" | "answered";

/** Names of gRPC's codes, by number. */
const NAMES = [
  "ok",
  "cancelled",
  "unknown",
  "invalid_argument",
  "deadline_exceeded",
  "not_found",
  "already_exists",
  "permission_denied",
  "resource_exhausted",
  "failed_precondition",
  "aborted",
  "out_of_range",
  "unimplemented",
  "internal",
  "unavailable",
  "data_loss",
  "unauthenticated",
];

/**
 * A call that failed. `code` is the name of gRPC's code: the broker's word where `sent` is `answered`, else the client's own.
 * There is no key and no input in it. SPEC broker.md#codes
 */
export class BrokerError extends Error {
  override readonly name = "BrokerError";
  /** Name of gRPC's code. */
  readonly code: string;
  /** Name of the operation, such as `Hash`. */
  readonly operation: string;
  /** gRPC's code. */
  readonly grpcCode: number;
  readonly sent: Delivery;
  /** Attempts that were made; 0 where it was refused here. */
  readonly attempts: number;

  constructor(operation: string, grpcCode: number, text: string, sent: Delivery, attempts: number) {
    const code = NAMES[grpcCode] ?? "unknown";
    super(`${operation}: ${text} (${code}, ${SENT[sent]})`);
    this.code = code;
    this.operation = operation;
    this.grpcCode = grpcCode;
    this.sent = sent;
    this.attempts = attempts;
  }

  /** True if the same call may succeed later: the broker is unavailable, or the breaker is open. */
  get isPassing(): boolean {
    return this.grpcCode === 14 || this.grpcCode === 4;
  }
}

const SENT: Readonly<Record<Delivery, string>> = {
  no: "not sent",
  perhaps: "perhaps done",
  answered: "answered",
};
