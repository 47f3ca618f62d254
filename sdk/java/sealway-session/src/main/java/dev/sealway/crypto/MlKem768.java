package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.RefusedException;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.spec.NamedParameterSpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;
import javax.crypto.KEM;

/** ML-KEM-768 (FIPS 203), keys and ciphertexts as their bytes. */
public final class MlKem768 {
    /** Bytes of an encapsulation key. */
    public static final int PUBLIC_LEN = 1184;
    /** Bytes of a ciphertext. */
    public static final int CIPHERTEXT_LEN = 1088;
    private static final int COEFFICIENTS_LEN = 1152;
    private static final int Q = 3329;
    private static final String NAME = "ML-KEM-768";
    private static final byte[] SPKI = HexFormat.of().parseHex("308204b2300b0609608648016503040402038204a100");

    /** A ciphertext and the secret within, 32 bytes; the caller wipes that. */
    public record Encapsulated(byte[] ciphertext, byte[] secret) {
        @Override
        public String toString() {
            return "Encapsulated(redacted)";
        }
    }

    private MlKem768() {
    }

    /** A new key pair. */
    public static KeyPair generate(SecureRandom random) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance(NAME);
            generator.initialize(NamedParameterSpec.ML_KEM_768, random);
            return generator.generateKeyPair();
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** The 1184 bytes of an encapsulation key. */
    public static byte[] encode(PublicKey key) {
        byte[] spki = key.getEncoded();
        return Arrays.copyOfRange(spki, spki.length - PUBLIC_LEN, spki.length);
    }

    /** Checks an encapsulation key as FIPS 203 section 7.2 asks: every coefficient is below q.
     *
     * @throws RefusedException {@code public_key_invalid}
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
            throw new RefusedException(Code.PUBLIC_KEY_INVALID);
        }
    }

    /** A fresh secret for the holder of an encapsulation key.
     *
     * @throws RefusedException {@code public_key_invalid}
     */
    public static Encapsulated encapsulate(byte[] publicKey, SecureRandom random) {
        check(publicKey);
        try {
            PublicKey key = KeyFactory.getInstance(NAME).generatePublic(new X509EncodedKeySpec(Bytes.join(SPKI, publicKey)));
            KEM.Encapsulated made = KEM.getInstance(NAME).newEncapsulator(key, random).encapsulate();
            return new Encapsulated(made.encapsulation(), made.key().getEncoded());
        } catch (GeneralSecurityException invalid) {
            throw new RefusedException(Code.PUBLIC_KEY_INVALID);
        }
    }

    /** The secret in a ciphertext. One that was tampered with gives another secret, not an error.
     *
     * @throws RefusedException {@code public_key_invalid} for another length
     */
    public static byte[] decapsulate(PrivateKey key, byte[] ciphertext) {
        try {
            return KEM.getInstance(NAME).newDecapsulator(key).decapsulate(ciphertext).getEncoded();
        } catch (GeneralSecurityException invalid) {
            throw new RefusedException(Code.PUBLIC_KEY_INVALID);
        }
    }
}
