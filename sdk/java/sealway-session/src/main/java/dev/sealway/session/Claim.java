package dev.sealway.session;

import dev.sealway.crypto.Hashes;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;

/** A nonce in its scope, which a store grants once. {@code spec/session.md#nonces}.
 *
 * @param key 32 hexadecimal digits
 * @param isSealed true if a tag verified
 * @param stampMs timestamp of the message
 * @param windowMs window of the reader
 * @param expiresMs earliest time at which a store may forget it; an authority uses its own
 */
public record Claim(String key, boolean isSealed, long stampMs, long windowMs, long expiresMs) {
    private static final int KEY_LEN = 16;

    /** Scopes within which a nonce is unique. */
    public enum Scope {
        /** Inits of wire 2: the client id. */
        CLIENT(1),
        /** Inits of wire 1: all together. */
        WIRE_1_INIT(2),
        /** Sealed calls: the session id. */
        SESSION(3);

        private final int tag;

        Scope(int tag) {
            this.tag = tag;
        }
    }

    /** Returns the claim of a message that is read at {@code nowMs}. */
    public static Claim of(Scope scope, String name, String nonce, long stampMs, long nowMs, ReplayPolicy policy) {
        byte[] id = name.getBytes(StandardCharsets.US_ASCII);
        byte[] head = {(byte) scope.tag, (byte) (id.length >> 8), (byte) id.length};
        byte[] hash = Hashes.sha256(head, id, nonce.getBytes(StandardCharsets.US_ASCII));
        String key = HexFormat.of().formatHex(Arrays.copyOf(hash, KEY_LEN));
        return new Claim(key, scope == Scope.SESSION, stampMs, policy.windowMs(), nowMs + 2 * policy.windowMs() + 1);
    }
}
