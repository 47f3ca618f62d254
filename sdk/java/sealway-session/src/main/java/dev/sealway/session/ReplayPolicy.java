package dev.sealway.session;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;

/** The greatest distance of a timestamp from the reader's clock, either way, inclusive. {@code spec/session.md#nonces}.
 *
 * @param windowMs 0 to one day, in milliseconds
 */
public record ReplayPolicy(long windowMs) {
    /** Five minutes. */
    public static final ReplayPolicy DEFAULT = new ReplayPolicy(300_000);
    private static final long WINDOW_MAX_MS = 86_400_000;

    /** Creates a policy. */
    public ReplayPolicy {
        if (windowMs < 0 || windowMs > WINDOW_MAX_MS) {
            throw new UsageException("windowMs: expected 0 to 86400000");
        }
    }

    /** Returns this window, or one of {@code mostMs} if this one is wider. */
    public ReplayPolicy atMost(long mostMs) {
        return windowMs <= mostMs ? this : new ReplayPolicy(mostMs);
    }

    /** Checks a timestamp.
     *
     * @throws ProtocolException {@code timestamp_outside_window}
     */
    public void check(long stampMs, long nowMs) {
        if (Math.abs(stampMs - nowMs) > windowMs) {
            throw new ProtocolException(Code.TIMESTAMP_OUTSIDE_WINDOW);
        }
    }
}
