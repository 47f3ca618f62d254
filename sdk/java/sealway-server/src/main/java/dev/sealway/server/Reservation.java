package dev.sealway.server;

import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import java.nio.ByteBuffer;

/** The room that one request's body takes while it arrives. It is given back when this is closed, which any thread may do. */
final class Reservation implements AutoCloseable {
    private final Room room;
    private final ByteBuffer taker;
    private long bytes;
    private boolean isClosed;

    Reservation(Room room, ByteBuffer taker) {
        this.room = room;
        this.taker = taker;
    }

    /** Takes room for bytes that have arrived.
     *
     * @throws Rejection where the room, or this address's share of it, is full */
    synchronized void grow(int more) {
        if (isClosed) {
            return;
        }
        if (!room.take(taker, more)) {
            throw new Rejection(Refusal.BODY_NO_ROOM);
        }
        bytes += more;
    }

    /** Gives back all but so many bytes. */
    synchronized void keep(int few) {
        long less = bytes - few;
        if (less > 0) {
            room.giveBack(taker, less);
            bytes = few;
        }
    }

    @Override
    public synchronized void close() {
        keep(0);
        isClosed = true;
    }
}
