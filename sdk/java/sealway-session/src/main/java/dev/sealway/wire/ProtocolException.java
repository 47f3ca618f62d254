package dev.sealway.wire;

/** A message that the wires refuse. */
public final class ProtocolException extends SealwayException {
    /** Why. */
    private final Code reason;
    /** The header or the member at fault, or null. */
    private final String field;

    /** For this reason. */
    public ProtocolException(Code reason) {
        this(reason, null);
    }

    /** For this reason; {@code field} is the header or the member at fault, never its value. */
    public ProtocolException(Code reason, String field) {
        this(reason, field, reason.meaning());
    }

    /** For this reason, with what happened and what to do in place of the reason's own meaning. */
    public ProtocolException(Code reason, String field, String message) {
        super(reason.text() + (field == null ? "" : " (" + field + ")") + ": " + message, null);
        this.reason = reason;
        this.field = field;
    }

    /** Why. */
    public Code reason() {
        return reason;
    }

    /** The header or the member at fault, or null. */
    public String field() {
        return field;
    }

    @Override
    public String code() {
        return reason.text();
    }

    @Override
    public Blame blame() {
        return reason.blame();
    }
}
