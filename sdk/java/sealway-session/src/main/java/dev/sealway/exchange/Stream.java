package dev.sealway.exchange;

import dev.sealway.session.nativeprotocol.FrameOpener;
import dev.sealway.wire.Code;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;

/** Reads the body of a sealed request, in chunks of any size. The last piece is held back until the body has ended. Nothing can be read
 * after an error. */
public final class Stream {
    private final FrameOpener opener;
    private final byte[] inHeader;
    private final ByteArrayOutputStream whole = new ByteArrayOutputStream();
    private List<byte[]> rest = List.of();

    private Stream(FrameOpener opener, byte[] inHeader) {
        this.opener = opener;
        this.inHeader = inHeader;
    }

    /** One sealed message, which {@link Opening#open} opens. */
    public static Stream whole() {
        return new Stream(null, null);
    }

    /** Frames, each opened here.
     *
     * @param inHeader all of them, where they came in a header, and then there may be no body; else null */
    public static Stream frames(FrameOpener opener, byte[] inHeader) {
        return new Stream(opener, inHeader);
    }

    /** Returns true if the body is opened as a whole, false if piece by piece. */
    public boolean isWhole() {
        return opener == null;
    }

    /** Returns the inner headers once the first frame has opened; null before, and if the protocol seals none. */
    public HeaderList headers() {
        return isWhole() ? null : opener.headers();
    }

    /** Reads the next bytes of the body and returns the pieces that are complete.
     *
     * @throws ProtocolException {@code header_invalid}, {@code frame_invalid}, {@code unsealable}, {@code inner_headers_invalid} */
    public List<Piece> read(byte[] data, int from, int length) {
        if (length > 0 && inHeader != null) {
            throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_SEALED);
        }
        if (isWhole()) {
            whole.write(data, from, length);
            return List.of();
        }
        List<byte[]> frames = opener.feed(data, from, length);
        if (opener.isDone() && !frames.isEmpty()) {
            rest = frames;
            return List.of();
        }
        return pieces(frames, false);
    }

    /** Ends the body and returns the last pieces.
     *
     * @throws ProtocolException {@code stream_truncated}, and those of {@link #read} */
    public List<Piece> end() {
        if (isWhole()) {
            return List.of(new Piece(whole.toByteArray(), true));
        }
        if (inHeader != null) {
            rest = opener.feed(inHeader, 0, inHeader.length);
        }
        opener.finish();
        return pieces(rest, true);
    }

    private static List<Piece> pieces(List<byte[]> frames, boolean isEnd) {
        List<Piece> out = new ArrayList<>(frames.size());
        for (byte[] frame : frames) {
            out.add(new Piece(frame, isEnd && out.size() == frames.size() - 1));
        }
        return out;
    }
}
