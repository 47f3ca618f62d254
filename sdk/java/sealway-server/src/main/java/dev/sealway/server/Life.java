package dev.sealway.server;

import dev.sealway.session.SessionRecord;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/** Cuts a request of wire 3 off that is still under way when its session ends, by time or by revocation, within a second. A store that
 * does not answer says nothing about the session: the request goes on, up to the session's own end. Close it with the request.
 * {@code spec/session-3.md#sealed-requests}. */
final class Life {
    /** Interval of checks; with the cache of a store below a second in all. */
    static final long EVERY_MS = 250;
    private static final ScheduledThreadPoolExecutor TIMER = timer();
    private final SessionStore store;
    private final SessionRecord session;
    private final LongSupplier clockMs;
    private final Runnable cut;
    private ScheduledFuture<?> next;
    private boolean isClosed;
    private volatile boolean isOver;

    Life(SessionStore store, SessionRecord session, LongSupplier clockMs, Runnable cut) {
        this.store = store;
        this.session = session;
        this.clockMs = clockMs;
        this.cut = cut;
        await();
    }

    private static ScheduledThreadPoolExecutor timer() {
        ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1,
                work -> Thread.ofPlatform().daemon().name("sealway-life").unstarted(work));
        timer.setRemoveOnCancelPolicy(true);
        return timer;
    }

    private synchronized void await() {
        if (!isClosed) {
            // The store may block, and one request's look delays no other's.
            next = TIMER.schedule(() -> Thread.ofVirtual().start(this::look), EVERY_MS, TimeUnit.MILLISECONDS);
        }
    }

    private void look() {
        if (!isEnded()) {
            await();
            return;
        }
        synchronized (this) {
            if (!isClosed) {
                isOver = true;
                cut.run();
            }
        }
    }

    private boolean isEnded() {
        if (session.isExpired(clockMs.getAsLong())) {
            return true;
        }
        try {
            SessionRecord found = store.find(session.id());
            return found == null || found.isExpired(clockMs.getAsLong());
        } catch (RuntimeException unknown) {
            // Whatever a store of the caller's own throws: nothing is known, and the watch goes on.
            return false;
        }
    }

    /** True if the session ended while the request was under way. */
    boolean isOver() {
        return isOver;
    }

    /** Ends the watch: nothing is cut any more. */
    synchronized void close() {
        isClosed = true;
        next.cancel(false);
    }
}
