package dev.sealway.client;

/** The request's time is too far from the server's, and the client did not retry it: {@code clock_skew}. {@link #retryable} is true if the server
 * proved that it did not serve the request; otherwise the outcome is unknown. The next call has the server's time, if that was proven. */
public final class ClockSkewException extends ProblemException {
    private static final long serialVersionUID = 1;

    ClockSkewException(Facts facts) {
        super(facts);
    }
}
