package dev.sealway.client;

import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;

/** No answer came, or none that may be used: {@code unreachable}, {@code deadline}, {@code cancelled} or {@code redirected}. */
public final class TransportException extends SealwayException {
    private static final long serialVersionUID = 1;
    private final String code;

    TransportException(String code, String message, Throwable cause) {
        super(code + ": " + message, cause);
        this.code = code;
    }

    @Override
    public String code() {
        return code;
    }

    @Override
    public Blame blame() {
        return Blame.TRANSPORT;
    }
}
