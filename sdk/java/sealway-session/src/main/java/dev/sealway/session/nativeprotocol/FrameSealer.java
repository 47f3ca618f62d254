package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.AesGcm;
import dev.sealway.crypto.Bytes;
import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.util.ArrayList;
import java.util.List;

/** Seals a stream frame by frame. For one thread at a time. */
public final class FrameSealer {
    /** The most plaintext that a frame holds, in bytes. */
    public static final int FRAME_MAX = 65_536;
    private static final byte[] NOTHING = {};
    private static final long FRAMES_MAX = 1L << 32;
    private static final int PART = FRAME_MAX / 2;
    private final FrameKeys keys;
    private final AesGcm aead;
    private final byte[] opening;
    private long count;
    private boolean isDone;
    private byte[] head = NOTHING;

    FrameSealer(FrameKeys keys) {
        this(keys, NOTHING);
    }

    /** @param prefix of the stream, before its commitment */
    FrameSealer(FrameKeys keys, byte[] prefix) {
        this.keys = keys;
        this.opening = Bytes.join(prefix, keys.commit);
        this.aead = new AesGcm(keys.key);
    }

    /** Returns the length of a stream of that much plaintext, if every frame but the last is full. */
    public static long streamLen(long plainLen) {
        long frames = Math.max(1, (plainLen + FRAME_MAX - 1) / FRAME_MAX);
        return FrameKeys.COMMIT_LEN + plainLen + frames * (4 + AesGcm.TAG_LEN);
    }

    /** Puts inner headers before what the first frame seals. */
    public FrameSealer begin(byte[] innerHeaders) {
        head = innerHeaders;
        return this;
    }

    /** Seals a part of a streamed body, in as many frames as it takes. */
    public List<byte[]> seal(byte[] plaintext) {
        List<byte[]> out = new ArrayList<>(1);
        for (int at = 0; at < plaintext.length; at += PART) {
            out.add(seal(plaintext, at, Math.min(PART, plaintext.length - at), false));
        }
        return out;
    }

    /** Seals one frame, which is preceded by the prefix and the commitment if it is the first.
     *
     * @param length up to {@link #FRAME_MAX}, with inner headers that are before it; at least 1 in all in a frame that is not the last
     * @throws ProtocolException {@code frame_invalid}
     */
    public byte[] seal(byte[] plaintext, int from, int length, boolean isLast) {
        byte[] out = new byte[(count == 0 ? opening.length : 0) + 4 + head.length + length + AesGcm.TAG_LEN];
        seal(head, plaintext, from, length, isLast, out, 0);
        head = NOTHING;
        return out;
    }

    private int seal(byte[] before, byte[] plaintext, int from, int length, boolean isLast, byte[] out, int begin) {
        int whole = before.length + length;
        if (isDone || whole > FRAME_MAX || whole == 0 && !isLast || count >= FRAMES_MAX) {
            throw new ProtocolException(Code.FRAME_INVALID);
        }
        int at = begin;
        if (count == 0) {
            System.arraycopy(opening, 0, out, at, opening.length);
            at += opening.length;
        }
        int sealed = whole + AesGcm.TAG_LEN;
        out[at++] = (byte) (isLast ? 0x80 : 0);
        out[at++] = (byte) (sealed >>> 16);
        out[at++] = (byte) (sealed >>> 8);
        out[at++] = (byte) sealed;
        if (before.length == 0) {
            aead.seal(keys.nonce(count, isLast), keys.context, plaintext, from, length, out, at);
        } else {
            aead.seal(keys.nonce(count, isLast), keys.context, before, plaintext, from, length, out, at);
        }
        count++;
        if (isLast) {
            isDone = true;
            keys.key.destroy();
        }
        return at + sealed;
    }

    /** Seals a whole stream: the inner headers, then the body. */
    public byte[] sealAll(byte[] innerHeaders, byte[] body) {
        long plainLen = (long) innerHeaders.length + body.length;
        byte[] out = new byte[Math.toIntExact(opening.length - FrameKeys.COMMIT_LEN + streamLen(plainLen))];
        int bodyAt = (int) Math.min(FRAME_MAX, plainLen) - innerHeaders.length;
        int at = seal(innerHeaders, body, 0, bodyAt, bodyAt == body.length, out, 0);
        while (bodyAt < body.length) {
            int length = Math.min(FRAME_MAX, body.length - bodyAt);
            at = seal(NOTHING, body, bodyAt, length, bodyAt + length == body.length, out, at);
            bodyAt += length;
        }
        return out;
    }

    @Override
    public String toString() {
        return "FrameSealer(redacted)";
    }
}
