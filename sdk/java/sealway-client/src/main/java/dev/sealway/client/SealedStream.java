package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.FrameOpener;
import dev.sealway.wire.Code;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;

/** An answer whose body opens frame by frame as it comes. Close it: it holds a connection and the session's keys.
 *
 * <p>A body that ends early, or whose next part does not come in time, is a {@link SealwayException} from {@code read}. */
public final class SealedStream extends InputStream {
    private static final int PROBLEM_MAX = 65_536;
    private final URI service;
    private final int status;
    private final InputStream sealed;
    private final FrameOpener opener;
    private final LiveSession live;
    private final long idleNanos;
    private final long max;
    private final Deque<byte[]> parts = new ArrayDeque<>();
    private final byte[] buffer = new byte[65_536];
    private int at;
    private long total;
    private boolean isClosed;
    private boolean isEnded;
    private volatile long waitsUntil;
    private volatile boolean isLate;
    private final Thread watchdog;

    SealedStream(URI service, Transport.StreamAnswer answer, NativeCall.Opening opening, LiveSession live, Duration idle, long max, Deadline deadline) {
        this.service = service;
        this.status = answer.status();
        this.sealed = answer.body();
        this.opener = opening.opener();
        this.live = live;
        this.idleNanos = idle.toNanos();
        this.max = max;
        this.watchdog = Thread.ofVirtual().start(this::watch);
        boolean isBegun = false;
        try {
            if (opening.inHeader() != null) {
                take(opening.inHeader(), opening.inHeader().length);
                if (!opener.isDone()) {
                    opener.finish();
                }
                isEnded = true;
            }
            while (opener.headers() == null) {
                pull(Math.min(idleNanos, deadline.leftNanos()));
            }
            isBegun = true;
        } finally {
            if (!isBegun) {
                end();
            }
        }
    }

    /** The body of an answer that is not sealed, within bounds. */
    static byte[] readPlain(URI service, Transport.StreamAnswer answer, Deadline deadline) {
        InputStream body = answer.body();
        Thread guard = Thread.ofVirtual().start(() -> {
            try {
                Thread.sleep(Duration.ofNanos(deadline.leftNanos()));
                body.close();
            } catch (InterruptedException | IOException done) {
                Thread.currentThread().interrupt();
            }
        });
        try (body) {
            return body.readNBytes(PROBLEM_MAX);
        } catch (IOException broken) {
            throw Transport.refusal(service, broken);
        } finally {
            guard.interrupt();
        }
    }

    /** Closes a connection whose other end has stopped talking: that wakes the reader. */
    private void watch() {
        try {
            while (true) {
                long until = waitsUntil;
                long left = until == 0 ? idleNanos : until - System.nanoTime();
                if (until != 0 && left <= 0) {
                    isLate = true;
                    sealed.close();
                    return;
                }
                Thread.sleep(Duration.ofNanos(Math.min(left, 250_000_000L) + 1_000_000));
            }
        } catch (InterruptedException | IOException done) {
            Thread.currentThread().interrupt();
        }
    }

    private void pull(long nanos) {
        waitsUntil = System.nanoTime() + nanos;
        int read;
        try {
            read = sealed.read(buffer);
        } catch (IOException broken) {
            throw isLate ? late() : Transport.refusal(service, broken);
        } finally {
            waitsUntil = 0;
        }
        if (isLate) {
            throw late();
        }
        if (read < 0) {
            opener.finish();
            isEnded = true;
        } else {
            take(buffer, read);
        }
    }

    private SealwayException late() {
        return new TransportException("deadline", "the next part of the answer of " + service.getAuthority() + " did not come in time (idleTimeout, or"
                + " for the head timeout): check that the service is there and not overloaded, or wait longer", null);
    }

    private void take(byte[] data, int length) {
        for (byte[] part : opener.feed(data, 0, length)) {
            total += part.length;
            if (total > max) {
                throw new ProtocolException(Code.BODY_TOO_LARGE, "answer");
            }
            if (part.length > 0) {
                parts.add(part);
            }
        }
    }

    /** The service's status. */
    public int status() {
        return status;
    }

    /** The headers within the seal. */
    public HeaderList headers() {
        return opener.headers();
    }

    @Override
    public int read() {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] out, int from, int length) {
        if (isClosed) {
            throw new IllegalStateException("the stream is closed");
        }
        if (length == 0) {
            return 0;
        }
        while (parts.isEmpty()) {
            // The last frame is not the end: nothing may follow it.
            if (isEnded) {
                return -1;
            }
            pull(idleNanos);
        }
        byte[] part = parts.peek();
        int count = Math.min(length, part.length - at);
        System.arraycopy(part, at, out, from, count);
        at += count;
        if (at == part.length) {
            parts.remove();
            at = 0;
        }
        return count;
    }

    private void end() {
        isClosed = true;
        watchdog.interrupt();
        try {
            sealed.close();
        } catch (IOException ignored) {
            // It is given up either way.
            return;
        }
    }

    @Override
    public void close() {
        if (!isClosed) {
            end();
            live.release();
        }
    }
}
