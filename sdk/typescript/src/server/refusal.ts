/** What a client is told of a refusal: on wire 3 a problem, on the old wires a coarse code (`spec/registry.toml`). */
import { utf8 } from "../wire/bytes.js";
import type { SealwayError } from "../wire/error.js";

/** The methods that a path must be asked with where nothing passes in plain. */
export const ALLOW = "POST, OPTIONS";

/** An answer as it goes out. */
export interface Answer {
  readonly status: number;
  readonly headers: [string, string][];
  readonly body: Uint8Array | AsyncIterable<Uint8Array> | undefined;
}

const PROBLEMS = {
  session_expired: [401, "The session is over or unknown: agree a new one."],
  unsealable: [400, "The request does not open."],
  replayed: [409, "The request was received before."],
  clock_skew: [400, "The request's time is too far from the server's."],
  too_large: [413, "The message is over its bound."],
  wire_disabled: [403, "This wire is not served here."],
  method_not_allowed: [405, "Another method is needed."],
  store_unavailable: [503, "Try again later."],
  upstream_unreachable: [502, "The service behind did not answer."],
} as const;

export type ProblemCode = keyof typeof PROBLEMS;

/** A problem of wire 3. */
export function problem(code: ProblemCode, more: Readonly<Record<string, unknown>> = {}): Answer {
  const [status, title] = PROBLEMS[code];
  const members = { type: `urn:sealway:problem:${code}`, title, status, code, ...more };
  const headers: [string, string][] = [
    ["Content-Type", "application/problem+json"],
    ["Cache-Control", "no-store"],
  ];
  if (status === 503) headers.push(["Retry-After", "1"]);
  if (status === 405) headers.push(["Allow", ALLOW]);
  return { status, headers, body: utf8(JSON.stringify(members)) };
}

/** The problem that a refusal of the core is told as. */
export function problemOf(error: SealwayError): ProblemCode {
  switch (error.code) {
    case "session_unknown":
    case "session_expired":
      return "session_expired";
    case "timestamp_outside_window":
      return "clock_skew";
    case "body_too_large":
      return "too_large";
    case "replayed":
      return "replayed";
    case "store_unavailable":
    case "no_room":
    case "provider":
      return "store_unavailable";
    default:
      return "unsealable";
  }
}

/** A refusal of wires 1 and 2. */
export function plain(status: number, error: string): Answer {
  const headers: [string, string][] = [
    ["Content-Type", "application/json"],
    ["Cache-Control", "no-store"],
  ];
  if (status === 503) headers.push(["Retry-After", "1"]);
  if (status === 405) headers.push(["Allow", ALLOW]);
  return { status, headers, body: utf8(JSON.stringify({ error })) };
}

/** What a refusal of the core is told as on wires 1 and 2. */
export function plainOf(error: SealwayError): Answer {
  switch (error.code) {
    case "session_unknown":
    case "session_expired":
      return plain(401, "SESSION_EXPIRED");
    case "body_too_large":
      return plain(413, "PAYLOAD_TOO_LARGE");
    case "policy":
      return plain(403, "SESSION_FORBIDDEN");
    case "store_unavailable":
    case "no_room":
    case "provider":
      return plain(503, "SERVICE_UNAVAILABLE");
    default:
      return plain(400, "CRYPTO_ERROR");
  }
}
