/** What a server reserves so that a nonce is good once (`spec/session.md`, Nonces). */
import type { Provider } from "../crypto/provider.js";
import { type Bytes, concat, utf8 } from "../wire/bytes.js";

/** What a claim is about: its tag byte. */
export type ClaimKind = 1 | 2 | 3 | 4;

export interface Claim {
  /** 16 bytes; what a store keeps. */
  readonly key: Bytes;
  /** Whether a tag has verified: such claims are bounded apart from those that strangers can make. */
  readonly sealed: boolean;
  /** Milliseconds of the epoch. */
  readonly stampMs: number;
  /** When it may be forgotten, with the least nonce lifetime allowed: twice the window. Milliseconds of the epoch. */
  readonly expiresMs: number;
}

/** What a store makes of a claim. */
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
