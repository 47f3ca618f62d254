package dev.sealway.exchange;

import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.Blame;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A rejected request: the reason, for logs, and the answer to its client. */
public final class Rejection extends SealwayException {
    private static final long serialVersionUID = 1;
    private final transient Refusal refusal;
    private final transient Map<String, Object> members;

    /** Creates a rejection. */
    public Rejection(Refusal refusal) {
        this(refusal, null, Map.of());
    }

    /** Creates a rejection.
     *
     * @param cause for the log, or null
     * @param members of the problem; the other form does not show them */
    public Rejection(Refusal refusal, Throwable cause, Map<String, Object> members) {
        super("refused: " + refusal.label(), cause);
        this.refusal = refusal;
        this.members = members;
    }

    /** Returns the rejection for an error while a request was opened. */
    public static Rejection of(SealwayException why) {
        Code code = why instanceof ProtocolException refused ? refused.reason() : Code.PROVIDER;
        return why instanceof Rejection made ? made : new Rejection(Refusal.of(code), why, Map.of());
    }

    /** Returns this rejection with these members of its problem. */
    Rejection with(Map<String, Object> more) {
        return new Rejection(refusal, getCause(), more);
    }

    /** Returns the answer to the client. */
    public Answer answer(Form form) {
        Problem problem = Problem.of(refusal.problem(), members);
        boolean isProblem = form == Form.PROBLEM;
        int status = isProblem ? problem.status() : refusal.status();
        List<Header> headers = new ArrayList<>(List.of(new Header("Content-Type", isProblem ? Problem.TYPE : "application/json"),
                new Header("Cache-Control", "no-store")));
        if (status == 405) {
            headers.add(new Header("Allow", "POST, OPTIONS"));
        } else if (status == 503) {
            headers.add(new Header("Retry-After", "1"));
        }
        byte[] plain = Json.write(Map.of("error", refusal.plain())).getBytes(StandardCharsets.US_ASCII);
        return new Answer(status, List.copyOf(headers), isProblem ? problem.write() : plain);
    }

    @Override
    public String code() {
        return refusal.label();
    }

    @Override
    public Blame blame() {
        return getCause() instanceof SealwayException why ? why.blame() : Blame.PEER;
    }
}
