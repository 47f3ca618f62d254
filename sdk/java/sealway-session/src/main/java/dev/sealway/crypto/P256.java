package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.math.BigInteger;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.interfaces.ECPublicKey;
import java.security.spec.ECFieldFp;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECParameterSpec;
import java.security.spec.ECPoint;
import java.security.spec.ECPublicKeySpec;
import java.util.Arrays;
import javax.crypto.KeyAgreement;

/** P-256: points of 65 bytes, ECDH, and ES256. {@code spec/session.md#encodings}. */
public final class P256 {
    /** Bytes of a public key, {@code 0x04 ‖ X ‖ Y}. */
    public static final int PUBLIC_LEN = 65;
    /** Bytes of a signature, {@code r ‖ s}. */
    public static final int SIGNATURE_LEN = 64;
    private static final int COORDINATE_LEN = 32;
    private static final String ES256 = "SHA256withECDSAinP1363Format";
    private static final ECParameterSpec CURVE = curve();
    private static final BigInteger P = ((ECFieldFp) CURVE.getCurve().getField()).getP();

    private P256() {
    }

    private static ECParameterSpec curve() {
        try {
            AlgorithmParameters parameters = AlgorithmParameters.getInstance("EC");
            parameters.init(new ECGenParameterSpec("secp256r1"));
            return parameters.getParameterSpec(ECParameterSpec.class);
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** The curve's parameters. */
    public static ECParameterSpec parameters() {
        return CURVE;
    }

    /** A new key pair. */
    public static KeyPair generate(SecureRandom random) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
            generator.initialize(new ECGenParameterSpec("secp256r1"), random);
            return generator.generateKeyPair();
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** The 65 bytes of a public key. */
    public static byte[] encode(ECPublicKey key) {
        byte[] out = new byte[PUBLIC_LEN];
        out[0] = 4;
        put(key.getW().getAffineX(), out, 1);
        put(key.getW().getAffineY(), out, 1 + COORDINATE_LEN);
        return out;
    }

    private static void put(BigInteger number, byte[] out, int at) {
        byte[] bytes = number.toByteArray();
        int length = Math.min(bytes.length, COORDINATE_LEN);
        System.arraycopy(bytes, bytes.length - length, out, at + COORDINATE_LEN - length, length);
    }

    /** The public key of 65 bytes; checked to be on the curve before any arithmetic with it.
     *
     * @throws ProtocolException {@code public_key_invalid}
     */
    public static ECPublicKey decode(byte[] bytes) {
        if (bytes.length != PUBLIC_LEN || bytes[0] != 4) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        BigInteger x = new BigInteger(1, Arrays.copyOfRange(bytes, 1, 1 + COORDINATE_LEN));
        BigInteger y = new BigInteger(1, Arrays.copyOfRange(bytes, 1 + COORDINATE_LEN, PUBLIC_LEN));
        BigInteger right = x.multiply(x).add(CURVE.getCurve().getA()).multiply(x).add(CURVE.getCurve().getB());
        if (x.compareTo(P) >= 0 || y.compareTo(P) >= 0 || !y.multiply(y).subtract(right).mod(P).equals(BigInteger.ZERO)) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        try {
            ECPublicKeySpec spec = new ECPublicKeySpec(new ECPoint(x, y), CURVE);
            return (ECPublicKey) KeyFactory.getInstance("EC").generatePublic(spec);
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }

    /** Returns true for the 65 bytes of a point on the curve. */
    public static boolean isPoint(byte[] bytes) {
        try {
            return decode(bytes) != null;
        } catch (ProtocolException invalid) {
            return false;
        }
    }

    /** The x-coordinate of the shared point, 32 bytes; the caller wipes it.
     *
     * @throws ProtocolException {@code public_key_invalid}
     */
    public static byte[] agree(PrivateKey mine, byte[] peer) {
        ECPublicKey point = decode(peer);
        try {
            KeyAgreement agreement = KeyAgreement.getInstance("ECDH");
            agreement.init(mine);
            agreement.doPhase(point, true);
            return agreement.generateSecret();
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }

    /** Signs by ES256. */
    public static byte[] sign(PrivateKey key, byte[] message, SecureRandom random) {
        try {
            Signature signature = Signature.getInstance(ES256);
            signature.initSign(key, random);
            signature.update(message);
            return signature.sign();
        } catch (GeneralSecurityException broken) {
            throw ProviderException.of(broken);
        }
    }

    /** Returns true if an ES256 signature verifies; false also for a malformed key or signature. */
    public static boolean verifies(byte[] publicKey, byte[] message, byte[] signature) {
        if (signature.length != SIGNATURE_LEN) {
            return false;
        }
        try {
            Signature verifier = Signature.getInstance(ES256);
            verifier.initVerify(decode(publicKey));
            verifier.update(message);
            return verifier.verify(signature);
        } catch (ProtocolException | GeneralSecurityException invalid) {
            return false;
        }
    }
}
