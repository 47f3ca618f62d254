package dev.sealway.client;

import dev.sealway.session.three.Problem;
import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;

/** A refusal in plain: a problem of wire 3, an error string of the old wires, or a status alone. Nothing of it is proven. */
public final class ProblemException extends SealwayException {
    private static final long serialVersionUID = 1;
    private static final int CODE_MAX = 64;
    private final int status;
    private final String code;
    private final transient Problem problem;

    ProblemException(int status, String code, Problem problem) {
        super("refused with status " + status + ": " + clean(code), null);
        this.status = status;
        this.code = clean(code);
        this.problem = problem;
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
