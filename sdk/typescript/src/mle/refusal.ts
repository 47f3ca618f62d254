/** Reasons to reject a message of a scheme (`spec/mle.md`, Refusals). */
import { SealwayError } from "../wire/error.js";

/** A class of refusals. It is for logs and metrics: a peer gets one answer for all of them. */
export type MleClass =
  | (
      | "size"
      | "shape"
      | "base64"
      | "header"
      | "alg"
      | "enc"
      | "zip"
      | "crit"
      | "param"
      | "kid"
      | "iat"
      | "epk"
    )
  | ("iv" | "unwrap" | "tag" | "json" | "replayed");

/** Most characters of a peer's text in a message. */
const QUOTE_MAX = 64;

/** A message that is rejected; its code is `unsealable`. Its text holds no plaintext, no key and no token. */
export class MleRefusal extends SealwayError {
  declare readonly class: MleClass;

  /** `quoted` is a public text of the peer, which is cut and escaped. */
  constructor(kind: MleClass, detail: string, quoted?: string) {
    super("unsealable", quoted === undefined ? detail : `${detail}: ${quote(quoted)}`);
    Object.assign(this, { class: kind });
  }
}

function quote(text: string): string {
  const points = Array.from(text.slice(0, 2 * QUOTE_MAX + 2));
  const head = JSON.stringify(points.slice(0, QUOTE_MAX).join(""));
  const escaped = head.replace(/[^\x20-\x7e]/gu, (point) => `\\u{${point.codePointAt(0)?.toString(16)}}`);
  return points.length > QUOTE_MAX ? `${escaped}…` : escaped;
}
