package dev.sealway.wire;

import java.util.Map;

/** Base class of all errors of Sealway. No message holds a key, a token, a plaintext or a body.
 *
 * <p>A client's errors say the {@link #stage}, the {@link #code}, whether a retry is safe ({@link #retryable}), the {@link #host} and
 * the {@link #remedy}. Errors of a server have no host. */
public abstract class SealwayException extends RuntimeException {
    private static final long serialVersionUID = 1;
    /** Names of the client's options that bear on a code. */
    private static final Map<String, String> OPTIONS = Map.of("key_untrusted", "trust", "key_retired", "trust", "unauthenticated", "authorization",
            "wire_disabled", "wire", "WIRE_DISABLED", "wire", "suite_required", "suites", "body_too_large", "answerMaxBytes");
    private final Stage stage;
    private final String host;
    private final boolean retryable;

    /** Creates an error outside a client's call, or one whose stage is not known yet.
     *
     * @param cause or null */
    protected SealwayException(String message, Throwable cause) {
        this(null, "", false, message, cause);
    }

    /** Creates an error of a client's call.
     *
     * @param host and port of the other side; empty if there is none
     * @param cause or null */
    protected SealwayException(Stage stage, String host, boolean retryable, String message, Throwable cause) {
        super(message, cause);
        this.stage = stage;
        this.host = host;
        this.retryable = retryable;
    }

    /** Builds the message of a client's error: code, host, event, remedy and option.
     *
     * @param field that is wrong, or null
     * @param event one sentence or more */
    protected static String message(String code, String field, String host, String event) {
        String option = OPTIONS.get(code);
        return code + (field == null ? "" : " (" + field + ")") + (host.isEmpty() ? "" : " at " + host) + ": " + event + " " + remedy(code)
                + (option == null ? "" : " (option `" + option + "`)");
    }

    /** Returns the stable name of the error: a code of {@code spec/registry.toml}, or a word of the SDKs. */
    public abstract String code();

    /** Returns the side that caused the error. */
    public abstract Blame blame();

    /** Returns the stage of the call that failed. */
    public final Stage stage() {
        return stage == null ? Stage.CALL : stage;
    }

    final boolean isLocated() {
        return stage != null;
    }

    /** Returns host and port of the other side, which answered or should have; empty if there is none. */
    public final String host() {
        return host;
    }

    /** Returns true if the same request may be sent again: it was certainly not served, and the cause may pass. False where the outcome is
     * unknown. */
    public final boolean retryable() {
        return retryable;
    }

    /** Returns what to do, in a sentence or two, without secrets. */
    public final String remedy() {
        return remedy(code());
    }

    private static String remedy(String code) {
        String known = Remedies.of(code);
        return !known.isEmpty() ? known : code.equals("cancelled") ? "Nothing, if the interrupt was intended."
                : "Look up the code in the documentation of the service.";
    }
}
