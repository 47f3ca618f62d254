package dev.sealway.wire;

/** An option that is missing or wrong, or a request that cannot be sealed. Nothing was sent. */
public final class UsageException extends SealwayException {
    private static final long serialVersionUID = 1;

    /** Creates the error.
     *
     * @param message the option or the part of the request that is wrong, and what to give; no part of a plaintext */
    public UsageException(String message) {
        this(message, null);
    }

    /** Creates the error for a cause.
     *
     * @param message as in {@link #UsageException(String)} */
    public UsageException(String message, Throwable cause) {
        super(Stage.CONFIGURATION, "", false, message, cause);
    }

    /** Always {@code usage}. */
    @Override
    public String code() {
        return "usage";
    }

    @Override
    public Blame blame() {
        return Blame.CALLER;
    }
}
