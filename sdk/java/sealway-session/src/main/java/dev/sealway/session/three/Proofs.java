package dev.sealway.session.three;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.P256;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.StrictBase64;
import java.nio.charset.StandardCharsets;
import java.util.function.Function;

/** The proofs that problems carry. {@code spec/session-3.md#problems}. */
public final class Proofs {
    private Proofs() {
    }

    static byte[] clockMac(SecretBytes s2c, String nonce, String stamp, long serverTimeMs) {
        try (SecretBytes key = Hashes.expand(s2c, "sealway/3 clock")) {
            return Hashes.hmac(key, new Fields().add(nonce).add(stamp).number(serverTimeMs).bytes());
        }
    }

    /** The {@code mac} of a {@code clock_skew}, for the refused request's nonce and timestamp. */
    public static byte[] clockMac(SessionRecord session, String nonce, String stamp, long serverTimeMs) {
        try (SecretBytes s2c = Hashes.expand(session.key(), "sealway/3 s2c")) {
            return clockMac(s2c, nonce, stamp, serverTimeMs);
        }
    }

    /** What the identity key signs in a {@code session_expired}. */
    public static byte[] expiredMessage(String sessionId, String nonce, String stamp, long serverTimeMs) {
        byte[] fields = new Fields().add(sessionId).add(nonce).add(stamp).number(serverTimeMs).bytes();
        return Bytes.join("sealway/3 expired".getBytes(StandardCharsets.US_ASCII), Hashes.sha256(fields));
    }

    static boolean isClock(SecretBytes s2c, String nonce, String stamp, Problem problem) {
        Long time = problem.serverTimeMs();
        byte[] mac = base64(problem.text("mac"));
        return problem.code().equals("clock_skew") && time != null && mac != null
                && Hashes.equal(mac, clockMac(s2c, nonce, stamp, time));
    }

    static boolean isExpiry(String sessionId, String nonce, String stamp, Problem problem, Function<String, byte[]> trusted) {
        Long time = problem.serverTimeMs();
        byte[] signature = base64(problem.text("signature"));
        String keyId = problem.text("key_id");
        if (!problem.code().equals("session_expired") || time == null || signature == null || keyId == null) {
            return false;
        }
        byte[] key = trusted.apply(keyId);
        return key != null && P256.verifies(key, expiredMessage(sessionId, nonce, stamp, time), signature);
    }

    private static byte[] base64(String text) {
        return text == null ? null : StrictBase64.decode(text);
    }
}
