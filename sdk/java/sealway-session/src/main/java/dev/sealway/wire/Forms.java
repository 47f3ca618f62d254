package dev.sealway.wire;

import java.util.HexFormat;
import java.util.function.IntPredicate;

/** The forms of identifiers, nonces and timestamps. {@code spec/session.md#encodings}. */
public final class Forms {
    /** Prefix of a kid. */
    public static final String KID_PREFIX = "session:";
    /** Prefix of an answer's nonce. */
    public static final String ANSWER_PREFIX = "r-";
    /** The latest time that a timestamp can hold, in milliseconds of the epoch. */
    public static final long TIME_MAX_MS = 999_999_999_999_999L;
    private static final int STAMP_DIGITS_MAX = 15;
    private static final int NONCE_MAX = 128;
    private static final int CLIENT_ID_MAX = 256;
    private static final int ID_DIGITS = 32;

    private Forms() {
    }

    /** A timestamp and a nonce, as sent. */
    public record StampAndNonce(String stamp, String nonce) {
    }

    /** A session id of 16 random bytes. */
    public static String sessionId(byte[] random, boolean isAnonymous) {
        return (isAnonymous ? "A-" : "S-") + HexFormat.of().formatHex(random);
    }

    /** Returns true if a text is a session id, {@code S-} or {@code A-}. */
    public static boolean isSessionId(String text) {
        return (text.startsWith("S-") || text.startsWith("A-")) && isHex(text, 2);
    }

    /** Returns true if a text is a key id, or any 32 lower-case hexadecimal digits. */
    public static boolean isKeyId(String text) {
        return isHex(text, 0);
    }

    private static boolean isHex(String text, int from) {
        if (text.length() != from + ID_DIGITS) {
            return false;
        }
        for (int at = from; at < text.length(); at++) {
            char c = text.charAt(at);
            if (!(c >= '0' && c <= '9' || c >= 'a' && c <= 'f')) {
                return false;
            }
        }
        return true;
    }

    /** Returns true if a text is a client id: 1 to 256 bytes of printable ASCII without the vertical bar. */
    public static boolean isClientId(String text) {
        return !text.isEmpty() && text.length() <= CLIENT_ID_MAX
                && isAll(text, c -> c >= 0x20 && c <= 0x7e && c != '|');
    }

    /** Returns true if a nonce has {@code least} to 128 characters of the nonces' alphabet. */
    public static boolean isNonce(String text, int least) {
        return text.length() >= least && text.length() <= NONCE_MAX && isAll(text, Forms::isWord);
    }

    /** A loop, not a stream: it is asked for several times of each message. */
    private static boolean isAll(String text, IntPredicate good) {
        for (int at = 0; at < text.length(); at++) {
            if (!good.test(text.charAt(at))) {
                return false;
            }
        }
        return true;
    }

    /** Returns true if a character is one of {@code A-Z a-z 0-9 _ -}. */
    public static boolean isWord(int c) {
        return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-';
    }

    /** Checks the nonce of a request.
     *
     * @throws ProtocolException {@code nonce_invalid}, {@code nonce_reserved}
     */
    public static void checkRequestNonce(String nonce, int least) {
        if (!isNonce(nonce, least)) {
            throw new ProtocolException(Code.NONCE_INVALID);
        }
        if (nonce.regionMatches(true, 0, ANSWER_PREFIX, 0, ANSWER_PREFIX.length())) {
            throw new ProtocolException(Code.NONCE_RESERVED);
        }
    }

    /** Checks the nonce of an answer.
     *
     * @throws ProtocolException {@code nonce_invalid}, {@code answer_mismatch}
     */
    public static void checkAnswerNonce(String nonce, int least) {
        if (!isNonce(nonce, least)) {
            throw new ProtocolException(Code.NONCE_INVALID);
        }
        if (!nonce.startsWith(ANSWER_PREFIX)) {
            throw new ProtocolException(Code.ANSWER_MISMATCH);
        }
    }

    /** Milliseconds of the epoch of a timestamp: 1 to 15 digits.
     *
     * @throws ProtocolException {@code timestamp_invalid}
     */
    public static long stampMs(String text) {
        if (text.isEmpty() || text.length() > STAMP_DIGITS_MAX || !isAll(text, c -> c >= '0' && c <= '9')) {
            throw new ProtocolException(Code.TIMESTAMP_INVALID);
        }
        return Long.parseLong(text);
    }

    /** The two parts of an X-Idempotency-Key.
     *
     * @throws ProtocolException {@code idempotency_key_shape}
     */
    public static StampAndNonce split(String key) {
        int dot = key.indexOf('.');
        if (dot <= 0 || dot == key.length() - 1 || key.indexOf('.', dot + 1) >= 0) {
            throw new ProtocolException(Code.IDEMPOTENCY_KEY_SHAPE);
        }
        return new StampAndNonce(key.substring(0, dot), key.substring(dot + 1));
    }

    /** The session id of a kid; null where what follows the prefix is none.
     *
     * @throws ProtocolException {@code kid_prefix}
     */
    public static String idOfKid(String kid) {
        if (!kid.startsWith(KID_PREFIX)) {
            throw new ProtocolException(Code.KID_PREFIX);
        }
        String id = kid.substring(KID_PREFIX.length());
        return isSessionId(id) ? id : null;
    }
}
