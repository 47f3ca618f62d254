package dev.sealway.exchange;

import dev.sealway.crypto.Bytes;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.SealwayException;

/** A request whose session is known, and whose body is awaited. */
public final class Opening {
    private static final int ANONYMOUS_BODY_MAX = 4096;
    private final Exchange exchange;
    private final SessionRecord session;
    private final Stream stream;

    Opening(Exchange exchange, SessionRecord session, Stream stream) {
        this.exchange = exchange;
        this.session = session;
        this.stream = stream;
    }

    /** Returns the session. */
    public SessionRecord session() {
        return session;
    }

    /** Returns the reader of the sealed body. */
    public Stream stream() {
        return stream;
    }

    /** Returns the bound on the sealed body, in bytes; {@code bound} for all but anonymous sessions. */
    public long bodyMax(long bound) {
        return session.isAnonymous() ? Math.min(ANONYMOUS_BODY_MAX, bound) : bound;
    }

    /** Opens the request by the first piece of its stream. Session and timestamp are checked again, since the sender decides how long that piece
     * takes.
     *
     * @param found the session, as the store has it now
     * @param nowMs the server's clock now
     * @throws dev.sealway.wire.ProtocolException where it does not open, or is over */
    // SPEC session-3.md#sealed-requests
    public Unreplayed<PlainRequest> open(Piece first, SessionRecord found, long nowMs) {
        exchange.check(found, nowMs);
        return new Unreplayed<>(exchange.open(found, stream, first.bytes()), exchange.claim(nowMs));
    }

    /** Opens a request by its whole body.
     *
     * @throws dev.sealway.wire.ProtocolException where it does not open */
    public Unreplayed<PlainRequest> openAll(byte[] body, long nowMs) {
        stream.read(body, 0, body.length);
        return open(new Piece(Bytes.join(stream.end().stream().map(Piece::bytes).toArray(byte[][]::new)), true), session, nowMs);
    }

    /** Returns the rejection for an error before the claim, with the proof of the server's time where the protocol has one. */
    public Rejection rejection(SealwayException why, long nowMs) {
        return exchange.rejection(why, session, nowMs);
    }
}
