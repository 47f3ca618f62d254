package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.security.KeyPair;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HexFormat;

/** ML-KEM (FIPS 203), keys and ciphertexts as their bytes: by the JDK where it has it, from 24 on, else by Bouncy Castle. */
public enum MlKem {
    /** ML-KEM-768. */
    ML_KEM_768("ML-KEM-768", 3, 1088, "308204b2300b0609608648016503040402038204a100",
            "30820978020100300b06096086480165030404020482096404820960"),
    /** ML-KEM-1024. */
    ML_KEM_1024("ML-KEM-1024", 4, 1568, "30820632300b06096086480165030404030382062100",
            "30820c78020100300b060960864801650304040304820c6404820c60");

    private static final int Q = 3329;
    private static volatile Kem kem = chosen(false);
    private final String text;
    private final int coefficientsLen;
    private final int ciphertextLen;
    private final byte[] spki;
    private final byte[] pkcs8;

    /** @param rank number of polynomials in a vector
     * @param spki what is in front of an encapsulation key in its SPKI
     * @param pkcs8 what is in front of an expanded decapsulation key in its PKCS #8 */
    MlKem(String text, int rank, int ciphertextLen, String spki, String pkcs8) {
        this.text = text;
        this.coefficientsLen = 384 * rank;
        this.ciphertextLen = ciphertextLen;
        this.spki = HexFormat.of().parseHex(spki);
        this.pkcs8 = HexFormat.of().parseHex(pkcs8);
    }

    /** The implementation. It checks the keys that it gets. */
    interface Kem {
        KeyPair generate(MlKem set, SecureRandom random);

        Encapsulation encapsulate(MlKem set, byte[] publicKey, SecureRandom random);

        byte[] decapsulate(MlKem set, PrivateKey key, byte[] ciphertext);

        /** Of an expanded decapsulation key. */
        KeyPair expanded(MlKem set, byte[] key);
    }

    /** Returns its name, such as {@code ML-KEM-768}. */
    public String text() {
        return text;
    }

    /** Returns the length of an encapsulation key, in bytes. */
    public int publicLen() {
        return coefficientsLen + 32;
    }

    /** Returns the length of a ciphertext, in bytes. */
    public int ciphertextLen() {
        return ciphertextLen;
    }

    byte[] spki(byte[] key) {
        return Bytes.join(spki, key);
    }

    byte[] pkcs8(byte[] expanded) {
        return Bytes.join(pkcs8, expanded);
    }

    /** Returns the encapsulation key within an expanded decapsulation key. */
    byte[] publicOf(byte[] expanded) {
        return Arrays.copyOfRange(expanded, coefficientsLen, coefficientsLen + publicLen());
    }

    /** A ciphertext and the secret within, 32 bytes; the caller wipes that. */
    public record Encapsulation(byte[] ciphertext, byte[] secret) {
        @Override
        public String toString() {
            return "Encapsulation(redacted)";
        }
    }

    private static Kem chosen(boolean isPlatformHidden) {
        return !isPlatformHidden && PlatformMlKem.isThere() ? new PlatformMlKem() : new LibraryMlKem();
    }

    /** For tests: as on a JDK without ML-KEM, or as it is. */
    static void hidePlatform(boolean isHidden) {
        kem = chosen(isHidden);
    }

    /** A new key pair. */
    public KeyPair generate(SecureRandom random) {
        return kem.generate(this, random);
    }

    /** The key pair of an expanded decapsulation key, 2400 or 3168 bytes: for vectors and tests. */
    public KeyPair expanded(byte[] key) {
        return kem.expanded(this, key);
    }

    /** The bytes of an encapsulation key. */
    public byte[] encode(PublicKey key) {
        byte[] spki = key.getEncoded();
        return Arrays.copyOfRange(spki, spki.length - publicLen(), spki.length);
    }

    /** Checks an encapsulation key as FIPS 203 section 7.2 asks: every coefficient is below q.
     *
     * @throws ProtocolException {@code public_key_invalid}
     */
    public void check(byte[] key) {
        boolean isValid = key.length == publicLen();
        for (int at = 0; isValid && at < coefficientsLen; at += 3) {
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
    public Encapsulation encapsulate(byte[] publicKey, SecureRandom random) {
        check(publicKey);
        return kem.encapsulate(this, publicKey, random);
    }

    /** The secret in a ciphertext. One that was tampered with gives another secret, not an error.
     *
     * @throws ProtocolException {@code public_key_invalid} for another length
     */
    public byte[] decapsulate(PrivateKey key, byte[] ciphertext) {
        if (ciphertext.length != ciphertextLen) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        return kem.decapsulate(this, key, ciphertext);
    }
}
