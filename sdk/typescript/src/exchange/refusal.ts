/** Every reason for which a server rejects a sealed request, and its public form. */

/** The problems of wire 3, with the status and the sentence of each (`spec/registry.toml`). */
export const PROBLEMS = {
  session_expired: [401, "The session is over or unknown: agree a new one."],
  unsealable: [400, "The request does not open."],
  replayed: [409, "The request was received before."],
  clock_skew: [400, "The request's time is too far from the server's."],
  policy: [403, "The client may not do this."],
  wire_disabled: [403, "This wire is not served here."],
  too_large: [413, "The message is over its bound."],
  method_not_allowed: [405, "Another method is needed."],
  store_unavailable: [503, "Try again later."],
  upstream_unreachable: [502, "The service behind did not answer."],
} as const;

/** Status and code of wires 1 and 2, and the problem of wire 3. */
type PublicForm = readonly [status: number, error: string, problem: keyof typeof PROBLEMS];

const UNSEALABLE: PublicForm = [400, "CRYPTO_ERROR", "unsealable"];
const OVER: PublicForm = [401, "SESSION_EXPIRED", "session_expired"];
const BUSY: PublicForm = [503, "SERVICE_UNAVAILABLE", "store_unavailable"];

/** All reasons with their public forms: codes of `spec/registry.toml` for sealed requests, and some of this SDK. */
export const REFUSALS = {
  /** Another spelling of a sealed path. */
  disguised_path: UNSEALABLE,
  wire_disabled: [403, "WIRE_DISABLED", "wire_disabled"],
  method_not_allowed: [405, "METHOD_NOT_ALLOWED", "method_not_allowed"],
  header_missing: UNSEALABLE,
  header_invalid: UNSEALABLE,
  idempotency_key_shape: UNSEALABLE,
  nonce_invalid: UNSEALABLE,
  nonce_reserved: UNSEALABLE,
  timestamp_invalid: UNSEALABLE,
  timestamp_outside_window: [400, "CRYPTO_ERROR", "clock_skew"],
  kid_prefix: UNSEALABLE,
  session_unknown: OVER,
  session_expired: OVER,
  wire_mismatch: UNSEALABLE,
  client_mismatch: UNSEALABLE,
  policy: [403, "SESSION_FORBIDDEN", "policy"],
  body_too_large: [413, "PAYLOAD_TOO_LARGE", "too_large"],
  /** All clients together, or this address, hold as much of their bodies as they may. */
  no_room: BUSY,
  body_too_short: UNSEALABLE,
  aad_mismatch: UNSEALABLE,
  base64_invalid: UNSEALABLE,
  stream_truncated: UNSEALABLE,
  frame_invalid: UNSEALABLE,
  inner_headers_invalid: UNSEALABLE,
  unsealable: UNSEALABLE,
  replayed: [400, "CRYPTO_ERROR", "replayed"],
  /** A store that holds as many nonces as it may. */
  nonces_full: [400, "CRYPTO_ERROR", "store_unavailable"],
  store_unavailable: BUSY,
  provider: BUSY,
  /** The handler's answer cannot be sealed. */
  upstream_unreachable: [502, "SERVICE_UNAVAILABLE", "upstream_unreachable"],
} satisfies Readonly<Record<string, PublicForm>>;

/** A reason to refuse: its code in logs and metrics. The client gets a coarser one. */
export type Refusal = keyof typeof REFUSALS;
