package dev.sealway.client;

/** The server received this request before: {@code replayed}. The outcome of the request is unknown. On wire 4 the problem is sealed. */
public final class ReplayedException extends ProblemException {
    private static final long serialVersionUID = 1;

    ReplayedException(Facts facts) {
        super(facts);
    }
}
