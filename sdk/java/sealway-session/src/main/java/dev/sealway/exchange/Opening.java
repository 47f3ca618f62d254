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

    /** The session. */
    public SessionRecord session() {
        return session;
    }

    /** The body, still sealed. */
    public Stream stream() {
        return stream;
    }

    /** The longest sealed body that may follow, in bytes, where any other session's may have {@code bound}. */
    public long bodyMax(long bound) {
        return session.isAnonymous() ? Math.min(ANONYMOUS_BODY_MAX, bound) : bound;
    }

    /** Opens the request by the first piece of its stream; it stays shut until its nonce is reserved. Its sender decides how long that piece
     * takes, so session and stamp are checked again.
     *
     * @param found the session as the store has it by now
     * @param nowMs the server's clock by now
     * @throws dev.sealway.wire.ProtocolException where it does not open, or is over */
    // SPEC session-3.md#sealed-requests
    public Unreplayed<PlainRequest> open(Piece first, SessionRecord found, long nowMs) {
        exchange.check(found, nowMs);
        return new Unreplayed<>(exchange.open(found, stream, first.bytes()), exchange.claim(nowMs));
    }

    /** Opens a request whose body is all there.
     *
     * @throws dev.sealway.wire.ProtocolException where it does not open */
    public Unreplayed<PlainRequest> openAll(byte[] body, long nowMs) {
        stream.read(body, 0, body.length);
        return open(new Piece(Bytes.join(stream.end().stream().map(Piece::bytes).toArray(byte[][]::new)), true), session, nowMs);
    }

    /** The rejection for what was thrown on the way to the claim, with the proof of the server's time where that is told. */
    public Rejection rejection(SealwayException why, long nowMs) {
        return exchange.rejection(why, session, nowMs);
    }
}
