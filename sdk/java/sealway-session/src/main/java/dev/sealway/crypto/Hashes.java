package dev.sealway.crypto;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import javax.crypto.KDF;
import javax.crypto.Mac;
import javax.crypto.spec.HKDFParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** SHA-256, HMAC-SHA256 and HKDF-SHA256. */
public final class Hashes {
    private Hashes() {
    }

    /** SHA-256 of the parts, one after the other. */
    public static byte[] sha256(byte[]... parts) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (byte[] part : parts) {
                digest.update(part);
            }
            return digest.digest();
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** HMAC-SHA256. */
    public static byte[] hmac(SecretBytes key, byte[]... parts) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(key);
            for (byte[] part : parts) {
                mac.update(part);
            }
            return mac.doFinal();
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** HKDF-Extract. */
    public static SecretBytes extract(byte[] salt, byte[] ikm) {
        try {
            return SecretBytes.owning(KDF.getInstance("HKDF-SHA256")
                    .deriveData(HKDFParameterSpec.ofExtract().addIKM(ikm).addSalt(salt).extractOnly()));
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** HKDF-Expand to {@code length} bytes, at most 255 * 32. */
    public static byte[] expand(SecretBytes prk, byte[] info, int length) {
        try {
            return KDF.getInstance("HKDF-SHA256").deriveData(HKDFParameterSpec.expandOnly(prk, info, length));
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** HKDF-Expand to 32 bytes, of a label of ASCII. */
    public static SecretBytes expand(SecretBytes prk, String label) {
        return SecretBytes.owning(expand(prk, label.getBytes(StandardCharsets.US_ASCII), 32));
    }

    /** HKDF, both steps, to 32 bytes. */
    public static SecretBytes derive(byte[] ikm, byte[] salt, byte[] info) {
        try {
            return SecretBytes.owning(KDF.getInstance("HKDF-SHA256").deriveData(HKDFParameterSpec.ofExtract()
                    .addIKM(new SecretKeySpec(ikm, "Generic")).addSalt(salt).thenExpand(info, 32)));
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** Compares in constant time. */
    public static boolean equal(byte[] one, byte[] other) {
        return MessageDigest.isEqual(one, other);
    }
}
