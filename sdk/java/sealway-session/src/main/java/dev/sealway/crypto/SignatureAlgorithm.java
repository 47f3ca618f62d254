package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.List;

/** The signature algorithms of identity keys and roots. The length of a public key names its algorithm. Of a composite one, whose name has a
 * {@code +}, both parts sign and both have to verify. {@code spec/session-3.md#algorithms}. */
public enum SignatureAlgorithm {
    /** ECDSA on P-256 with SHA-256, the default. */
    ES256("ES256", Curve.P256, null),
    /** ECDSA on P-384 with SHA-384. */
    ES384("ES384", Curve.P384, null),
    /** ML-DSA-65. */
    ML_DSA_65("ML-DSA-65", null, MlDsa.ML_DSA_65),
    /** ML-DSA-87. */
    ML_DSA_87("ML-DSA-87", null, MlDsa.ML_DSA_87),
    /** ES256 and ML-DSA-65. */
    ES256_ML_DSA_65("ES256+ML-DSA-65", Curve.P256, MlDsa.ML_DSA_65),
    /** ES384 and ML-DSA-87. */
    ES384_ML_DSA_87("ES384+ML-DSA-87", Curve.P384, MlDsa.ML_DSA_87);

    private static final int SEED_LEN = 32;
    private final String text;
    private final Curve curve;
    private final MlDsa set;

    /** @param curve of the classical part, or null
     * @param set of the ML-DSA part, or null */
    SignatureAlgorithm(String text, Curve curve, MlDsa set) {
        this.text = text;
        this.curve = curve;
        this.set = set;
    }

    /** Returns its name on the wire. */
    public String text() {
        return text;
    }

    /** Returns the length of a public key, in bytes. */
    public int publicLen() {
        return pointLen() + (set == null ? 0 : set.publicLen());
    }

    /** Returns the length of a signature, in bytes. */
    public int signatureLen() {
        return ecdsaLen() + (set == null ? 0 : set.signatureLen());
    }

    private int pointLen() {
        return curve == null ? 0 : curve.publicLen();
    }

    private int ecdsaLen() {
        return curve == null ? 0 : curve.signatureLen();
    }

    /** Returns true if this platform has all parts of it. ML-DSA comes with Bouncy Castle, which may be excluded on JDK 24 and newer. */
    public boolean isAvailable() {
        return set == null || MlDsa.isThere();
    }

    /** Returns the algorithm of a name, or null if this library does not know it. */
    public static SignatureAlgorithm of(String name) {
        return Arrays.stream(values()).filter(one -> one.text.equals(name)).findFirst().orElse(null);
    }

    /** Returns the algorithm of a public key by its length, or null if no algorithm has it. */
    public static SignatureAlgorithm of(byte[] publicKey) {
        return Arrays.stream(values()).filter(one -> one.publicLen() == publicKey.length).findFirst().orElse(null);
    }

    /** Returns true if a public key has the length of this algorithm and, with a curve, the first byte of a point. */
    public boolean hasForm(byte[] publicKey) {
        return publicKey.length == publicLen() && (curve == null || publicKey[0] == 4);
    }

    /** Returns true for a public key of a known algorithm, whose point is on the curve. */
    public static boolean isValid(byte[] publicKey) {
        SignatureAlgorithm algorithm = of(publicKey);
        return algorithm != null && (algorithm.curve == null || algorithm.curve.isPoint(Arrays.copyOf(publicKey, algorithm.pointLen())));
    }

    /** Decides if a client accepts signatures of a public key. It accepts no key of an algorithm that is unknown or not available.
     *
     * @param accepted names of the algorithms that the client accepts; if empty, {@code ES256}, and of pinned keys all
     * @param isPinned true if the client pins the key */
    public static boolean accepts(List<String> accepted, byte[] publicKey, boolean isPinned) {
        SignatureAlgorithm algorithm = of(publicKey);
        if (algorithm == null || !algorithm.isAvailable()) {
            return false;
        }
        return accepted.isEmpty() ? isPinned || algorithm == ES256 : accepted.contains(algorithm.text);
    }

    /** Returns true if a signature is that of a public key, whose length names the algorithm: of a composite one, if both parts are. False also
     * for a malformed key or signature, and for an algorithm that is not available. */
    public static boolean verifies(byte[] publicKey, byte[] message, byte[] signature) {
        SignatureAlgorithm algorithm = of(publicKey);
        return algorithm != null && algorithm.isAvailable() && signature.length == algorithm.signatureLen()
                && algorithm.verifiesParts(publicKey, message, signature);
    }

    private boolean verifiesParts(byte[] publicKey, byte[] message, byte[] signature) {
        byte[] signed = framed(message);
        return (curve == null || curve.verifies(Arrays.copyOf(publicKey, pointLen()), signed, Arrays.copyOf(signature, ecdsaLen())))
                && (set == null || BouncyCastle.verifies(set, Arrays.copyOfRange(publicKey, pointLen(), publicKey.length), signed,
                        Arrays.copyOfRange(signature, ecdsaLen(), signature.length)));
    }

    /** Returns what each part signs: of a composite algorithm {@code field(alg) ‖ m}, so that no signature of a part is one of a key of its own. */
    byte[] framed(byte[] message) {
        if (curve == null || set == null) {
            return message;
        }
        byte[] name = text.getBytes(StandardCharsets.US_ASCII);
        return Bytes.join(ByteBuffer.allocate(Integer.BYTES).putInt(name.length).array(), name, message);
    }

    /** Returns the key of its private bytes: the scalar of a curve (32 or 48 bytes), the seed of ML-DSA (32 bytes), of a composite algorithm both
     * in this order.
     *
     * @param random for ECDSA; ML-DSA signs by the deterministic variant
     * @throws ProtocolException {@code public_key_invalid} for other bytes, {@code provider} without Bouncy Castle */
    public SigningKey key(byte[] secret, SecureRandom random) {
        if (!MlDsa.isThere()) {
            throw new ProtocolException(Code.PROVIDER);
        }
        int scalarLen = curve == null ? 0 : curve.scalarLen();
        if (secret.length != scalarLen + (set == null ? 0 : SEED_LEN)) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        SigningKey ecdsa = curve == null ? null : SigningKey.of(curve, curve.keyPair(Arrays.copyOf(secret, scalarLen)), random);
        SigningKey mlDsa = set == null ? null : BouncyCastle.key(set, Arrays.copyOfRange(secret, scalarLen, secret.length));
        return ecdsa == null ? mlDsa : mlDsa == null ? ecdsa : SigningKey.composite(ecdsa, mlDsa);
    }

    boolean isComposite() {
        return curve != null && set != null;
    }

    boolean hasPointLen(int length) {
        return pointLen() == length;
    }
}
