package dev.sealway.wire;

/** The answer ended before its last frame: {@code stream_truncated}. What was read of it is not whole. */
public final class TruncatedException extends ProtocolException {
    private static final long serialVersionUID = 1;

    TruncatedException(ProtocolException cause, Stage stage, String host) {
        super(cause, stage, host);
    }
}
