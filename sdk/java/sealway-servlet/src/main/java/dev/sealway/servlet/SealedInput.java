package dev.sealway.servlet;

import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import dev.sealway.server.RequestReader;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** The body of a sealed request, opened as it is read. */
final class SealedInput extends InputStream {
    private final RequestReader reader;
    private final InputStream sealed;
    private final byte[] buffer = new byte[16_384];
    private final List<byte[]> parts = new ArrayList<>();
    private int at;
    private boolean isEnded;
    private Interruption late;

    SealedInput(RequestReader reader, InputStream sealed) {
        this.reader = reader;
        this.sealed = sealed;
    }

    /** Reads until the request is open, as a whole within this time. */
    void open(Duration time) {
        late = Interruption.after(time);
        try {
            while (reader.request() == null) {
                next();
            }
        } finally {
            late.close();
        }
    }

    private void next() {
        // The interruption at the end of the session comes once, and the servlet may have swallowed it.
        reader.check();
        int read;
        try {
            read = sealed.read(buffer);
        } catch (IOException broken) {
            throw reader.fail(isLate() ? Refusal.BODY_TOO_SLOW : Refusal.BODY_BROKEN);
        }
        if (isLate()) {
            throw reader.fail(Refusal.BODY_TOO_SLOW);
        }
        parts.addAll(read < 0 ? reader.finish() : reader.feed(buffer, 0, read));
        isEnded = read < 0;
    }

    private boolean isLate() {
        return reader.request() == null && late.hasHappened();
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] out, int from, int length) throws IOException {
        if (length == 0) {
            return 0;
        }
        try {
            while (parts.isEmpty() || parts.getFirst().length == at) {
                if (!parts.isEmpty()) {
                    parts.removeFirst();
                    at = 0;
                } else if (isEnded) {
                    return -1;
                } else {
                    next();
                }
            }
        } catch (Rejection refused) {
            throw new IOException("the sealed body does not open", refused);
        }
        byte[] part = parts.getFirst();
        int count = Math.min(length, part.length - at);
        System.arraycopy(part, at, out, from, count);
        at += count;
        return count;
    }
}
