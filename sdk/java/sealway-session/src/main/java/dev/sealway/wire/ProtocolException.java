package dev.sealway.wire;

import java.util.function.Supplier;

/** A message that breaks the protocol, or that does not verify. */
public sealed class ProtocolException extends SealwayException permits TruncatedException {
    private static final long serialVersionUID = 1;
    private final Code reason;
    private final String field;
    private final String event;

    /** Creates the error for this reason. */
    public ProtocolException(Code reason) {
        this(reason, null);
    }

    /** Creates the error for this reason.
     *
     * @param field the header or the member that is wrong, never its value; or null */
    public ProtocolException(Code reason, String field) {
        this(reason, field, reason.meaning());
    }

    /** Creates the error for this reason, with an event in place of the reason's own meaning.
     *
     * @param event one sentence or more */
    public ProtocolException(Code reason, String field, String event) {
        super(reason.text() + (field == null ? "" : " (" + field + ")") + ": " + event, null);
        this.reason = reason;
        this.field = field;
        this.event = event;
    }

    ProtocolException(ProtocolException cause, Stage stage, String host) {
        super(stage, host, false, message(cause.code(), cause.field, host, cause.event), cause);
        this.reason = cause.reason;
        this.field = cause.field;
        this.event = cause.event;
    }

    /** Runs a step of a client's call; its errors of the protocol get the stage and the host.
     *
     * @throws SealwayException of the step */
    public static <T> T locate(Stage stage, String host, Supplier<T> step) {
        try {
            return step.get();
        } catch (ProtocolException broken) {
            throw broken.at(stage, host);
        }
    }

    /** Returns this error with stage, host and remedy; an error that has them already stays as it is. */
    public final ProtocolException at(Stage stage, String host) {
        if (isLocated()) {
            return this;
        }
        return reason == Code.STREAM_TRUNCATED ? new TruncatedException(this, stage, host) : new ProtocolException(this, stage, host);
    }

    /** Returns the code of the registry. */
    public final Code reason() {
        return reason;
    }

    /** Returns the header or the member that is wrong, or null. */
    public final String field() {
        return field;
    }

    @Override
    public final String code() {
        return reason.text();
    }

    @Override
    public final Blame blame() {
        return reason.blame();
    }
}
