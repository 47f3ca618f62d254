package dev.sealway.client;

import dev.sealway.crypto.P256;
import dev.sealway.wire.Forms;
import dev.sealway.wire.StrictBase64;
import java.util.List;

/** Whose word a client of wire 3 takes for who the service is. {@code spec/session-3.md#identity-keys}. */
public sealed interface Trust {
    /** These identity keys alone.
     *
     * @param texts key ids (32 hexadecimal digits) or public keys (base64 of 65 bytes), up to 16
     */
    static Trust pins(List<String> texts) {
        if (texts.isEmpty() || texts.size() > 16) {
            throw new IllegalArgumentException("pins: expected 1 to 16 key ids or public keys");
        }
        for (String text : texts) {
            if (!Forms.isKeyId(text)) {
                publicKey(text);
            }
        }
        return new Pins(List.copyOf(texts));
    }

    /** The keys that this root signs; {@code store} keeps when the newest set was issued, so that no older one is taken. */
    static Trust root(String publicKey, TrustStore store) {
        return new Root(publicKey(publicKey), store);
    }

    /** What is met at first use. Who stands in between at the first use is not found out. */
    static Trust firstUse(TrustStore store) {
        return new FirstUse(store);
    }

    private static byte[] publicKey(String text) {
        byte[] key = StrictBase64.decode(text);
        if (key == null || key.length != P256.PUBLIC_LEN) {
            throw new IllegalArgumentException("pins: expected 32 hexadecimal digits, or 65 bytes in base64");
        }
        P256.decode(key);
        return key;
    }

    /** See {@link #pins}. */
    record Pins(List<String> texts) implements Trust {
    }

    /** See {@link #root}. */
    record Root(byte[] key, TrustStore store) implements Trust {
    }

    /** See {@link #firstUse}. */
    record FirstUse(TrustStore store) implements Trust {
    }
}
