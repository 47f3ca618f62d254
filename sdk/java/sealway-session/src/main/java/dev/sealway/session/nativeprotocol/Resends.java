package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Forms;
import java.util.Set;

/** Retries after a rejection. {@code spec/session-3.md#problems}, "What is sent again". */
public final class Resends {
    /** The widest window of any server, in milliseconds: a stamp that is older opens nowhere. */
    public static final long WINDOW_MAX_MS = 300_000;
    private static final Set<String> SAFE = Set.of("GET", "HEAD", "OPTIONS", "TRACE");

    private Resends() {
    }

    /** Returns true if a rejected request is retried. A request whose method is not safe is retried only if {@link #isUnserved}.
     *
     * @param isProven as of {@link NativeCall#isSentAgain}
     * @param method as sent
     * @param stamp the request's timestamp as sent
     * @param elapsedMs milliseconds since the request was sent, rounded up: by the longer of a clock that never jumps and the clock of the
     *     day
     */
    static boolean isSentAgain(Protocol protocol, Problem problem, boolean isProven, String method, String stamp, long elapsedMs) {
        if (!SAFE.contains(method)) {
            return isUnserved(problem, isProven, stamp, elapsedMs);
        }
        return problem.code().equals(isProven ? "clock_skew" : protocol.lostKeys) && (!isProven || problem.serverTimeMs() != null);
    }

    /** Returns true if the problem proves that the request was not served: its stamp was too old for every server before it left. Else an
     * attacker in between can deliver it, hold its answer back, and send the same bytes again until they are rejected.
     *
     * <p>The parameters are those of {@link #isSentAgain}. */
    static boolean isUnserved(Problem problem, boolean isProven, String stamp, long elapsedMs) {
        Long timeMs = problem.serverTimeMs();
        // The widest window, and as much again for clocks that differ.
        return problem.code().equals("clock_skew") && isProven && timeMs != null
                && Forms.stampMs(stamp) + 2 * WINDOW_MAX_MS < timeMs - Math.max(0, elapsedMs);
    }
}
