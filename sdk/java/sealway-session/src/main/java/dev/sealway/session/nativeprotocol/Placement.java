package dev.sealway.session.nativeprotocol;

import dev.sealway.session.SealedMessage;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import java.util.ArrayList;
import java.util.List;

/** Placement of a message's stream: in its body, or in {@code X-Sealed} if it has none. */
public final class Placement {
    /** The content type of a sealed body. */
    public static final String OCTETS = "application/octet-stream";
    private static final int X_SEALED_MAX = 8192;

    private Placement() {
    }

    /** The stream in {@code X-Sealed}, or null where it is in the body.
     *
     * @throws ProtocolException {@code header_invalid}
     */
    static byte[] inHeader(HeaderList headers) {
        String value = headers.first(HeaderNames.X_SEALED);
        if (value == null) {
            return null;
        }
        byte[] stream = value.length() <= X_SEALED_MAX && headers.count(HeaderNames.X_SEALED) == 1
                ? StrictBase64.decode(value) : null;
        if (stream == null) {
            throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_SEALED);
        }
        return stream;
    }

    /** The whole stream of a message whose body is all there.
     *
     * @throws ProtocolException {@code header_invalid}
     */
    static byte[] whole(HeaderList headers, byte[] body) {
        byte[] inHeader = inHeader(headers);
        if (inHeader == null) {
            return body;
        }
        if (body.length > 0) {
            throw new ProtocolException(Code.HEADER_INVALID, HeaderNames.X_SEALED);
        }
        return inHeader;
    }

    /** Returns true if an empty request of this method goes into {@code X-Sealed}, which has room for its headers. */
    public static boolean isBodiless(String method, int innerLen) {
        return List.of("GET", "HEAD", "DELETE").contains(method)
                && (FrameSealer.streamLen(innerLen) + 2) / 3 * 4 <= X_SEALED_MAX;
    }

    /** Returns true if an answer cannot have a body. */
    public static boolean isBodilessAnswer(String method, int status) {
        return method.equals("HEAD") || status == 204 || status == 205 || status == 304;
    }

    /** A message by its whole stream, with the headers of its seal.
     *
     * @throws ProtocolException {@code inner_headers_invalid} where {@code X-Sealed} would be too long
     */
    public static SealedMessage message(HeaderList headers, byte[] stream, boolean isBodiless) {
        if (!isBodiless) {
            return new SealedMessage(headers, OCTETS, stream);
        }
        String value = StrictBase64.encode(stream);
        if (value.length() > X_SEALED_MAX) {
            throw new ProtocolException(Code.INNER_HEADERS_INVALID);
        }
        List<Header> all = new ArrayList<>(headers.list());
        all.add(new Header(HeaderNames.X_SEALED, value));
        return new SealedMessage(new HeaderList(all), null, new byte[0]);
    }
}
