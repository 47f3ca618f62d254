package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.session.nativeprotocol.FrameOpener;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;

/** An answer whose body opens frame by frame as it arrives. Close it: it holds a connection and the session's keys.
 *
 * <p>{@code read} throws a {@link SealwayException} if the body ends early or its next part is late. */
public final class SealedStream extends InputStream {
    private static final long TICK_NANOS = 250_000_000;
    private final String host;
    private final int status;
    private final InputStream sealed;
    private final FrameOpener opener;
    private final Runnable release;
    private final Transport.Progress progress;
    private final Duration idle;
    private final Deadline deadline;
    private final Deque<byte[]> parts = new ArrayDeque<>();
    private final byte[] buffer = new byte[65_536];
    private int at;
    private boolean isClosed;
    private boolean isEnded;
    private volatile boolean isWaiting;
    private volatile long waitingSince;
    private volatile boolean isBegun;
    private volatile boolean isLate;
    private final Thread watchdog;

    /** @param release of the keys, once the stream is closed; not if this constructor fails */
    SealedStream(String host, Transport.StreamAnswer answer, NativeCall.Opening opening, Runnable release, Duration idle, Deadline deadline) {
        this.host = host;
        this.status = answer.status();
        this.sealed = answer.body();
        this.opener = opening.opener();
        this.release = release;
        this.progress = answer.progress();
        this.idle = idle;
        this.deadline = deadline;
        this.watchdog = Thread.ofVirtual().start(this::watch);
        try {
            if (opening.inHeader() != null) {
                take(opening.inHeader(), opening.inHeader().length);
                finish();
            }
            while (opener.headers() == null) {
                pull();
            }
            isBegun = true;
        } finally {
            if (!isBegun) {
                end();
            }
        }
    }

    /** Reads the body of an answer that is not sealed, within bounds. */
    static byte[] readPlain(String host, Transport.StreamAnswer answer, Deadline deadline) {
        InputStream body = answer.body();
        long limit = Math.min(deadline.leftNanos(), answer.progress().headLeftNanos());
        Thread guard = Thread.ofVirtual().start(() -> {
            try {
                Thread.sleep(Duration.ofNanos(limit));
                body.close();
            } catch (InterruptedException | IOException done) {
                Thread.currentThread().interrupt();
            }
        });
        try (body) {
            return body.readNBytes(Problem.BYTES_MAX + 1);
        } catch (IOException broken) {
            throw Transport.failure(Stage.CALL, host, broken);
        } finally {
            guard.interrupt();
        }
    }

    /** Returns the time left for the read that waits: for the first frame that of the head, later that between two parts. */
    private long leftNanos() {
        long part = isBegun ? waitingSince + idle.toNanos() - System.nanoTime() : progress.headLeftNanos();
        return isWaiting ? Math.min(part, deadline.leftNanos()) : TICK_NANOS;
    }

    /** Closes the connection of a read that is late, which wakes its reader. */
    private void watch() {
        try {
            for (long left = leftNanos(); left > 0; left = leftNanos()) {
                Thread.sleep(Duration.ofNanos(Math.min(left, TICK_NANOS) + 1_000_000));
            }
            isLate = true;
            sealed.close();
        } catch (InterruptedException | IOException done) {
            Thread.currentThread().interrupt();
        }
    }

    private void pull() {
        if (deadline.leftNanos() <= 0) {
            throw late();
        }
        waitingSince = System.nanoTime();
        isWaiting = true;
        int read;
        try {
            read = sealed.read(buffer);
        } catch (IOException broken) {
            throw isLate ? late() : Transport.failure(Stage.CALL, host, broken);
        } finally {
            isWaiting = false;
        }
        if (isLate) {
            throw late();
        }
        if (read < 0) {
            finish();
        } else {
            take(buffer, read);
        }
    }

    private SealwayException late() {
        return Transport.late(Stage.CALL, host, deadline, isBegun ? "idleTimeout" : "headTimeout", isBegun ? idle : progress.headTimeout());
    }

    private void finish() {
        ProtocolException.locate(Stage.CALL, host, () -> {
            opener.finish();
            return null;
        });
        isEnded = true;
    }

    private void take(byte[] data, int length) {
        for (byte[] part : ProtocolException.locate(Stage.CALL, host, () -> opener.feed(data, 0, length))) {
            if (part.length > 0) {
                parts.add(part);
            }
        }
    }

    /** Returns the HTTP status of the service. */
    public int status() {
        return status;
    }

    /** Returns the headers inside the seal. */
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
            throw new UsageException("the stream is closed: read it before close");
        }
        if (length == 0) {
            return 0;
        }
        while (parts.isEmpty()) {
            // The last frame is not the end: nothing may follow it.
            if (isEnded) {
                return -1;
            }
            pull();
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

    /** Reads the whole body and closes the stream. */
    byte[] readWhole() {
        try (this) {
            return readAllBytes();
        } catch (IOException impossible) {
            throw Transport.failure(Stage.CALL, host, impossible);
        }
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
            release.run();
        }
    }
}
