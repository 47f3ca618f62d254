package dev.sealway.mle;

import dev.sealway.crypto.Bytes;
import dev.sealway.wire.UsageException;
import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** Content encryption algorithms (RFC 7518 section 5). */
public enum Enc {
    /** AES-128-GCM. */
    A128GCM("A128GCM", 16, 12, 16, null),
    /** AES-192-GCM. */
    A192GCM("A192GCM", 24, 12, 16, null),
    /** AES-256-GCM. */
    A256GCM("A256GCM", 32, 12, 16, null),
    /** AES-128-CBC with HMAC-SHA-256. */
    A128CBC_HS256("A128CBC-HS256", 32, 16, 16, "HmacSHA256"),
    /** AES-192-CBC with HMAC-SHA-384. */
    A192CBC_HS384("A192CBC-HS384", 48, 16, 24, "HmacSHA384"),
    /** AES-256-CBC with HMAC-SHA-512. */
    A256CBC_HS512("A256CBC-HS512", 64, 16, 32, "HmacSHA512");

    private final String text;
    final int cekLen;
    final int ivLen;
    final int tagLen;
    private final String mac;

    Enc(String text, int cekLen, int ivLen, int tagLen, String mac) {
        this.text = text;
        this.cekLen = cekLen;
        this.ivLen = ivLen;
        this.tagLen = tagLen;
        this.mac = mac;
    }

    /** Returns the registered name. */
    public String text() {
        return text;
    }

    /** Returns the algorithm of exactly this name.
     *
     * @throws UsageException for another name */
    public static Enc of(String name) {
        return named(values(), Enc::text, name);
    }

    static <T> T named(T[] all, Function<T, String> text, String name) {
        return Arrays.stream(all).filter(one -> text.apply(one).equals(name)).findFirst().orElseThrow(() -> new UsageException(
                MleException.quote(String.valueOf(name)) + " is unknown: give one of " + Arrays.stream(all).map(text).collect(Collectors.joining(", "))));
    }

    boolean isGcm() {
        return mac == null;
    }

    /** Verifies the tag and decrypts. All lengths were checked but that of the ciphertext.
     *
     * @throws GeneralSecurityException if the content does not open */
    byte[] open(byte[] cek, byte[] iv, byte[] aad, byte[] ciphertext, byte[] tag) throws GeneralSecurityException {
        if (isGcm()) {
            Cipher cipher = gcm(Cipher.DECRYPT_MODE, cek, iv, aad);
            cipher.update(ciphertext);
            return cipher.doFinal(tag);
        }
        // The MAC decides before any byte is decrypted, so that the padding is never an oracle (RFC 7518 section 5.2.2.2).
        if (!MessageDigest.isEqual(mac(cek, iv, aad, ciphertext), tag)) {
            throw new AEADBadTagException();
        }
        return cbc(Cipher.DECRYPT_MODE, cek, iv).doFinal(ciphertext);
    }

    /** Returns ciphertext and tag. */
    byte[][] seal(byte[] cek, byte[] iv, byte[] aad, byte[] plaintext) throws GeneralSecurityException {
        if (isGcm()) {
            byte[] sealed = gcm(Cipher.ENCRYPT_MODE, cek, iv, aad).doFinal(plaintext);
            int end = sealed.length - tagLen;
            return new byte[][] {Arrays.copyOf(sealed, end), Arrays.copyOfRange(sealed, end, sealed.length)};
        }
        byte[] ciphertext = cbc(Cipher.ENCRYPT_MODE, cek, iv).doFinal(plaintext);
        return new byte[][] {ciphertext, mac(cek, iv, aad, ciphertext)};
    }

    private Cipher gcm(int mode, byte[] cek, byte[] iv, byte[] aad) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(mode, new SecretKeySpec(cek, "AES"), new GCMParameterSpec(tagLen * 8, iv));
        cipher.updateAAD(aad);
        return cipher;
    }

    private Cipher cbc(int mode, byte[] cek, byte[] iv) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/CBC/PKCS5Padding");
        cipher.init(mode, new SecretKeySpec(cek, cekLen / 2, cekLen / 2, "AES"), new IvParameterSpec(iv));
        return cipher;
    }

    /** Returns the tag of RFC 7518 section 5.2.2.1: the first half of the MAC under the first half of the key. The last input is the length of the
     * additional data in bits. */
    private byte[] mac(byte[] cek, byte[] iv, byte[] aad, byte[] ciphertext) throws GeneralSecurityException {
        Mac keyed = Mac.getInstance(mac);
        keyed.init(new SecretKeySpec(cek, 0, cekLen / 2, mac));
        byte[] bits = ByteBuffer.allocate(Long.BYTES).putLong(aad.length * 8L).array();
        return Arrays.copyOf(keyed.doFinal(Bytes.join(aad, iv, ciphertext, bits)), tagLen);
    }
}
