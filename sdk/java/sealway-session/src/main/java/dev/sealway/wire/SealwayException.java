package dev.sealway.wire;

/** What everything that Sealway refuses or fails at extends. No message holds a key, a plaintext or a body. */
public abstract class SealwayException extends RuntimeException {
    /** With a message that says what happened, and what to do where something can be done. */
    protected SealwayException(String message, Throwable cause) {
        super(message, cause);
    }

    /** A stable name of what happened; a code of {@code spec/registry.toml} where there is one. */
    public abstract String code();

    /** Who is to blame. */
    public abstract Blame blame();
}
