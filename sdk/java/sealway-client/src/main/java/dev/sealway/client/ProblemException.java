package dev.sealway.client;

import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Set;

/** An answer that is not sealed: a problem of wire 3, an error string of wires 1 and 2, or something else. Nothing in it is proven, but for
 * the time of a {@code clock_skew} whose mac verifies. */
public final class ProblemException extends SealwayException {
    private static final long serialVersionUID = 1;
    private static final int CODE_MAX = 64;
    private static final Set<Integer> PASSING = Set.of(429, 502, 503, 504);
    private static final Set<String> UNKNOWN = Set.of("session_expired", "clock_skew");
    private final int status;
    private final String code;
    private final transient Problem problem;

    private ProblemException(Stage stage, String host, boolean isRetryable, int status, String code, Problem problem, String event) {
        super(stage, host, isRetryable, message(code, null, host, event), null);
        this.status = status;
        this.code = code;
        this.problem = problem;
    }

    /** Returns the error for an answer with a code.
     *
     * @param problem or null */
    static ProblemException of(Stage stage, String host, int status, String code, Problem problem) {
        String event = "the service answered with status " + status + "."
                + (stage == Stage.CALL && UNKNOWN.contains(code) ? " The outcome of the request is unknown; the next call works." : "");
        return new ProblemException(stage, host, isPassing(stage, status), status, clean(code), problem, event);
    }

    /** Returns the error for an answer without one. */
    static ProblemException of(Stage stage, String host, int status, byte[] body) {
        String event = isPage(body) ? "an HTML page (status " + status + ") came in place of the answer: a captive portal, a proxy or another server answered."
                : "the answer is not sealed (status " + status + ").";
        return new ProblemException(stage, host, isPassing(stage, status), status, "unsealed", null, event);
    }

    /** Returns this error for a request that was proven not to have been served. */
    ProblemException unserved() {
        return new ProblemException(stage(), host(), true, status, code, problem, "the service answered with status " + status
                + ", and proved that it did not serve the request.");
    }

    /** In the agreement the request was not sent, and these reasons pass. */
    private static boolean isPassing(Stage stage, int status) {
        return stage == Stage.AGREEMENT && PASSING.contains(status);
    }

    /** Returns true if an answer is a page for people. */
    static boolean isPage(byte[] body) {
        String begin = new String(body, 0, Math.min(body.length, 64), StandardCharsets.ISO_8859_1).strip().toLowerCase(Locale.ROOT);
        return begin.startsWith("<!doctype html") || begin.startsWith("<html");
    }

    /** Returns a code made fit to show, since any party on the path can have written it. */
    private static String clean(String code) {
        String printable = code.replaceAll("[^A-Za-z0-9_-]", "?");
        return printable.substring(0, Math.min(CODE_MAX, printable.length()));
    }

    /** Returns the HTTP status. */
    public int status() {
        return status;
    }

    /** Returns the problem (RFC 9457), or null if there was none. */
    public Problem problem() {
        return problem;
    }

    /** Returns the problem's code, the {@code error} of wires 1 and 2, or {@code unsealed}. */
    @Override
    public String code() {
        return code;
    }

    @Override
    public Blame blame() {
        return status >= 500 ? Blame.TRANSPORT : Blame.PEER;
    }
}
