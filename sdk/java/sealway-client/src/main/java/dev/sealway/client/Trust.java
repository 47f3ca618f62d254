package dev.sealway.client;

import dev.sealway.crypto.P256;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Options;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.StrictBase64;
import java.util.List;

/** Whose word a client of wire 3 takes for who the service is. {@code spec/session-3.md#identity-keys}. */
public sealed interface Trust {
    /** These identity keys alone.
     *
     * @param texts key ids (32 hexadecimal digits) or public keys (base64 of 65 bytes), up to 16
     */
    static Trust pins(List<String> texts) {
        if (Options.present(texts, "pins", Pins.FORM).isEmpty() || texts.size() > 16) {
            throw new IllegalArgumentException("pins has " + texts.size() + " entries: give 1 to 16 key ids or public keys");
        }
        for (String text : texts) {
            if (!Forms.isKeyId(Options.present(text, "one of pins", Pins.FORM))) {
                publicKey(text, "one of pins");
            }
        }
        return new Pins(List.copyOf(texts));
    }

    /** The keys that this root signs; {@code store} keeps when the newest set was issued, so that no older one is taken. */
    static Trust root(String publicKey, TrustStore store) {
        return new Root(publicKey(Options.present(publicKey, "root", "give its public key, 65 bytes in base64"), "root"), store(store));
    }

    /** What is met at first use. Who stands in between at the first use is not found out. */
    static Trust firstUse(TrustStore store) {
        return new FirstUse(store(store));
    }

    private static TrustStore store(TrustStore store) {
        return Options.present(store, "store", "TrustStore.inFile keeps what was met");
    }

    private static byte[] publicKey(String text, String name) {
        byte[] key = StrictBase64.decode(text);
        if (key == null || key.length != P256.PUBLIC_LEN) {
            throw new IllegalArgumentException(name + " is not what it should be: " + Pins.FORM);
        }
        try {
            P256.decode(key);
        } catch (SealwayException noPoint) {
            throw new IllegalArgumentException(name + " is no point of P-256: " + Pins.FORM, noPoint);
        }
        return key;
    }

    /** See {@link #pins}. */
    record Pins(List<String> texts) implements Trust {
        private static final String FORM = "give a key id (32 hexadecimal digits) or a public key (65 bytes in base64)";
    }

    /** See {@link #root}. */
    record Root(byte[] key, TrustStore store) implements Trust {
    }

    /** See {@link #firstUse}. */
    record FirstUse(TrustStore store) implements Trust {
    }
}
