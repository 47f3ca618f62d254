package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.StrictBase64;

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

    static boolean isClock(SecretBytes s2c, String nonce, String stamp, Problem problem) {
        Long time = problem.serverTimeMs();
        byte[] mac = base64(problem.text("mac"));
        return problem.code().equals("clock_skew") && time != null && mac != null
                && Hashes.equal(mac, clockMac(s2c, nonce, stamp, time));
    }

    private static byte[] base64(String text) {
        return text == null ? null : StrictBase64.decode(text);
    }
}
