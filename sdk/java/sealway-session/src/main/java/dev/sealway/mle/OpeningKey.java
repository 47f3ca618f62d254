package dev.sealway.mle;

import dev.sealway.crypto.Hashes;
import dev.sealway.wire.Options;
import dev.sealway.wire.UsageException;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.security.interfaces.RSAPrivateCrtKey;
import javax.crypto.Cipher;

/** A key that opens tokens: RSA of 2048 to 8192 bits, with one algorithm. */
public final class OpeningKey {
    private final RSAPrivateCrtKey key;
    private final Alg alg;
    private final String kid;
    private final byte[] certificateHash;

    private OpeningKey(RSAPrivateCrtKey key, Alg alg, KeyName name, KeyMaterial half) {
        this.key = key;
        this.alg = Options.present(alg, "alg", "RSA_OAEP_256 is what the schemes use");
        this.kid = Options.present(name, "name", "KeyName has the derivations of the schemes").of(half);
        this.certificateHash = half.certificate() == null ? null : Hashes.sha256(half.certified());
    }

    /** Loads a private key.
     *
     * @param privateKey PKCS#8 or PKCS#1, in PEM or DER
     * @throws UsageException for a key that cannot be used */
    public static OpeningKey of(byte[] privateKey, Alg alg, KeyName name) {
        RSAPrivateCrtKey key = KeyMaterial.readPrivate(privateKey);
        return new OpeningKey(key, alg, name, KeyMaterial.of(key));
    }

    /** Loads a private key with its certificate, for names that derive from one and for tokens with {@code x5t#S256}.
     *
     * @param privateKey PKCS#8 or PKCS#1, in PEM or DER
     * @param certificate in PEM or DER
     * @throws UsageException for a key or a certificate that cannot be used, or that do not belong together */
    public static OpeningKey of(byte[] privateKey, byte[] certificate, Alg alg, KeyName name) {
        RSAPrivateCrtKey key = KeyMaterial.readPrivate(privateKey);
        KeyMaterial half = KeyMaterial.readPublic(certificate);
        if (!half.key().getModulus().equals(key.getModulus()) || !half.key().getPublicExponent().equals(key.getPublicExponent())) {
            throw new UsageException("the certificate is not that of the private key");
        }
        return new OpeningKey(key, alg, name, half);
    }

    /** Returns the name of the key. */
    public String kid() {
        return kid;
    }

    /** Returns the one algorithm of the key. */
    public Alg alg() {
        return alg;
    }

    byte[] certificateHash() {
        return certificateHash;
    }

    int modulusLen() {
        return (key.getModulus().bitLength() + 7) / 8;
    }

    /** Performs the private operation; empty if the encrypted key does not decrypt. */
    byte[] unwrap(byte[] encrypted, SecureRandom random) {
        try {
            return alg.run(Cipher.DECRYPT_MODE, key, encrypted, random);
        } catch (GeneralSecurityException wrong) {
            return new byte[0];
        }
    }

    @Override
    public String toString() {
        return "OpeningKey[" + kid + ", " + alg.text() + "]";
    }
}
