package dev.sealway.server;

import dev.sealway.exchange.Opening;
import dev.sealway.exchange.Piece;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** Reads the body of a sealed request as it arrives, within its bounds. The nonce is claimed with the first piece; no plaintext leaves before.
 * For one thread at a time. Close it with the request. */
public final class RequestReader implements AutoCloseable {
    private final SealGate gate;
    private final Opening opening;
    private final HeaderList outer;
    /** The room of pieces that have not opened yet. */
    private final Reservation held;
    private long left;
    private long length = -1;
    private PlainRequest request;
    private volatile Rejection fault;
    private volatile Life life;
    private boolean isClosed;

    RequestReader(SealGate gate, Opening opening, HeaderList outer, Reservation held, long max) {
        this.gate = gate;
        this.opening = opening;
        this.outer = outer;
        this.held = held;
        this.left = max;
    }

    /** Returns the request, from the first piece on; null before. */
    public PlainRequest request() {
        return request;
    }

    /** Returns the headers that the handler sees. */
    public List<Header> headers() {
        return gate.unsealed(outer, request);
    }

    /** Returns the length of the plain body if it opened at once, else -1. */
    public long length() {
        return length;
    }

    /** Returns the reason for which the body failed, or null. */
    public Rejection fault() {
        return fault;
    }

    /** Reads the next bytes of the body and returns their plaintexts, which may be empty.
     *
     * @throws Rejection of the request; nothing more of it opens */
    public List<byte[]> feed(byte[] data, int from, int count) {
        return read(() -> {
            left -= count;
            if (left < 0) {
                throw new Rejection(Refusal.BODY_TOO_LARGE);
            }
            held.grow(count);
            return parts(opening.stream().read(data, from, count), count);
        });
    }

    /** Ends the body and returns the last plaintexts.
     *
     * @throws Rejection of the request */
    public List<byte[]> finish() {
        return read(() -> parts(opening.stream().end(), 0));
    }

    private List<byte[]> read(Supplier<List<byte[]>> step) {
        try {
            // Who reads on after an error must not take what follows for the end.
            check();
            return step.get();
        } catch (SealwayException refused) {
            throw fail(refused);
        }
    }

    /** Ends the body for this reason; the first reason counts. */
    public Rejection fail(Refusal refusal) {
        return fail(new Rejection(refusal));
    }

    private Rejection fail(SealwayException why) {
        if (fault == null) {
            fault = isOver() ? ended() : Rejection.of(why);
        }
        return fault;
    }

    private List<byte[]> parts(List<Piece> pieces, int unread) {
        if (pieces.isEmpty()) {
            return List.of();
        }
        boolean isAll = request == null && pieces.getLast().isLast();
        List<byte[]> out = new ArrayList<>(pieces.size());
        for (Piece piece : pieces) {
            out.add(request == null ? admit(piece).first() : piece.bytes());
        }
        if (isAll) {
            length = out.stream().mapToLong(part -> part.length).sum();
        }
        held.keep(unread);
        return out;
    }

    /** Claims the nonce: only now the request may be seen. */
    private PlainRequest admit(Piece first) {
        try {
            Unreplayed<PlainRequest> shut = opening.open(first, gate.find(opening.session().id()), gate.nowMs());
            request = shut.release(gate.reserve(shut.claim()));
            return request;
        } catch (SealwayException refused) {
            throw opening.rejection(refused, gate.nowMs());
        }
    }

    /** Watches the session while the request is under way. A call of wires 1 and 2 goes on, since its client would
     * retry it.
     *
     * @param cut called once, by another thread, at the end of the session; it must stop the request */
    public synchronized void watch(Runnable cut) {
        if (!isClosed && !opening.stream().isWhole()) {
            life = gate.watch(opening.session(), cut);
        }
    }

    /** Returns true if the session ended while the request was under way; nothing more of it may pass. */
    public boolean isOver() {
        Life watched = life;
        return watched != null && watched.isOver();
    }

    /** Checks that the request may go on.
     *
     * @throws Rejection where the body broke off, or the session ended while the request was under way */
    public void check() {
        if (fault != null || isOver()) {
            throw fault != null ? fault : ended();
        }
    }

    /** Returns the rejection of a request whose session ended while it was under way. */
    public Rejection ended() {
        return Rejection.of(new ProtocolException(Code.SESSION_EXPIRED));
    }

    @Override
    public synchronized void close() {
        isClosed = true;
        if (life != null) {
            life.close();
        }
        held.close();
    }
}
