package dev.sealway.client;

import java.time.InstantSource;

/** A moment of this process by two clocks: one that never jumps, but may stand still while a machine sleeps, and the clock of the day. */
record Moment(long nanos, long dayMs) {
    private static final long NANOS_PER_MS = 1_000_000;

    /** Now: of a request, to be taken before it is stamped. */
    static Moment now(InstantSource day) {
        return new Moment(System.nanoTime(), day.millis());
    }

    /** Milliseconds since then, rounded up, by the clock that says more. */
    long elapsedMs(InstantSource day) {
        return elapsedMs(System.nanoTime(), day.millis());
    }

    long elapsedMs(long nowNanos, long nowDayMs) {
        // The clock of the day is read in whole milliseconds, at both ends.
        return Math.max(Math.ceilDiv(nowNanos - nanos, NANOS_PER_MS), nowDayMs - dayMs + 1);
    }
}
