package dev.sealway.servlet;

import java.time.Duration;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Ends what the thread that made it waits for, once, unless it is closed before. Only the interruption ends a wait for a body whose bytes
 * come one by one, or not at all. */
final class Interruption {
    private static final ScheduledThreadPoolExecutor TIMER = timer();
    private final Thread thread = Thread.currentThread();
    private ScheduledFuture<?> next;
    private boolean isClosed;
    private boolean hasHappened;

    private static ScheduledThreadPoolExecutor timer() {
        ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1,
                work -> Thread.ofPlatform().daemon().name("sealway-bodies").unstarted(work));
        timer.setRemoveOnCancelPolicy(true);
        return timer;
    }

    /** One that happens after this time. */
    static Interruption after(Duration time) {
        Interruption made = new Interruption();
        made.next = TIMER.schedule(made::happen, time.toNanos(), TimeUnit.NANOSECONDS);
        return made;
    }

    synchronized void happen() {
        if (!isClosed) {
            hasHappened = true;
            thread.interrupt();
        }
    }

    synchronized boolean hasHappened() {
        return hasHappened;
    }

    /** By the same thread: what comes after is not interrupted. */
    synchronized void close() {
        isClosed = true;
        if (next != null) {
            next.cancel(false);
        }
        if (hasHappened) {
            Thread.interrupted();
        }
    }
}
