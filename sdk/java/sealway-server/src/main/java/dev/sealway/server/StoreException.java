package dev.sealway.server;

import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;

/** A store that is unavailable or full. The request is rejected. */
public final class StoreException extends SealwayException {
    private static final long serialVersionUID = 1;
    private final boolean isFull;

    /** Creates the error.
     *
     * @param isFull true if the store is full, false if it is unavailable */
    public StoreException(boolean isFull, String message, Throwable cause) {
        super(message, cause);
        this.isFull = isFull;
    }

    /** Returns true if the store is full, false if it is unavailable. */
    public boolean isFull() {
        return isFull;
    }

    @Override
    public String code() {
        return "store_unavailable";
    }

    @Override
    public Blame blame() {
        return isFull ? Blame.LIMIT : Blame.TRANSPORT;
    }
}
