package dev.sealway.client;

/** When a request was sent, by two clocks: one that never jumps, but may stand still while a machine sleeps, and the clock of the day. */
record SentAt(long nanos, long dayMs) {
    private static final long NANOS_PER_MS = 1_000_000;

    /** Now: to be taken before the request is stamped. */
    static SentAt now() {
        return new SentAt(System.nanoTime(), System.currentTimeMillis());
    }

    /** Milliseconds since then, rounded up, by the clock that says more. */
    long elapsedMs() {
        return elapsedMs(System.nanoTime(), System.currentTimeMillis());
    }

    long elapsedMs(long nowNanos, long nowDayMs) {
        // The clock of the day is read in whole milliseconds, at both ends.
        return Math.max(Math.ceilDiv(nowNanos - nanos, NANOS_PER_MS), nowDayMs - dayMs + 1);
    }
}
