/** Tokens that let an endpoint into a relay. SPEC relay.md#tokens */
import { ed25519 } from "@noble/curves/ed25519.js";
import { b64u, isObject, isUint, jsonObject, unb64u, utf8 } from "./encoding.js";
import { ChannelError } from "./error.js";
import type { Secret } from "./secret.js";

/** Forms of tokens, by their prefix: v1 up to January 2026 and the native profile; later v1. */
const FORMS = ["FST1", "FST2"] as const;
/** Longest token that is read, in characters: what an attach message holds. */
const LENGTH_MAX = 8192;

/** Claims of a token. Times are seconds of the epoch. */
export interface Claims {
  /** Default: `FST1`. `FST2` has an idle time above 0, a role of 1 or 2, and names that are not empty. */
  readonly form?: (typeof FORMS)[number];
  readonly kid: string;
  readonly aud: string;
  /** Empty where there is none. */
  readonly iss: string;
  readonly channelId: string;
  readonly role: number;
  readonly tokenId: string;
  readonly initExp: number;
  readonly idleTimeoutSeconds?: number;
  readonly iat: number;
  readonly exp: number;
}

/** The token of some claims, signed with the key of a seed of 32 bytes. */
export function signToken(claims: Claims, seed: Secret): string {
  const members = {
    kid: claims.kid,
    aud: claims.aud,
    ...(claims.iss === "" ? {} : { iss: claims.iss }),
    channel_id: claims.channelId,
    role: claims.role,
    token_id: claims.tokenId,
    init_exp: claims.initExp,
    ...(claims.idleTimeoutSeconds === undefined ? {} : { idle_timeout_seconds: claims.idleTimeoutSeconds }),
    iat: claims.iat,
    exp: claims.exp,
  };
  const signed = `${claims.form ?? FORMS[0]}.${b64u(utf8(JSON.stringify(members)))}`;
  return `${signed}.${b64u(ed25519.sign(utf8(signed), seed.reveal()))}`;
}

/** The public key of a seed, 32 bytes. */
export function tokenPublicKey(seed: Secret): Uint8Array {
  return ed25519.getPublicKey(seed.reveal());
}

/** Verifies the signature of a token with a key of 32 bytes, and does not check its claims. */
export function isSignedBy(token: string, publicKey: Uint8Array): boolean {
  const [head, payload, signature] = token.split(".");
  const bytes = unb64u(signature ?? "");
  if (formOf(head) === undefined || bytes?.length !== 64) return false;
  try {
    return ed25519.verify(bytes, utf8(`${head}.${payload}`), publicKey, { zip215: false });
  } catch {
    return false;
  }
}

/**
 * What a token says, its signature unseen: an endpoint needs it to know what it is bound to.
 * @throws ChannelError `grant_invalid` for a token that is none.
 */
export function readClaims(token: string): Claims {
  const parts = token.split(".");
  const form = formOf(parts[0]);
  const bytes =
    token.length <= LENGTH_MAX && parts.length === 3 && form !== undefined ? unb64u(parts[1]!) : undefined;
  const members = bytes && jsonObject(bytes);
  if (!isObject(members)) throw none();
  const text = (name: string): string => {
    const value = members[name] ?? "";
    if (typeof value !== "string") throw none();
    return value;
  };
  const number = (name: string, max = Number.MAX_SAFE_INTEGER): number => {
    const value = members[name] ?? 0;
    if (!isUint(value, max)) throw none();
    return value;
  };
  const idle = members.idle_timeout_seconds;
  const claims: Claims = {
    ...(form === "FST2" ? { form } : {}),
    kid: text("kid"),
    aud: text("aud"),
    iss: text("iss"),
    channelId: text("channel_id"),
    role: number("role", 255),
    tokenId: text("token_id"),
    initExp: number("init_exp"),
    ...(typeof idle === "number" ? { idleTimeoutSeconds: idle } : {}),
    iat: number("iat"),
    exp: number("exp"),
  };
  if (form === "FST2" && !isFst2(claims)) throw none();
  return claims;
}

function formOf(head: string | undefined): Claims["form"] {
  return FORMS.find((form) => form === head);
}

/** True if all claims are present that `FST2` has beside those of `FST1`. */
function isFst2({ kid, channelId, tokenId, role, idleTimeoutSeconds, iat, exp }: Claims): boolean {
  const isNamed = [kid, channelId, tokenId].every((name) => name.trim() !== "");
  return (
    isNamed &&
    (role === 1 || role === 2) &&
    isUint(idleTimeoutSeconds, 2 ** 31 - 1) &&
    idleTimeoutSeconds > 0 &&
    iat <= exp
  );
}

function none(): ChannelError {
  return new ChannelError("grant", "grant_invalid", "the grant's token is none");
}
