/** Claims on nonces: each is granted once (`spec/session.md`, Nonces). */
import type { Provider } from "../crypto/provider.js";
import { type Bytes, concat, utf8 } from "../wire/bytes.js";

/** Tag bytes of claims. */
export type ClaimKind = 1 | 2 | 3 | 4;

export interface Claim {
  /** 16 bytes; what a store keeps. */
  readonly key: Bytes;
  /** True if a tag has been verified: such claims have a bound of their own, apart from those that anyone can make. */
  readonly sealed: boolean;
  /** Milliseconds of the epoch. */
  readonly stampMs: number;
  /** Time after which a store may forget the claim, with the least lifetime allowed (twice the window), in milliseconds of the epoch. */
  readonly expiresMs: number;
}

/** Outcome of a claim. */
export type ClaimOutcome = "fresh" | "replayed" | "outside_window" | "full";

/** The claim of a nonce in its scope. */
export async function makeClaim(
  provider: Provider,
  kind: ClaimKind,
  scope: string,
  nonce: string,
  stampMs: number,
  nowMs: number,
  windowMs: number,
): Promise<Claim> {
  const bytes = utf8(scope);
  const head = Uint8Array.of(kind, bytes.length >> 8, bytes.length & 0xff);
  const hash = await provider.sha256(concat(head, bytes, utf8(nonce)));
  return { key: hash.slice(0, 16), sealed: kind === 3, stampMs, expiresMs: nowMs + 2 * windowMs + 1 };
}
