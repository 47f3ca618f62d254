package dev.sealway.client;

import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;

/** No usable answer arrived: {@code unreachable} (no connection), {@code timeout}, {@code network} (a connection that broke),
 * {@code redirected}, or {@code cancelled} by an interrupt. */
public final class TransportException extends SealwayException {
    private static final long serialVersionUID = 1;
    private final String code;

    TransportException(String code, Stage stage, String host, String event, Throwable cause) {
        super(stage, host, isRetryable(code, stage), message(code, null, host, event), cause);
        this.code = code;
    }

    /** In the agreement no request was sent; without a connection none was either. */
    private static boolean isRetryable(String code, Stage stage) {
        return code.equals("unreachable") || stage == Stage.AGREEMENT && (code.equals("timeout") || code.equals("network"));
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
