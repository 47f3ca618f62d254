/** Problems of wire 4, and what is sent again (`spec/one-shot.md`, Problems). */
import type { Problem } from "../../wire/error.js";
import { isWhole } from "../../wire/json.js";
import { isSafe, sendsAgain } from "../native/problem.js";

/** Codes that only a seal proves, and that nobody believes without one. */
const SEALED = /^(?:clock_skew|policy|replayed|store_unavailable|upstream_unreachable|upstream_timeout)$/;
/** Codes that come without a seal alone. */
const PLAIN = /^(?:key_retired|unsealable|too_large|wire_disabled|rate_limited)$/;

/** The code of a problem; none where it has no meaning with this seal, or without one. */
export function codeOf(problem: Problem, isSealed: boolean): string | undefined {
  const { code = "" } = problem;
  return /^[a-z_]{1,64}$/.test(code) && !(isSealed ? PLAIN : SEALED).test(code) ? code : undefined;
}

/** The server's time that a sealed `clock_skew` gives, in milliseconds of the epoch. */
export function serverTimeMs(problem: Problem, isSealed: boolean): number | undefined {
  const time = problem["server_time_ms"];
  const isGiven = codeOf(problem, isSealed) === "clock_skew" && isWhole(time, 1e15 - 1);
  return isGiven ? time : undefined;
}

/**
 * True if what a problem rejected is sent once more: a safe method, and after `clock_skew` what was too old for every server when it
 * left.
 *
 * @param elapsedMs since the request was sent, by the longer of a steady clock and the wall clock, rounded up.
 */
export function isSentAgain(
  problem: Problem,
  isSealed: boolean,
  method: string,
  stampMs: number,
  elapsedMs: number,
): boolean {
  if (codeOf(problem, isSealed) === "key_retired") return isSafe(method);
  const timeMs = serverTimeMs(problem, isSealed);
  return timeMs !== undefined && sendsAgain("clock_skew", timeMs, method, stampMs, elapsedMs);
}
