package dev.sealway.conformance;

/** The driver itself cannot go on: an unknown operation, a member that is missing. */
final class FaultException extends RuntimeException {
    private static final long serialVersionUID = 1;

    FaultException(String message) {
        super(message);
    }
}
