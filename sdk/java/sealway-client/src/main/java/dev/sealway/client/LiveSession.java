package dev.sealway.client;

import dev.sealway.session.nativeprotocol.NativeSession;
import java.time.InstantSource;

/** A session of wire 3 in use, with the server's clock as far as it is known. Its keys are wiped after its last use. */
final class LiveSession implements KeyUse {
    private static final long RENEW_BEFORE_MAX_MS = 60_000;
    private final NativeSession session;
    private final InstantSource day;
    private final Moment sent;
    private final CallMetrics metrics;
    private long serverMs;
    private long atNanos;
    private int users;
    private boolean isRetired;

    /** @param sent when the init was sent
     * @param arrivedNanos when its answer had arrived, by {@link System#nanoTime} */
    LiveSession(NativeSession session, InstantSource day, Moment sent, long arrivedNanos, CallMetrics metrics) {
        this.session = session;
        this.day = day;
        this.sent = sent;
        this.metrics = metrics;
        this.serverMs = session.agreed().serverTimeMs();
        this.atNanos = arrivedNanos;
    }

    NativeSession session() {
        return session;
    }

    @Override
    public NativeSession keys() {
        return session;
    }

    CallMetrics metrics() {
        return metrics;
    }

    /** Returns the rest of its life by the longer of two clocks: a machine that slept finds it over. */
    private long leftMs() {
        return session.agreed().expiresInSec() * 1000 - sent.elapsedMs(day);
    }

    /** Returns false in the last tenth of its life, at most a minute, in which it is to be renewed. */
    boolean isUsable() {
        return leftMs() > Math.min(session.agreed().expiresInSec() * 100, RENEW_BEFORE_MAX_MS);
    }

    boolean isOver() {
        return leftMs() <= 0;
    }

    /** Returns the server's time: its last word, and the time since by a clock that never jumps. */
    @Override
    public synchronized long stampMs() {
        return serverMs + (System.nanoTime() - atNanos) / 1_000_000;
    }

    /** Takes the server's time, which its mac has proven. */
    synchronized void setClock(long provenMs) {
        serverMs = provenMs;
        atNanos = System.nanoTime();
    }

    /** Begins a use, which {@link #release} ends; false if it may not be used any more. */
    synchronized boolean acquire() {
        if (isRetired) {
            return false;
        }
        users++;
        return true;
    }

    @Override
    public synchronized void release() {
        users--;
        wipe();
    }

    /** Allows no further use. */
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
