package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Forms;
import java.util.Set;

/** What is sent again after a refusal. {@code spec/session-3.md#problems}, "What is sent again". */
public final class Resends {
    /** The widest window of any server, in milliseconds: a stamp that is older opens nowhere. */
    public static final long WINDOW_MAX_MS = 300_000;
    private static final Set<String> SAFE = Set.of("GET", "HEAD", "OPTIONS", "TRACE");

    private Resends() {
    }

    /** Whether a request that was refused is sent once more. One whose method is not safe is only where it was too old for every server
     * before it left: whoever is in between can deliver it, hold its answer back, and show the same bytes again until they are refused.
     *
     * @param isProven whether the problem carries proof, {@link NativeCall#provesClock}
     * @param method the request's, as sent
     * @param stamp its timestamp as sent
     * @param elapsedMs milliseconds since it was sent, rounded up: by the longer of a clock that never jumps and the clock of the day
     */
    public static boolean isSentAgain(Problem problem, boolean isProven, String method, String stamp, long elapsedMs) {
        boolean isSafe = SAFE.contains(method);
        Long timeMs = problem.serverTimeMs();
        boolean isKnown = isProven && timeMs != null;
        return switch (problem.code()) {
            // The widest window, and as much again for clocks that differ.
            case "clock_skew" -> isKnown && (isSafe || Forms.stampMs(stamp) + 2 * WINDOW_MAX_MS < timeMs - Math.max(0, elapsedMs));
            case "session_expired" -> isSafe;
            default -> false;
        };
    }
}
