package dev.sealway.client;

import dev.sealway.session.three.FrameSealer;
import java.io.IOException;
import java.io.InputStream;

/** The sealed stream of a body that is read as it is sent: each read of the source ends a frame. */
final class SealingInputStream extends InputStream {
    private final InputStream source;
    private final FrameSealer sealer;
    private final byte[] plain = new byte[FrameSealer.FRAME_MAX];
    private int plainLen;
    private byte[] sealed = {};
    private int at;
    private boolean isDone;

    SealingInputStream(byte[] innerHeaders, InputStream source, FrameSealer sealer) {
        this.source = source;
        this.sealer = sealer;
        System.arraycopy(innerHeaders, 0, plain, 0, innerHeaders.length);
        this.plainLen = innerHeaders.length;
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] out, int from, int length) throws IOException {
        while (at == sealed.length) {
            if (isDone) {
                return -1;
            }
            int read = source.read(plain, plainLen, plain.length - plainLen);
            if (read == 0) {
                continue;
            }
            isDone = read < 0;
            plainLen += Math.max(0, read);
            sealed = sealer.seal(plain, 0, plainLen, isDone);
            plainLen = 0;
            at = 0;
        }
        int part = Math.min(length, sealed.length - at);
        System.arraycopy(sealed, at, out, from, part);
        at += part;
        return part;
    }

    @Override
    public int available() {
        return sealed.length - at;
    }

    @Override
    public void close() throws IOException {
        source.close();
    }
}
