package dev.sealway.client;

import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Set;

/** A rejection: a problem of wires 3 and 4, an error string of wires 1 and 2, or an answer that is not sealed. Without a seal nothing in it is
 * proven, but for the time of a {@code clock_skew} whose mac verifies. */
public sealed class ProblemException extends SealwayException permits KeyRetiredException, ReplayedException, ClockSkewException {
    private static final long serialVersionUID = 1;
    private static final int CODE_MAX = 64;
    private static final Set<Integer> PASSING = Set.of(429, 502, 503, 504);
    private static final Set<String> MENDED = Set.of("session_expired", "clock_skew");
    /** Codes of wire 4 that stand under the seal. */
    private static final Set<String> SEALED = Set.of("clock_skew", "policy", "replayed", "store_unavailable", "upstream_unreachable",
            "upstream_timeout");
    private static final String UNKNOWN = " The outcome of the request is unknown";
    private static final String NEXT = "; the next call works.";
    private final transient Facts facts;
    private final int status;
    private final String code;
    private final boolean isSealed;

    /** Contents of an error. */
    record Facts(Stage stage, String host, boolean isRetryable, int status, String code, Problem problem, boolean isSealed, String event) {
    }

    ProblemException(Facts facts) {
        super(facts.stage(), facts.host(), facts.isRetryable(), message(facts.code(), null, facts.host(), facts.event()), null);
        this.facts = facts;
        this.status = facts.status();
        this.code = facts.code();
        this.isSealed = facts.isSealed();
    }

    private static ProblemException typed(Facts facts) {
        return switch (facts.problem() == null ? "" : facts.code()) {
            case "key_retired" -> KeyRetiredException.of(facts);
            case "replayed" -> new ReplayedException(facts);
            case "clock_skew" -> new ClockSkewException(facts);
            default -> new ProblemException(facts);
        };
    }

    /** Returns the error for an answer with a code.
     *
     * @param problem or null */
    static ProblemException of(Stage stage, String host, int status, String code, Problem problem) {
        String outcome = stage != Stage.CALL || problem == null ? "" : UNKNOWN + (MENDED.contains(code) ? NEXT : ".");
        return typed(new Facts(stage, host, isPassing(stage, status), status, clean(code), problem, false, event(status) + outcome));
    }

    /** Returns the error for a problem of wire 4. One that is sealed and should not be, or the other way, means nothing: its code gives no type. */
    static ProblemException oneShot(String host, Problem problem, boolean isSealed) {
        boolean isInPlace = SEALED.contains(problem.code()) == isSealed;
        String outcome = UNKNOWN + (isInPlace && problem.code().equals("clock_skew") ? NEXT : ".");
        Facts facts = new Facts(Stage.CALL, host, false, problem.status(), clean(problem.code()), problem, isSealed, event(problem.status()) + outcome);
        return isInPlace ? typed(facts) : new ProblemException(facts);
    }

    private static String event(int status) {
        return "the service answered with status " + status + ".";
    }

    /** Returns the error for an answer without one. */
    static ProblemException of(Stage stage, String host, int status, byte[] body) {
        String event = isPage(body) ? "an HTML page (status " + status + ") came in place of the answer: a captive portal, a proxy or another server answered."
                : "the answer is not sealed (status " + status + ").";
        return new ProblemException(new Facts(stage, host, isPassing(stage, status), status, "unsealed", null, false, event));
    }

    /** Returns this error for a request that was proven not to have been served. */
    ProblemException unserved() {
        return typed(new Facts(stage(), host(), true, status, code, facts.problem(), isSealed, "the service answered with status " + status
                + ", and proved that it did not serve the request."));
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
    public final int status() {
        return status;
    }

    /** Returns the problem (RFC 9457), or null if there was none. */
    public final Problem problem() {
        return facts == null ? null : facts.problem();
    }

    /** Returns true if the problem was sealed, so that the server itself wrote it: on wire 4 alone. */
    public final boolean isSealed() {
        return isSealed;
    }

    /** Returns the problem's code, the {@code error} of wires 1 and 2, or {@code unsealed}. */
    @Override
    public final String code() {
        return code;
    }

    @Override
    public final Blame blame() {
        return status >= 500 ? Blame.TRANSPORT : Blame.PEER;
    }
}
