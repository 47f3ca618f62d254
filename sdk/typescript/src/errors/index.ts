/** Remedies of errors, for logs and messages. A separate entry, so that pages need not load it. */
import { SealwayError } from "../wire/error.js";
import { REMEDIES } from "./remedies.js";

/** Options that matter to a code. */
const OPTIONS: Readonly<Record<string, string>> = {
  body_too_large: "answerMaxBytes",
  key_retired: "trust, pin",
  key_untrusted: "trust, pin",
  policy: "clientId",
  redirected: "url",
  signature_invalid: "trust",
  suite_required: "suites",
  timeout: "headTimeoutMs, idleTimeoutMs, totalTimeoutMs",
  unauthenticated: "authorization",
  unconfirmed: "trust",
  unreachable: "url",
  wire_disabled: "wire",
};

/** Returns the remedy of an error, or an empty text for one that is not of this SDK. It holds no secret. */
export function remedyOf(error: unknown): string {
  if (!(error instanceof SealwayError) || !Object.hasOwn(REMEDIES, error.code)) return "";
  const option = OPTIONS[error.code];
  return `${REMEDIES[error.code]}${option === undefined ? "" : ` (option \`${option}\`)`}`;
}

/** Returns an error as one line: host, message and remedy. */
export function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const host = error instanceof SealwayError ? error.host : "";
  const named = message.includes(host) ? message : `${host}: ${message}`;
  return [named, remedyOf(error)].filter((part) => part !== "").join("; ");
}
