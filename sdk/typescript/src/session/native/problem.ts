/** Problems of the native protocol and their proofs (`spec/session-3.md`, Problems). */
import { expandKey } from "../../crypto/hkdf.js";
import type { Provider } from "../../crypto/provider.js";
import { fromBase64 } from "../../wire/base64.js";
import { type Bytes, equal } from "../../wire/bytes.js";
import type { Problem } from "../../wire/error.js";
import { fields } from "../../wire/fields.js";
import { WINDOW_MAX_MS } from "../../wire/forms.js";
import { isWhole, membersOf, parseJson } from "../../wire/json.js";
import type { Seal } from "./call.js";
import type { PendingCall } from "./client-call.js";

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
  keys: Pick<Seal["keys"], "s2c">,
  nonce: string,
  stamp: string,
  serverTimeMs: number,
): Promise<Bytes> {
  const key = await expandKey(provider, keys.s2c, "sealway/3 clock");
  return key.mac(fields(nonce, stamp, serverTimeMs));
}

/** The server's time that a `clock_skew` proves by the session's mac, in milliseconds of the epoch; none if it proves nothing. */
export async function provenTimeMs(
  provider: Provider,
  problem: Problem,
  pending: Pick<PendingCall, "seal" | "nonce" | "stamp">,
): Promise<number | undefined> {
  const { seal, nonce, stamp } = pending;
  const time = problem["server_time_ms"];
  if (problem.code !== "clock_skew" || !isWhole(time, Number.MAX_SAFE_INTEGER)) return undefined;
  const sent = fromBase64(String(problem["mac"]));
  const mac = await clockMac(provider, seal.keys, nonce, stamp, time);
  return sent !== undefined && equal(sent, mac) ? time : undefined;
}

/** True if a sealed method is safe (RFC 9110 section 9.2.1). */
export function isSafe(method: string): boolean {
  return /^(?:GET|HEAD)$/.test(method);
}

/**
 * Whether what a problem refused is sent once more (`spec/session-3.md`, What is sent again). A refusal is genuine for a copy
 * too, which a man in the middle may have held back until the original, delivered before, could be served no more. So no
 * `session_expired`, whatever it carries, has anything but a safe request sent again; a `clock_skew` only what was too old for
 * every server, whose clocks may be a window apart, when it left.
 *
 * @param provenMs what {@link provenTimeMs} gave.
 * @param elapsedMs since the request was sent, by the longer of a steady clock and the wall clock, rounded up.
 */
export function sendsAgain(
  code: string | undefined,
  provenMs: number | undefined,
  method: string,
  stampMs: number,
  elapsedMs: number,
): boolean {
  if (code !== "clock_skew") return code === "session_expired" && isSafe(method);
  return provenMs !== undefined && (isSafe(method) || stampMs + 2 * WINDOW_MAX_MS < provenMs - elapsedMs);
}
