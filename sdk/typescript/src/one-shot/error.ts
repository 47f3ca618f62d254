/** Errors of one-shot calls that a caller may want to tell apart. `Truncated` is the stream's own. */
import { SealwayError, type SealwayErrorDetails } from "../wire/error.js";

/** A message that names the kids that a service has now. */
export function withKids(message: string, kids: readonly string[]): string {
  return `${message}; the service names: ${kids.join(", ") || "none"}`;
}

/** The service does not accept the key of a request any more (code `key_retired`). */
export class KeyRetired extends SealwayError {
  /** The kids that the service names as its current ones. They are proven only if a root signed them. */
  readonly kids: readonly string[];

  constructor(message: string, kids: readonly string[], details: SealwayErrorDetails = {}) {
    super("key_retired", withKids(message, kids), details);
    this.kids = kids;
  }
}

/** The service has received the same request before (code `replayed`): its outcome is unknown. */
export class Replayed extends SealwayError {}

/** The timestamp of a request was outside of the service's window (code `clock_skew`). The next call has the service's time. */
export class ClockSkew extends SealwayError {}

/** The route does not allow this client, or a client without a PSK (code `policy`). */
export class PolicyDenial extends SealwayError {}
