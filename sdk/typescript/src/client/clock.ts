/** The one door to clocks of the client. */

/** Milliseconds by a clock that never jumps; its beginning means nothing. */
export function steadyMs(): number {
  return performance.now();
}

/** Milliseconds of the epoch by the wall clock, which may jump and be wrong. */
export function wallMs(): number {
  return Date.now();
}
