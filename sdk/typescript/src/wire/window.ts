/** The window of timestamps; apart from the forms that a page loads. */
import { SealwayError } from "./error.js";

/**
 * Checks that a time is within the window, both edges included.
 *
 * @throws {SealwayError} `timestamp_outside_window`.
 */
export function checkWindow(stampMs: number, nowMs: number, windowMs: number): void {
  if (Math.abs(stampMs - nowMs) > windowMs) {
    throw new SealwayError("timestamp_outside_window", "the timestamp is too far from the clock");
  }
}
