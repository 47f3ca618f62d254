package dev.sealway.crypto;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;

/** SHA-256, HMAC-SHA256 and HKDF-SHA256. */
public final class Hashes {
    /** Cloned, as looking for it by name takes longer than a short hash. */
    private static final MessageDigest SHA256 = platformSha256();

    private Hashes() {
    }

    static MessageDigest newSha256() {
        try {
            return (MessageDigest) SHA256.clone();
        } catch (CloneNotSupportedException impossible) {
            throw new IllegalStateException("the platform's SHA-256 cannot be cloned", impossible);
        }
    }

    private static MessageDigest platformSha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** SHA-256 of the parts, one after the other. */
    public static byte[] sha256(byte[]... parts) {
        MessageDigest digest = newSha256();
        for (byte[] part : parts) {
            digest.update(part);
        }
        return digest.digest();
    }

    /** HMAC-SHA256. */
    public static byte[] hmac(SecretBytes key, byte[]... parts) {
        return key.hmac().mac(parts);
    }

    /** HKDF-Extract. */
    public static SecretBytes extract(byte[] salt, byte[] ikm) {
        HmacState keyed = new HmacState(salt);
        try {
            return SecretBytes.owning(keyed.mac(ikm));
        } finally {
            keyed.wipe();
        }
    }

    /** HKDF-Expand to {@code length} bytes, at most 255 * 32. */
    public static byte[] expand(SecretBytes prk, byte[] info, int length) {
        // Its own, as the platform has a KDF from 25 on, which hashes the key anew each time: a session's keys are expanded for each of its
        // messages.
        HmacState hmac = prk.hmac();
        byte[] out = new byte[length];
        byte[] block = {};
        for (int at = 0, count = 1; at < length; at += HmacState.LEN, count++) {
            byte[] next = hmac.mac(block, info, new byte[] {(byte) count});
            Arrays.fill(block, (byte) 0);
            block = next;
            System.arraycopy(block, 0, out, at, Math.min(HmacState.LEN, length - at));
        }
        Arrays.fill(block, (byte) 0);
        return out;
    }

    /** HKDF-Expand to 32 bytes, of a label of ASCII. */
    public static SecretBytes expand(SecretBytes prk, String label) {
        return SecretBytes.owning(expand(prk, label.getBytes(StandardCharsets.US_ASCII), 32));
    }

    /** The same, kept with its parent and wiped with it: not the caller's to wipe. */
    public static SecretBytes kept(SecretBytes prk, String label) {
        return prk.kept(label);
    }

    /** HKDF, both steps, to 32 bytes. */
    public static SecretBytes derive(byte[] ikm, byte[] salt, byte[] info) {
        try (SecretBytes prk = extract(salt, ikm)) {
            return SecretBytes.owning(expand(prk, info, 32));
        }
    }

    /** Compares in constant time. */
    public static boolean equal(byte[] one, byte[] other) {
        return MessageDigest.isEqual(one, other);
    }
}
