package dev.sealway.mle;

import dev.sealway.mle.MleException.Reason;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;

/** The compact form of a token, and its place in a body. {@code spec/mle.md#compact-form}. */
final class Compact {
    private Compact() {
    }

    /** Splits a token at its dots. The parts are not decoded. */
    static byte[][] split(byte[] token) {
        int[] ends = new int[5];
        int dots = 0;
        // Counted first: a token of a million dots costs one pass and no memory.
        for (int at = 0; at < token.length; at++) {
            if (token[at] == '.') {
                if (dots < 4) {
                    ends[dots] = at;
                }
                dots++;
            }
        }
        if (dots != 4) {
            throw new MleException(Reason.SHAPE, "the token has not five parts");
        }
        ends[4] = token.length;
        byte[][] parts = new byte[5][];
        for (int part = 0, from = 0; part < 5; from = ends[part] + 1, part++) {
            parts[part] = Arrays.copyOfRange(token, from, ends[part]);
        }
        return parts;
    }

    /** Decodes canonical base64url without padding.
     *
     * @param isMixed true if {@code +} and {@code /} are read as {@code -} and {@code _}
     * @return null for any other spelling */
    static byte[] decode(byte[] part, boolean isMixed) {
        byte[] standard = new byte[(part.length + 3) / 4 * 4];
        for (int at = 0; at < part.length; at++) {
            byte c = part[at];
            if (!isMixed && (c == '+' || c == '/') || c == '=') {
                return null;
            }
            standard[at] = c == '-' ? (byte) '+' : c == '_' ? (byte) '/' : c;
        }
        for (int at = part.length; at < standard.length; at++) {
            standard[at] = '=';
        }
        return StrictBase64.decode(standard);
    }

    static byte[] part(byte[] part, Profile profile) {
        byte[] data = decode(part, profile.hasMixedLetters());
        if (data == null) {
            throw new MleException(Reason.BASE64, "a part of the token is not canonical base64url without padding");
        }
        return data;
    }

    static String encode(byte[] data) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(data);
    }

    /** Returns the token of a body. Another member beside it is not protected, so there must be none. {@code spec/mle.md#bodies}. */
    static byte[] unwrap(byte[] body, String member) {
        if (member == null) {
            return body;
        }
        try {
            Map.Entry<String, String> sole = Json.soleText(body);
            if (sole.getKey().equals(member)) {
                // What is not ASCII is not of the alphabet either.
                return sole.getValue().getBytes(StandardCharsets.UTF_8);
            }
            throw new MleException(Reason.JSON, "the sole member of the body is not " + MleException.quote(member));
        } catch (ProtocolException malformed) {
            throw new MleException(Reason.JSON, "the body is not an object with the token, a string, as its sole member");
        }
    }

    /** Returns the body with a token, which needs no escape. */
    static byte[] wrap(String token, String member) {
        return (member == null ? token : "{" + Json.write(member) + ":\"" + token + "\"}").getBytes(StandardCharsets.UTF_8);
    }
}
