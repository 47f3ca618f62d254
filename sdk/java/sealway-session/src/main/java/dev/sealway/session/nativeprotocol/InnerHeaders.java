package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/** The headers within a seal. {@code spec/session-3.md#sealed-requests}. */
public final class InnerHeaders {
    private static final int LENGTH_MAX = 16_384;
    private static final int COUNT_MAX = 64;
    private static final int NAME_MAX = 255;
    private static final Set<String> FORBIDDEN = Set.of("content-length", "transfer-encoding", "host", "expect", "te",
            "trailer", "upgrade", "connection", "keep-alive", "http2-settings");

    private InnerHeaders() {
    }

    /** Inner headers, and the offset of the body in the first frame. */
    record DecodedHeaders(HeaderList headers, int bodyAt) {
    }

    /** Returns true if a header may be inside a seal: headers of a hop, of framing and of sealing may not. */
    public static boolean isAllowed(String name) {
        String lower = name.toLowerCase(Locale.ROOT);
        return !FORBIDDEN.contains(lower) && !HeaderNames.isSealing(lower) && !lower.startsWith("proxy-")
                && !lower.startsWith("x-sealway-");
    }

    /** Encodes headers, with their names in lower case.
     *
     * @throws ProtocolException {@code inner_headers_invalid} for a header that may not be there, and for too many
     */
    public static byte[] encode(Iterable<Header> headers) {
        ByteArrayOutputStream block = new ByteArrayOutputStream();
        int count = 0;
        for (Header header : headers) {
            byte[] name = header.name().toLowerCase(Locale.ROOT).getBytes(StandardCharsets.ISO_8859_1);
            byte[] value = header.value().getBytes(StandardCharsets.ISO_8859_1);
            count++;
            if (count > COUNT_MAX || name.length > NAME_MAX || value.length > LENGTH_MAX
                    || !isToken(name, 0, name.length) || !isValue(value, 0, value.length) || !isAllowed(header.name())) {
                throw new ProtocolException(Code.INNER_HEADERS_INVALID);
            }
            block.write(name.length);
            block.writeBytes(name);
            block.write(value.length >> 8);
            block.write(value.length);
            block.writeBytes(value);
        }
        if (block.size() > LENGTH_MAX) {
            throw new ProtocolException(Code.INNER_HEADERS_INVALID);
        }
        byte[] out = new byte[2 + block.size()];
        out[0] = (byte) (block.size() >> 8);
        out[1] = (byte) block.size();
        System.arraycopy(block.toByteArray(), 0, out, 2, block.size());
        return out;
    }

    static DecodedHeaders decode(byte[] frame) {
        int length = frame.length < 2 ? LENGTH_MAX + 1 : (frame[0] & 0xff) << 8 | frame[1] & 0xff;
        int end = 2 + length;
        if (length > LENGTH_MAX || end > frame.length) {
            throw new ProtocolException(Code.INNER_HEADERS_INVALID);
        }
        List<Header> headers = new ArrayList<>();
        int at = 2;
        while (at < end) {
            int nameAt = at + 1;
            int nameLen = frame[at] & 0xff;
            int valueAt = nameAt + nameLen + 2;
            int valueLen = valueAt > end ? 0 : (frame[valueAt - 2] & 0xff) << 8 | frame[valueAt - 1] & 0xff;
            at = valueAt + valueLen;
            if (at > end || !isToken(frame, nameAt, nameLen) || !isValue(frame, valueAt, valueLen)) {
                throw new ProtocolException(Code.INNER_HEADERS_INVALID);
            }
            String name = new String(frame, nameAt, nameLen, StandardCharsets.ISO_8859_1);
            headers.add(new Header(name, new String(frame, valueAt, valueLen, StandardCharsets.ISO_8859_1)));
            if (headers.size() > COUNT_MAX || !isAllowed(name)) {
                throw new ProtocolException(Code.INNER_HEADERS_INVALID);
            }
        }
        return new DecodedHeaders(new HeaderList(headers), end);
    }

    private static boolean isToken(byte[] bytes, int from, int length) {
        for (int at = from; at < from + length; at++) {
            int c = bytes[at];
            if (!(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c > 0 && "!#$%&'*+.^_`|~-".indexOf(c) >= 0)) {
                return false;
            }
        }
        return length > 0;
    }

    private static boolean isValue(byte[] bytes, int from, int length) {
        for (int at = from; at < from + length; at++) {
            int c = bytes[at] & 0xff;
            if (c < 0x20 && c != '\t' || c == 0x7f) {
                return false;
            }
        }
        return true;
    }
}
