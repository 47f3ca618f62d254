import { SealwayError } from "../wire/error.js";

/** Whether the broker saw a call that failed: surely not, perhaps (it was done, or not), or it answered. */
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
export class BrokerError extends SealwayError {
  /** What was called, such as `Hash`. */
  readonly operation: string;
  /** gRPC's code. */
  readonly grpcCode: number;
  readonly sent: Delivery;
  /** Attempts that were made; 0 where it was refused here. */
  readonly attempts: number;

  constructor(operation: string, grpcCode: number, text: string, sent: Delivery, attempts: number) {
    const code = NAMES[grpcCode] ?? "unknown";
    const blame =
      sent === "no" && grpcCode === 14 ? "network" : grpcCode === 3 || grpcCode === 11 ? "caller" : "peer";
    super(code, `${operation}: ${text} (${code}, ${SENT[sent]})`, { blame });
    this.operation = operation;
    this.grpcCode = grpcCode;
    this.sent = sent;
    this.attempts = attempts;
  }

  /** Whether the same call may succeed a little later: the broker is away, or the breaker is open. */
  get isPassing(): boolean {
    return this.grpcCode === 14 || this.grpcCode === 4;
  }
}

const SENT: Readonly<Record<Delivery, string>> = {
  no: "not sent",
  perhaps: "perhaps done",
  answered: "answered",
};
