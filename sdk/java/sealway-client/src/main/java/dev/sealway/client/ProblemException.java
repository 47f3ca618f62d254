package dev.sealway.client;

import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/** A refusal in plain: a problem of wire 3, an error string of the old wires, or a status alone. Nothing of it is proven. */
public final class ProblemException extends SealwayException {
    private static final long serialVersionUID = 1;
    private static final int CODE_MAX = 64;
    private final int status;
    private final String code;
    private final transient Problem problem;

    private ProblemException(String message, int status, String code, Problem problem) {
        super(message, null);
        this.status = status;
        this.code = clean(code);
        this.problem = problem;
    }

    private static String remedy(String code) {
        return switch (code) {
            case "session_expired" -> ": its session is gone, and whether it was served before is unknown; the next request begins a new session";
            case "clock_skew" -> ": its time was too far from the service's, and whether it was served before is unknown;"
                    + " the next request goes by the service's clock";
            case "key_retired" -> ": it has none of the trusted keys: this is another service or an impostor, or its keys were replaced; ask its"
                    + " operator which keys are its own, and pin those or their root";
            case "policy", "SESSION_FORBIDDEN" -> ": ask its operator what this client may do";
            case "unauthenticated" -> ": give the builder a valid authorization, and a proof where the token is bound to a key";
            case "wire_disabled", "WIRE_DISABLED" -> ": the service does not serve this wire; leave wire out for 3, or ask its operator";
            case "rate_limited", "RATE_LIMITED" -> ": wait before the next session";
            case "store_unavailable", "SERVICE_UNAVAILABLE" -> ": it cannot serve now; try again later";
            case "upstream_unreachable" -> ": the service behind it did not answer; try again later";
            case "upstream_timeout" -> ": the service behind it did not answer in time; whether it had the request is unknown";
            case "unsealable" -> ": what arrived does not open; check that what is in between passes headers and bodies on";
            case "CRYPTO_ERROR" -> ": what arrived does not open or its time is too far off; check this machine's clock, and what is in between";
            case "SESSION_EXPIRED" -> ": its session is gone; the next request begins a new one";
            default -> "";
        };
    }

    /** A refusal of a service, by what its code says. */
    static ProblemException of(URI service, int status, String code, Problem problem) {
        String message = service.getAuthority() + " refused with status " + status + ": " + clean(code) + remedy(code);
        return new ProblemException(message, status, code, problem);
    }

    /** An answer that says nothing of the kind. */
    static ProblemException of(URI service, int status, byte[] body) {
        String message = isPage(body)
                ? "an HTML page (status " + status + ") came in place of the answer of " + service.getAuthority()
                        + ": a captive portal, a proxy or another server answered; open the address in a browser, and check that it is the"
                        + " service's"
                : "the answer of " + service.getAuthority() + " is not sealed (status " + status + "): check that the address is the service's,"
                        + " and that what is in between passes headers and bodies on";
        return new ProblemException(message, status, "status", null);
    }

    /** Whether an answer is a page for people. */
    static boolean isPage(byte[] body) {
        String begin = new String(body, 0, Math.min(body.length, 64), StandardCharsets.ISO_8859_1).strip().toLowerCase(Locale.ROOT);
        return begin.startsWith("<!doctype html") || begin.startsWith("<html");
    }

    /** What anybody on the path can write does not reach a log as it is. */
    private static String clean(String code) {
        String printable = code.replaceAll("[^A-Za-z0-9_-]", "?");
        return printable.substring(0, Math.min(CODE_MAX, printable.length()));
    }

    /** The status. */
    public int status() {
        return status;
    }

    /** The problem, or null where there was none. */
    public Problem problem() {
        return problem;
    }

    /** The problem's code, the {@code error} of the old wires, or {@code status}. */
    @Override
    public String code() {
        return code;
    }

    @Override
    public Blame blame() {
        return status >= 500 ? Blame.TRANSPORT : Blame.PEER;
    }
}
