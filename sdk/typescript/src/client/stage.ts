/** Stage, host and retries of an error, which its client knows. */
import { SealwayError } from "../wire/error.js";

/** Codes of errors that are no answer. */
export const UNANSWERED = /^(?:unreachable|timeout|network)$/;
/** Codes of an answer to an init or a renewal that may change by itself. */
const PASSING = /^(?:store_unavailable|rate_limited|upstream_\w+|provider)$/;

/** Completes an error: stage, host, and whether the same request may be sent again. */
export function about<T>(url: URL, done: Promise<T>, isAgreement = false): Promise<T> {
  return done.catch((error) => {
    if (error instanceof SealwayError && error.stage === "call" && !error.host) {
      const { code } = error;
      error.host = url.host;
      if (isAgreement) error.stage = "agreement";
      error.retryable ||= isAgreement ? UNANSWERED.test(code) || PASSING.test(code) : code === "unreachable";
    }
    throw error;
  });
}
