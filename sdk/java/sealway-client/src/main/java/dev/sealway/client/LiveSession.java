package dev.sealway.client;

import dev.sealway.session.nativeprotocol.NativeSession;
import java.time.InstantSource;

/** A session of wire 3 in use, with the server's clock as it knows it. Its keys are wiped when nobody uses it any more. */
final class LiveSession {
    private static final long RENEW_BEFORE_MAX_MS = 60_000;
    private final NativeSession session;
    private final InstantSource day;
    private final Moment born;
    private final CallMetrics metrics;
    private long serverMs;
    private long atNanos;
    private int users;
    private boolean isRetired;

    LiveSession(NativeSession session, InstantSource day, CallMetrics metrics) {
        this.session = session;
        this.day = day;
        this.born = Moment.now(day);
        this.metrics = metrics;
        this.serverMs = session.agreed().serverTimeMs();
        this.atNanos = born.nanos();
    }

    NativeSession session() {
        return session;
    }

    CallMetrics metrics() {
        return metrics;
    }

    /** By the longer of two clocks: a machine that slept finds it over. */
    private long leftMs() {
        return session.agreed().expiresInSec() * 1000 - born.elapsedMs(day);
    }

    /** Whether it lasts a while yet: in the last tenth of its life, a minute at most, it is to be renewed. */
    boolean isUsable() {
        return leftMs() > Math.min(session.agreed().expiresInSec() * 100, RENEW_BEFORE_MAX_MS);
    }

    boolean isOver() {
        return leftMs() <= 0;
    }

    /** The server's clock by what it said and what has passed since, by a clock that never jumps. */
    synchronized long stampMs() {
        return serverMs + (System.nanoTime() - atNanos) / 1_000_000;
    }

    /** Takes the server's time, which its mac has proven. */
    synchronized void setClock(long provenMs) {
        serverMs = provenMs;
        atNanos = System.nanoTime();
    }

    /** Whether it may still be used; {@link #release} has to follow. */
    synchronized boolean acquire() {
        if (isRetired) {
            return false;
        }
        users++;
        return true;
    }

    synchronized void release() {
        users--;
        wipe();
    }

    /** Nobody begins to use it any more. */
    synchronized void retire() {
        isRetired = true;
        wipe();
    }

    private void wipe() {
        if (isRetired && users == 0) {
            session.close();
        }
    }
}
