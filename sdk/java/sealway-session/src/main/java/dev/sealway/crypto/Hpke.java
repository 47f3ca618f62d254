package dev.sealway.crypto;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The key schedule of HPKE (RFC 9180 section 5.1) with HKDF-SHA256 and AES-256-GCM, in the modes base and psk. Its context is used for exports
 * alone: nothing is sealed with it. */
public final class Hpke {
    private static final byte[] NOTHING = {};
    private static final byte[] VERSION = ascii("HPKE-v1");
    private static final byte[] KDF_AND_AEAD = {0, 1, 0, 2};
    private static final int SECRET_LEN = 32;

    private Hpke() {
    }

    /** Pre-shared key of the mode psk.
     *
     * @param id its public name
     * @param key which stays the caller's to wipe */
    public record Psk(byte[] id, SecretBytes key) {
        @Override
        public String toString() {
            return "Psk(redacted)";
        }
    }

    /** A context, reduced to its exporter secret. */
    public static final class Exporter implements AutoCloseable {
        private final byte[] suite;
        private final SecretBytes secret;

        private Exporter(byte[] suite, SecretBytes secret) {
            this.suite = suite;
            this.secret = secret;
        }

        /** Exports 32 bytes. The caller wipes them.
         *
         * @param context ASCII */
        public SecretBytes export(String context) {
            return SecretBytes.owning(expand(suite, secret, "sec", ascii(context)));
        }

        /** Wipes the exporter secret. */
        @Override
        public void close() {
            secret.destroy();
        }

        @Override
        public String toString() {
            return "Exporter(redacted)";
        }
    }

    /** Sets up a context, the same for both sides.
     *
     * @param shared secret of the KEM, which is wiped
     * @param psk of the mode psk; null in the mode base */
    public static Exporter setup(Kem kem, byte[] shared, byte[] info, Psk psk) {
        byte[] suite = Bytes.join(ascii("HPKE"), number(kem.id()), KDF_AND_AEAD);
        byte[] key = psk == null ? NOTHING : psk.key().copy();
        byte[] mode = {(byte) (psk == null ? 0 : 1)};
        try (SecretBytes idHash = extract(suite, NOTHING, "psk_id_hash", psk == null ? NOTHING : psk.id());
                SecretBytes infoHash = extract(suite, NOTHING, "info_hash", info);
                SecretBytes secret = extract(suite, shared, "secret", key)) {
            byte[] context = Bytes.join(mode, idHash.raw(), infoHash.raw());
            return new Exporter(suite, SecretBytes.owning(expand(suite, secret, "exp", context)));
        } finally {
            Arrays.fill(key, (byte) 0);
            Arrays.fill(shared, (byte) 0);
        }
    }

    /** Derives the shared secret of a DHKEM (RFC 9180 section 4.1), the same for both sides.
     *
     * @param agreed secret of the group */
    public static byte[] dhSecret(Kem kem, byte[] agreed, byte[] enc, byte[] publicKey) {
        byte[] suite = Bytes.join(ascii("KEM"), number(kem.id()));
        try (SecretBytes prk = extract(suite, NOTHING, "eae_prk", agreed)) {
            return expand(suite, prk, "shared_secret", Bytes.join(enc, publicKey));
        }
    }

    private static SecretBytes extract(byte[] suite, byte[] salt, String label, byte[] ikm) {
        byte[] labelled = Bytes.join(VERSION, suite, ascii(label), ikm);
        try {
            return Hashes.extract(salt, labelled);
        } finally {
            Arrays.fill(labelled, (byte) 0);
        }
    }

    private static byte[] expand(byte[] suite, SecretBytes prk, String label, byte[] info) {
        return Hashes.expand(prk, Bytes.join(number(SECRET_LEN), VERSION, suite, ascii(label), info), SECRET_LEN);
    }

    private static byte[] number(int value) {
        return new byte[] {(byte) (value >> 8), (byte) value};
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
