package dev.sealway.server;

import dev.sealway.server.SealGate.Kind;
import java.nio.ByteBuffer;
import java.util.Map;

/** The room that one request's body takes while it arrives. It is given back when this is closed, which any thread may do. */
public final class Held implements AutoCloseable {
    private final Room room;
    private final ByteBuffer taker;
    private final Kind kind;
    private long bytes;
    private boolean isClosed;

    Held(Room room, ByteBuffer taker, Kind kind) {
        this.room = room;
        this.taker = taker;
        this.kind = kind;
    }

    /** Takes room for bytes that have arrived.
     *
     * @throws RefusalException a 503 where the room, or this address's share of it, is full */
    public synchronized void grow(int more) {
        if (isClosed) {
            return;
        }
        if (!room.take(taker, more)) {
            throw kind == Kind.THREE ? Refusals.problem("store_unavailable", Map.of(), null)
                    : Refusals.plain(503, "SERVICE_UNAVAILABLE", null);
        }
        bytes += more;
    }

    /** Gives back all but so many bytes. */
    public synchronized void keep(int few) {
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
