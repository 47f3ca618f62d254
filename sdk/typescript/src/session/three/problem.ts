/** What a refusal of wire 3 says, and what of it is proven (`spec/session-3.md`, Problems). */
import { expandKey } from "../../crypto/hkdf.js";
import type { Provider } from "../../crypto/provider.js";
import { fromBase64 } from "../../wire/base64.js";
import { type Bytes, concat, equal, utf8 } from "../../wire/bytes.js";
import type { Problem } from "../../wire/error.js";
import { fields } from "../../wire/fields.js";
import { WINDOW_MAX_MS } from "../../wire/forms.js";
import { isWhole, membersOf, parseJson } from "../../wire/json.js";
import type { PendingCall } from "./client-call.js";
import type { TrustedKey } from "./client-init.js";
import type { SessionKeys } from "./keys.js";

/** Reads a problem; none if the body is none. */
export function parseProblem(body: Uint8Array): Problem | undefined {
  try {
    const members = membersOf(parseJson(body));
    return typeof members?.["code"] === "string" ? (members as Problem) : undefined;
  } catch {
    return undefined;
  }
}

/** The mac of `clock_skew`. */
export async function clockMac(
  provider: Provider,
  keys: SessionKeys,
  nonce: string,
  stamp: string,
  serverTimeMs: number,
): Promise<Bytes> {
  const key = await expandKey(provider, keys.s2c, "sealway/3 clock");
  return key.mac(fields(nonce, stamp, serverTimeMs));
}

/** What an identity key signs in `session_expired`. */
export async function expiredMessage(
  provider: Provider,
  sessionId: string,
  nonce: string,
  stamp: string,
  serverTimeMs: number,
): Promise<Bytes> {
  const hash = await provider.sha256(fields(sessionId, nonce, stamp, serverTimeMs));
  return concat(utf8("sealway/3 expired"), hash);
}

/**
 * The server's time that a problem proves, in milliseconds of the epoch; none if it proves nothing. `clock_skew` needs the
 * session's mac, and `session_expired` a trusted key's signature.
 */
export async function provenTimeMs(
  provider: Provider,
  problem: Problem,
  pending: Pick<PendingCall, "session" | "nonce" | "stamp">,
  trusted: TrustedKey,
): Promise<number | undefined> {
  const { session, nonce, stamp } = pending;
  const time = problem["server_time_ms"];
  if (!isWhole(time, Number.MAX_SAFE_INTEGER)) return undefined;
  if (problem.code === "clock_skew") {
    const sent = bytes(problem["mac"]);
    const mac = await clockMac(provider, session.keys, nonce, stamp, time);
    return sent !== undefined && equal(sent, mac) ? time : undefined;
  }
  if (problem.code !== "session_expired") return undefined;
  const keyId = problem["key_id"];
  const key = typeof keyId === "string" ? trusted(keyId) : undefined;
  const signature = bytes(problem["signature"]);
  if (key === undefined || signature === undefined) return undefined;
  const message = await expiredMessage(provider, session.id, nonce, stamp, time);
  return (await provider.verify(key, message, signature)) ? time : undefined;
}

/**
 * Whether what a problem refused is sent once more (`spec/session-3.md`, What is sent again). A refusal is genuine for a copy
 * too, which somebody in the middle may have held back until the original, delivered before, could be served no more: what is
 * not safe is sent again only where no server can have served it, at any moment of the `elapsedMs` since it was sent, nor can
 * later.
 *
 * @param provenMs what {@link provenTimeMs} gave.
 * @param elapsedMs since the request was sent, by the longer of a steady clock and the wall clock, rounded up.
 * @param endMs when the session ends, by the server's clock.
 */
export function sendsAgain(
  code: string | undefined,
  provenMs: number | undefined,
  method: string,
  stampMs: number,
  elapsedMs: number,
  endMs: number,
): boolean {
  const isSafe = /^(?:GET|HEAD|OPTIONS|TRACE)$/.test(method);
  const isProven = provenMs !== undefined;
  if (code === "clock_skew") return isProven && (isSafe || stampMs + WINDOW_MAX_MS < provenMs - elapsedMs);
  return code === "session_expired" && (isSafe || (isProven && (provenMs < endMs || stampMs >= endMs)));
}

function bytes(value: unknown): Bytes | undefined {
  return typeof value === "string" ? fromBase64(value) : undefined;
}
