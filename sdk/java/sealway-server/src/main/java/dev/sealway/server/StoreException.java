package dev.sealway.server;

import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;

/** A store that cannot be asked, or is full. What was asked is refused. */
public final class StoreException extends SealwayException {
    private static final long serialVersionUID = 1;
    private final boolean isFull;

    /** @param isFull whether it has no room, as against being away */
    public StoreException(boolean isFull, String message, Throwable cause) {
        super(message, cause);
        this.isFull = isFull;
    }

    /** Whether it has no room, as against being away. */
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
