/** The one door to clocks of the client. */

/** Milliseconds by a clock that never jumps; its beginning means nothing. */
export function steadyMs(): number {
  return performance.now();
}

/** Milliseconds of the epoch by the wall clock, which may jump and be wrong. */
export function wallMs(): number {
  return Date.now();
}

/**
 * What has passed since now, in whole milliseconds, rounded up: by the longer of both clocks, since the steady one may stand
 * still while a machine sleeps, and the other may be set.
 */
export function stopwatch(): () => number {
  const [steady, wall] = [steadyMs(), wallMs()];
  return () => Math.ceil(Math.max(steadyMs() - steady, wallMs() - wall)) + 1;
}
