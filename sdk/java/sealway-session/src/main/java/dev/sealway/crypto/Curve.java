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
import java.security.spec.ECPrivateKeySpec;
import java.security.spec.ECPublicKeySpec;
import java.util.Arrays;
import javax.crypto.KeyAgreement;

/** A curve of NIST: its points {@code 0x04 ‖ X ‖ Y}, ECDH, and ECDSA with {@code r ‖ s}. {@code spec/session-3.md#encodings}. */
public enum Curve {
    /** P-256: points of 65 bytes, and ES256. */
    P256("secp256r1", "P-256", 32, "SHA256withECDSAinP1363Format"),
    /** P-384: points of 97 bytes, and ES384. */
    P384("secp384r1", "P-384", 48, "SHA384withECDSAinP1363Format");

    private final String name;
    private final String text;
    private final int coordinateLen;
    private final String ecdsa;
    private final ECParameterSpec parameters;

    Curve(String name, String text, int coordinateLen, String ecdsa) {
        this.name = name;
        this.text = text;
        this.coordinateLen = coordinateLen;
        this.ecdsa = ecdsa;
        try {
            AlgorithmParameters found = AlgorithmParameters.getInstance("EC");
            found.init(new ECGenParameterSpec(name));
            this.parameters = found.getParameterSpec(ECParameterSpec.class);
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** Returns its name, such as {@code P-256}. */
    public String text() {
        return text;
    }

    /** Returns the length of a public key, in bytes. */
    public int publicLen() {
        return 1 + 2 * coordinateLen;
    }

    /** Returns the length of a signature, in bytes. */
    public int signatureLen() {
        return 2 * coordinateLen;
    }

    /** Returns the length of a private scalar, and of a shared secret, in bytes. */
    public int scalarLen() {
        return coordinateLen;
    }

    /** The curve's parameters. */
    public ECParameterSpec parameters() {
        return parameters;
    }

    /** Returns the key pair of a private scalar, big-endian. Bouncy Castle computes the point.
     *
     * @throws ProtocolException {@code public_key_invalid} for a number that is no scalar */
    public KeyPair keyPair(byte[] scalar) {
        BigInteger number = new BigInteger(1, scalar);
        if (number.signum() == 0 || number.compareTo(parameters.getOrder()) >= 0) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        try {
            PrivateKey mine = KeyFactory.getInstance("EC").generatePrivate(new ECPrivateKeySpec(number, parameters));
            return new KeyPair(decode(BouncyCastle.point(this, number)), mine);
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }

    /** A new key pair. */
    public KeyPair generate(SecureRandom random) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
            generator.initialize(new ECGenParameterSpec(name), random);
            return generator.generateKeyPair();
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    /** The bytes of a public key. */
    public byte[] encode(ECPublicKey key) {
        byte[] out = new byte[publicLen()];
        out[0] = 4;
        put(key.getW().getAffineX(), out, 1);
        put(key.getW().getAffineY(), out, 1 + coordinateLen);
        return out;
    }

    private void put(BigInteger number, byte[] out, int at) {
        byte[] bytes = number.toByteArray();
        int length = Math.min(bytes.length, coordinateLen);
        System.arraycopy(bytes, bytes.length - length, out, at + coordinateLen - length, length);
    }

    /** The public key of these bytes; checked to be on the curve before any arithmetic with it.
     *
     * @throws ProtocolException {@code public_key_invalid}
     */
    public ECPublicKey decode(byte[] bytes) {
        if (bytes.length != publicLen() || bytes[0] != 4) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        BigInteger x = new BigInteger(1, Arrays.copyOfRange(bytes, 1, 1 + coordinateLen));
        BigInteger y = new BigInteger(1, Arrays.copyOfRange(bytes, 1 + coordinateLen, publicLen()));
        BigInteger p = ((ECFieldFp) parameters.getCurve().getField()).getP();
        BigInteger right = x.multiply(x).add(parameters.getCurve().getA()).multiply(x).add(parameters.getCurve().getB());
        if (x.compareTo(p) >= 0 || y.compareTo(p) >= 0 || !y.multiply(y).subtract(right).mod(p).equals(BigInteger.ZERO)) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
        try {
            ECPublicKeySpec spec = new ECPublicKeySpec(new ECPoint(x, y), parameters);
            return (ECPublicKey) KeyFactory.getInstance("EC").generatePublic(spec);
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }

    /** Returns true for the bytes of a point on the curve. */
    public boolean isPoint(byte[] bytes) {
        try {
            return decode(bytes) != null;
        } catch (ProtocolException invalid) {
            return false;
        }
    }

    /** The x-coordinate of the shared point; the caller wipes it.
     *
     * @throws ProtocolException {@code public_key_invalid}
     */
    public byte[] agree(PrivateKey mine, byte[] peer) {
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

    /** Signs by ECDSA. */
    public byte[] sign(PrivateKey key, byte[] message, SecureRandom random) {
        try {
            Signature signature = Signature.getInstance(ecdsa);
            signature.initSign(key, random);
            signature.update(message);
            return signature.sign();
        } catch (GeneralSecurityException broken) {
            throw ProviderException.of(broken);
        }
    }

    /** Returns true if a signature verifies; false also for a malformed key or signature. */
    public boolean verifies(byte[] publicKey, byte[] message, byte[] signature) {
        if (signature.length != signatureLen()) {
            return false;
        }
        try {
            Signature verifier = Signature.getInstance(ecdsa);
            verifier.initVerify(decode(publicKey));
            verifier.update(message);
            return verifier.verify(signature);
        } catch (ProtocolException | GeneralSecurityException invalid) {
            return false;
        }
    }
}
