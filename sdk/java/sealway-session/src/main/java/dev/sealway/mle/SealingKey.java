package dev.sealway.mle;

import dev.sealway.wire.Options;
import java.security.cert.X509Certificate;
import java.security.interfaces.RSAPublicKey;
import java.util.Comparator;
import java.util.List;

/** A key that seals tokens to one recipient, with one pair of algorithms. */
public final class SealingKey {
    private final KeyMaterial material;
    private final Alg alg;
    private final Enc enc;
    private final String kid;

    private SealingKey(KeyMaterial material, Alg alg, Enc enc, KeyName name) {
        this.material = material;
        this.alg = Options.present(alg, "alg", "RSA_OAEP_256 is what the schemes use");
        this.enc = Options.present(enc, "enc", "A256GCM is in every profile");
        this.kid = Options.present(name, "name", "KeyName has the derivations of the schemes").of(material);
    }

    /** Loads the recipient's certificate or public key.
     *
     * @param recipient a certificate or a SubjectPublicKeyInfo, in PEM or DER
     * @throws dev.sealway.wire.UsageException for a key that cannot be used */
    public static SealingKey of(byte[] recipient, Alg alg, Enc enc, KeyName name) {
        return new SealingKey(KeyMaterial.readPublic(recipient), alg, enc, name);
    }

    /** Returns the key whose certificate began last among those that are valid now, or null. A public key without a certificate is always valid,
     * and older than all certificates.
     *
     * @param nowMs milliseconds of the epoch */
    public static SealingKey newest(List<SealingKey> keys, long nowMs) {
        return keys.stream().filter(key -> key.beginsMs() <= nowMs && nowMs <= key.endsMs()).max(Comparator.comparingLong(SealingKey::beginsMs)).orElse(null);
    }

    private long beginsMs() {
        X509Certificate certificate = material.certificate();
        return certificate == null ? Long.MIN_VALUE : certificate.getNotBefore().getTime();
    }

    private long endsMs() {
        X509Certificate certificate = material.certificate();
        // The last second is whole.
        return certificate == null ? Long.MAX_VALUE : certificate.getNotAfter().getTime() + 999;
    }

    /** Returns the recipient's name of the key. */
    public String kid() {
        return kid;
    }

    /** Returns the algorithm of the encrypted key. */
    public Alg alg() {
        return alg;
    }

    /** Returns the algorithm of the content. */
    public Enc enc() {
        return enc;
    }

    RSAPublicKey key() {
        return material.key();
    }

    @Override
    public String toString() {
        return "SealingKey[" + kid + ", " + alg.text() + ", " + enc.text() + "]";
    }
}
