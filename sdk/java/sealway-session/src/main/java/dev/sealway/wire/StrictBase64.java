package dev.sealway.wire;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

/** The one base64 of the wires: standard alphabet, padded, unused bits zero. {@code spec/session.md#encodings}. */
public final class StrictBase64 {
    private StrictBase64() {
    }

    /** Encodes. */
    public static String encode(byte[] data) {
        return Base64.getEncoder().encodeToString(data);
    }

    /** Decodes; null for any other spelling. */
    public static byte[] decode(String text) {
        return text.chars().anyMatch(c -> c > 0x7f) ? null : decode(text.getBytes(StandardCharsets.ISO_8859_1));
    }

    /** Decodes; null for any other spelling. */
    public static byte[] decode(byte[] text) {
        if (text.length % 4 != 0) {
            return null;
        }
        try {
            byte[] data = Base64.getDecoder().decode(text);
            // The platform's decoder takes unused bits that are set: one message would have many spellings.
            int from = Math.max(0, text.length - 4);
            byte[] last = Base64.getEncoder().encode(Arrays.copyOfRange(data, from / 4 * 3, data.length));
            return Arrays.equals(last, 0, last.length, text, from, text.length) ? data : null;
        } catch (IllegalArgumentException malformed) {
            return null;
        }
    }
}
