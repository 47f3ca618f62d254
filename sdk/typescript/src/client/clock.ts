/** The one door to clocks of the client. */

/** Milliseconds by a clock that never jumps; its beginning means nothing. */
export function steadyMs(): number {
  return performance.now();
}

/** Milliseconds of the epoch by the wall clock, which may jump and be wrong. */
export function wallMs(): number {
  return Date.now();
}

/** A moment by both clocks. */
export type Moment = readonly [steadyMs: number, wallMs: number];

export const moment = (): Moment => [steadyMs(), wallMs()];

/**
 * Milliseconds since a moment of this process: by the longer of both clocks, since the steady one may stand still while a machine
 * sleeps, and the other may be set.
 */
export function passedMs([steady, wall]: Moment): number {
  return Math.max(steadyMs() - steady, wallMs() - wall);
}
