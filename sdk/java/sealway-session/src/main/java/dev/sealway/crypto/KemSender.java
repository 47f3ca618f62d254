package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.util.Arrays;
import java.util.function.Function;

/** Random inputs of one encapsulation, used once. {@code spec/one-shot.md#keys}. */
public final class KemSender {
    private final Kem kem;
    private final KeyPair ephemeral;
    private final Function<byte[], MlKem.Encapsulation> encapsulate;

    /** Takes given inputs, for vectors.
     *
     * @param ephemeral key pair of the KEM's group
     * @param encapsulate for an ML-KEM-768 key; null if the KEM has none */
    public KemSender(Kem kem, KeyPair ephemeral, Function<byte[], MlKem.Encapsulation> encapsulate) {
        this.kem = kem;
        this.ephemeral = ephemeral;
        this.encapsulate = encapsulate;
    }

    /** Draws new inputs. */
    public static KemSender generate(Kem kem, SecureRandom random) {
        return new KemSender(kem, kem.isX25519() ? X25519.generate(random) : Curve.P256.generate(random), key -> MlKem.ML_KEM_768.encapsulate(key, random));
    }

    /** An encapsulation and its shared secret, 32 bytes, which the caller wipes. */
    public record Encapsulated(byte[] enc, byte[] secret) {
        @Override
        public String toString() {
            return "Encapsulated(redacted)";
        }
    }

    /** Returns the KEM. */
    public Kem kem() {
        return kem;
    }

    /** Encapsulates a secret for the holder of a public key.
     *
     * @throws ProtocolException {@code public_key_invalid} for a key of another length, a point that is not on the curve, a secret of zeros,
     *     and an encapsulation key that fails the check of FIPS 203 section 7.2 */
    public Encapsulated encapsulate(byte[] publicKey) {
        check(kem, publicKey);
        int at = publicKey.length - kem.groupLen();
        byte[] peer = Arrays.copyOfRange(publicKey, at, publicKey.length);
        byte[] mine = kem.isX25519() ? X25519.encode(ephemeral.getPublic()) : Curve.P256.encode((ECPublicKey) ephemeral.getPublic());
        byte[] agreed = kem.isX25519() ? X25519.agree(ephemeral.getPrivate(), peer) : Curve.P256.agree(ephemeral.getPrivate(), peer);
        try {
            if (!kem.isHybrid()) {
                return new Encapsulated(mine, Hpke.dhSecret(kem, agreed, mine, peer));
            }
            MlKem.Encapsulation made = encapsulate.apply(Arrays.copyOf(publicKey, at));
            try {
                return new Encapsulated(Bytes.join(made.ciphertext(), mine), sha3(made.secret(), agreed, mine, peer, kem.label()));
            } finally {
                Arrays.fill(made.secret(), (byte) 0);
            }
        } finally {
            Arrays.fill(agreed, (byte) 0);
        }
    }

    /** Checks a public key as RFC 9180 section 7.1 and FIPS 203 section 7.2 ask, short of the agreement itself.
     *
     * @throws ProtocolException {@code public_key_invalid} */
    public static void check(Kem kem, byte[] publicKey) {
        if (publicKey.length != kem.publicLen()) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        int at = publicKey.length - kem.groupLen();
        if (kem.isHybrid()) {
            MlKem.ML_KEM_768.check(Arrays.copyOf(publicKey, at));
        }
        if (!kem.isX25519()) {
            Curve.P256.decode(Arrays.copyOfRange(publicKey, at, publicKey.length));
        }
    }

    /** Combines the secrets of a hybrid KEM (draft-ietf-hpke-pq). */
    private static byte[] sha3(byte[]... parts) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA3-256");
            for (byte[] part : parts) {
                digest.update(part);
            }
            return digest.digest();
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    @Override
    public String toString() {
        return "KemSender[" + kem.text() + "]";
    }
}
