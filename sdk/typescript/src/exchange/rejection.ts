/** Refusals as HTTP answers: coarse to the client, in the form that its protocol reads. */
import { utf8 } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import type { Wire } from "../wire/forms.js";
import { PROBLEMS, REFUSALS, type Refusal } from "./refusal.js";

/** The form of an error's body: `{"error": CODE}`, or a problem (RFC 9457). */
export type Form = "plain" | "problem";

/** The form that clients of a wire read. */
export function formOf(wire: Wire): Form {
  return wire === 3 ? "problem" : "plain";
}

/** The methods that a path must be asked with where nothing passes in plain. */
export const ALLOW = "POST, OPTIONS";

/** A refusal with its proofs for the client. `code` is for logs and metrics, `message` for logs. */
export class Rejection extends SealwayError {
  declare readonly code: Refusal;
  /** Members of the problem; the other form does not show them. */
  readonly #more: object;

  constructor(refusal: Refusal, message: string, cause?: unknown, more = {}) {
    super(refusal, message, { cause });
    this.#more = more;
  }

  /** The rejection that an error comes to: what is no refusal is the fault of a store or of the platform. */
  static of(error: unknown): Rejection {
    if (error instanceof Rejection) return error;
    if (error instanceof SealwayError && Object.hasOwn(REFUSALS, error.code))
      return new Rejection(error.code as Refusal, error.message, error.cause);
    return new Rejection("store_unavailable", "the store failed", error);
  }

  /** The answer to the client: all that is sent. Nothing else writes the body of an error. */
  answer(form: Form) {
    const [plainStatus, error, code] = REFUSALS[this.code];
    const [problemStatus, title] = PROBLEMS[code];
    const isPlain = form === "plain";
    const status = isPlain ? plainStatus : problemStatus;
    const problem = { type: `urn:sealway:problem:${code}`, title, status, code, ...this.#more };
    const headers: [string, string][] = [
      ["Content-Type", isPlain ? "application/json" : "application/problem+json"],
      ["Cache-Control", "no-store"],
    ];
    if (status === 503) headers.push(["Retry-After", "1"]);
    if (status === 405) headers.push(["Allow", ALLOW]);
    return { status, headers, body: utf8(JSON.stringify(isPlain ? { error } : problem)) };
  }
}

/** An answer that tells of an error. */
export type ErrorAnswer = ReturnType<Rejection["answer"]>;
