package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.security.KeyPair;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.util.Arrays;

/** ML-KEM-768 (FIPS 203), keys and ciphertexts as their bytes: by the JDK where it has it, from 24 on, else by Bouncy Castle. */
public final class MlKem768 {
    /** Bytes of an encapsulation key. */
    public static final int PUBLIC_LEN = 1184;
    /** Bytes of a ciphertext. */
    public static final int CIPHERTEXT_LEN = 1088;
    private static final int COEFFICIENTS_LEN = 1152;
    private static final int Q = 3329;
    private static volatile Kem kem = chosen(false);

    /** The implementation. It checks the keys that it gets. */
    interface Kem {
        KeyPair generate(SecureRandom random);

        Encapsulation encapsulate(byte[] publicKey, SecureRandom random);

        byte[] decapsulate(PrivateKey key, byte[] ciphertext);

        /** Of a decapsulation key of 2400 bytes. */
        KeyPair expanded(byte[] key);
    }

    /** A ciphertext and the secret within, 32 bytes; the caller wipes that. */
    public record Encapsulation(byte[] ciphertext, byte[] secret) {
        @Override
        public String toString() {
            return "Encapsulation(redacted)";
        }
    }

    private MlKem768() {
    }

    private static Kem chosen(boolean isPlatformHidden) {
        return !isPlatformHidden && PlatformMlKem.isThere() ? new PlatformMlKem() : new LibraryMlKem();
    }

    /** For tests: as on a JDK without ML-KEM, or as it is. */
    static void hidePlatform(boolean isHidden) {
        kem = chosen(isHidden);
    }

    /** A new key pair. */
    public static KeyPair generate(SecureRandom random) {
        return kem.generate(random);
    }

    /** The key pair of an expanded decapsulation key, 2400 bytes: for vectors and tests. */
    public static KeyPair expanded(byte[] key) {
        return kem.expanded(key);
    }

    /** The 1184 bytes of an encapsulation key. */
    public static byte[] encode(PublicKey key) {
        byte[] spki = key.getEncoded();
        return Arrays.copyOfRange(spki, spki.length - PUBLIC_LEN, spki.length);
    }

    /** Checks an encapsulation key as FIPS 203 section 7.2 asks: every coefficient is below q.
     *
     * @throws ProtocolException {@code public_key_invalid}
     */
    public static void check(byte[] key) {
        boolean isValid = key.length == PUBLIC_LEN;
        for (int at = 0; isValid && at < COEFFICIENTS_LEN; at += 3) {
            int a = key[at] & 0xff;
            int b = key[at + 1] & 0xff;
            int c = key[at + 2] & 0xff;
            isValid = a + 256 * (b % 16) < Q && b / 16 + 16 * c < Q;
        }
        if (!isValid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }

    /** A fresh secret for the holder of an encapsulation key.
     *
     * @throws ProtocolException {@code public_key_invalid}
     */
    public static Encapsulation encapsulate(byte[] publicKey, SecureRandom random) {
        check(publicKey);
        return kem.encapsulate(publicKey, random);
    }

    /** The secret in a ciphertext. One that was tampered with gives another secret, not an error.
     *
     * @throws ProtocolException {@code public_key_invalid} for another length
     */
    public static byte[] decapsulate(PrivateKey key, byte[] ciphertext) {
        if (ciphertext.length != CIPHERTEXT_LEN) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        return kem.decapsulate(key, ciphertext);
    }
}
