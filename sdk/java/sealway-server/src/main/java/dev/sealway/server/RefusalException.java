package dev.sealway.server;

import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;

/** A request that is refused: what its peer is told, and, for the log alone, why. */
public final class RefusalException extends SealwayException {
    private static final long serialVersionUID = 1;
    private final transient PlainAnswer answer;
    private final String code;
    private final Blame blame;

    RefusalException(PlainAnswer answer, String code, Blame blame, Throwable cause) {
        super("refused: " + code, cause);
        this.answer = answer;
        this.code = code;
        this.blame = blame;
    }

    /** What the peer is told. */
    public PlainAnswer answer() {
        return answer;
    }

    @Override
    public String code() {
        return code;
    }

    @Override
    public Blame blame() {
        return blame;
    }
}
