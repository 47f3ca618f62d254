package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.AesGcm;
import dev.sealway.crypto.Hashes;
import dev.sealway.wire.Code;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Opens a stream as it arrives, and holds one frame at most. For one thread at a time. */
public final class FrameOpener {
    private static final int HEAD_LEN = 4;
    private final FrameKeys keys;
    private final AesGcm aead;
    private final boolean isSingle;
    private final byte[] commit = new byte[FrameKeys.COMMIT_LEN];
    private final byte[] head = new byte[HEAD_LEN];
    private int commitLen;
    private int headLen;
    private byte[] frame;
    private int frameLen;
    private int filled;
    private long count;
    private boolean isDone;
    private HeaderList headers;

    /** @param isSingle true for a stream in {@code X-Sealed}, which has one frame */
    FrameOpener(FrameKeys keys, boolean isSingle) {
        this.keys = keys;
        this.isSingle = isSingle;
        this.aead = new AesGcm(keys.key);
    }

    /** Returns the inner headers once the first frame has opened; null before. */
    public HeaderList headers() {
        return headers;
    }

    /** Returns true once the last frame has opened. */
    public boolean isDone() {
        return isDone;
    }

    /** Reads the next bytes of the stream and returns the plaintexts of the frames that are complete.
     *
     * @throws ProtocolException {@code frame_invalid}, {@code unsealable}, {@code inner_headers_invalid}; {@code stream_truncated} if the
     *     first frame in {@code X-Sealed} is not the last; nothing more may be fed then
     */
    public List<byte[]> feed(byte[] data, int from, int length) {
        List<byte[]> out = new ArrayList<>(1);
        int at = from;
        int end = from + length;
        while (at < end) {
            if (isDone) {
                throw new ProtocolException(Code.FRAME_INVALID);
            }
            if (commitLen < commit.length) {
                int part = Math.min(commit.length - commitLen, end - at);
                System.arraycopy(data, at, commit, commitLen, part);
                commitLen += part;
                at += part;
            } else if (headLen < HEAD_LEN) {
                head[headLen++] = data[at++];
                if (headLen == HEAD_LEN) {
                    begin();
                }
            } else {
                // A frame that is here as a whole is opened where it lies.
                int part = Math.min(frameLen - filled, end - at);
                if (filled == 0 && part == frameLen) {
                    out.add(open(data, at));
                } else {
                    if (frame == null) {
                        frame = new byte[frameLen];
                    }
                    System.arraycopy(data, at, frame, filled, part);
                    filled += part;
                    if (filled == frameLen) {
                        out.add(open(frame, 0));
                    }
                }
                at += part;
            }
        }
        return out;
    }

    private void begin() {
        int length = (head[0] & 0x7f) << 24 | (head[1] & 0xff) << 16 | (head[2] & 0xff) << 8 | head[3] & 0xff;
        boolean isLast = head[0] < 0;
        if (length < AesGcm.TAG_LEN || length > FrameSealer.FRAME_MAX + AesGcm.TAG_LEN || length == AesGcm.TAG_LEN && !isLast) {
            throw new ProtocolException(Code.FRAME_INVALID);
        }
        frameLen = length;
        filled = 0;
        frame = null;
    }

    private byte[] open(byte[] from, int at) {
        boolean isLast = head[0] < 0;
        // The tag is computed whether or not the commitment is right: no answer comes sooner for it.
        boolean isCommitted = Hashes.equal(commit, keys.commit);
        byte[] plaintext = aead.open(keys.nonce(count, isLast), keys.context, from, at, frameLen);
        if (!isCommitted) {
            throw new ProtocolException(Code.UNSEALABLE);
        }
        if (isSingle && !isLast) {
            throw new ProtocolException(Code.STREAM_TRUNCATED);
        }
        count++;
        headLen = 0;
        frame = null;
        if (headers == null) {
            InnerHeaders.DecodedHeaders decoded = InnerHeaders.decode(plaintext);
            headers = decoded.headers();
            plaintext = Arrays.copyOfRange(plaintext, decoded.bodyAt(), plaintext.length);
        }
        if (isLast) {
            isDone = true;
            keys.key.destroy();
        }
        return plaintext;
    }

    /** Ends the stream.
     *
     * @throws ProtocolException {@code stream_truncated} if the last frame is missing
     */
    public void finish() {
        if (!isDone) {
            throw new ProtocolException(Code.STREAM_TRUNCATED);
        }
    }

    /** Opens a whole stream and returns its body; the headers are in {@link #headers}.
     *
     * @throws ProtocolException as {@link #feed} and {@link #finish}
     */
    public byte[] openAll(byte[] stream) {
        List<byte[]> parts = feed(stream, 0, stream.length);
        finish();
        return parts.size() == 1 ? parts.getFirst() : dev.sealway.crypto.Bytes.join(parts.toArray(byte[][]::new));
    }

    @Override
    public String toString() {
        return "FrameOpener(redacted)";
    }
}
