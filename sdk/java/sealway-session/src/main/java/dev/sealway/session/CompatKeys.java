package dev.sealway.session;

import dev.sealway.crypto.Curve;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.wire.Wire;
import java.nio.charset.StandardCharsets;
import java.security.PrivateKey;
import java.util.Arrays;

/** The one key of a session of wires 1 and 2. {@code spec/session.md#keys}. */
final class CompatKeys {
    private CompatKeys() {
    }

    static SecretBytes agree(PrivateKey mine, byte[] peer, String sessionId, Wire wire, boolean isAnonymous, String clientId) {
        String tail = wire == Wire.ONE ? (isAnonymous ? "ANON" : "AUTH") : clientId;
        byte[] shared = Curve.P256.agree(mine, peer);
        try {
            return Hashes.derive(shared, sessionId.getBytes(StandardCharsets.US_ASCII),
                    ("SESSION|A256GCM|" + tail).getBytes(StandardCharsets.US_ASCII));
        } finally {
            Arrays.fill(shared, (byte) 0);
        }
    }
}
