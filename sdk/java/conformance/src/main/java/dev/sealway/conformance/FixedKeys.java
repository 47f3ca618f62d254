package dev.sealway.conformance;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.MlKem768;
import dev.sealway.crypto.P256;
import dev.sealway.crypto.X25519;
import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.PrivateKey;
import java.security.spec.ECFieldFp;
import java.security.spec.ECPoint;
import java.security.spec.ECPrivateKeySpec;
import java.security.spec.ECPublicKeySpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Key pairs of given private keys. The arithmetic takes no care of its timing: it is for keys that are no secrets. */
public final class FixedKeys {
    private static final BigInteger P = ((ECFieldFp) P256.parameters().getCurve().getField()).getP();
    private static final HexFormat HEX = HexFormat.of();
    private static final Map<String, KeyPair> MADE = new ConcurrentHashMap<>();

    private FixedKeys() {
    }

    /** Of P-256, by its scalar. */
    public static KeyPair p256(byte[] scalar) {
        return MADE.computeIfAbsent(HEX.formatHex(scalar), key -> make(scalar));
    }

    private static KeyPair make(byte[] scalar) {
        try {
            BigInteger number = new BigInteger(1, scalar);
            KeyFactory factory = KeyFactory.getInstance("EC");
            PrivateKey mine = factory.generatePrivate(new ECPrivateKeySpec(number, P256.parameters()));
            ECPoint point = times(P256.parameters().getGenerator(), number);
            return new KeyPair(factory.generatePublic(new ECPublicKeySpec(point, P256.parameters())), mine);
        } catch (GeneralSecurityException invalid) {
            throw new IllegalArgumentException("no scalar of P-256", invalid);
        }
    }

    private static ECPoint times(ECPoint point, BigInteger number) {
        ECPoint sum = ECPoint.POINT_INFINITY;
        for (int bit = number.bitLength() - 1; bit >= 0; bit--) {
            sum = plus(sum, sum);
            if (number.testBit(bit)) {
                sum = plus(sum, point);
            }
        }
        return sum;
    }

    private static ECPoint plus(ECPoint one, ECPoint other) {
        if (one.equals(ECPoint.POINT_INFINITY)) {
            return other;
        }
        if (other.equals(ECPoint.POINT_INFINITY)) {
            return one;
        }
        BigInteger slope;
        if (one.equals(other)) {
            BigInteger x = one.getAffineX();
            slope = x.multiply(x).multiply(BigInteger.valueOf(3)).add(P256.parameters().getCurve().getA())
                    .multiply(one.getAffineY().shiftLeft(1).modInverse(P));
        } else if (one.getAffineX().equals(other.getAffineX())) {
            return ECPoint.POINT_INFINITY;
        } else {
            slope = other.getAffineY().subtract(one.getAffineY())
                    .multiply(other.getAffineX().subtract(one.getAffineX()).modInverse(P));
        }
        BigInteger x = slope.multiply(slope).subtract(one.getAffineX()).subtract(other.getAffineX()).mod(P);
        return new ECPoint(x, slope.multiply(one.getAffineX().subtract(x)).subtract(one.getAffineY()).mod(P));
    }

    /** Of X25519, by its 32 bytes. */
    public static KeyPair x25519(byte[] bytes) {
        try {
            KeyFactory factory = KeyFactory.getInstance("X25519");
            byte[] pkcs8 = Bytes.join(HEX.parseHex("302e020100300506032b656e04220420"), bytes);
            PrivateKey mine = factory.generatePrivate(new PKCS8EncodedKeySpec(pkcs8));
            byte[] base = new byte[X25519.PUBLIC_LEN];
            base[0] = 9;
            byte[] spki = Bytes.join(HEX.parseHex("302a300506032b656e032100"), X25519.agree(mine, base));
            return new KeyPair(factory.generatePublic(new X509EncodedKeySpec(spki)), mine);
        } catch (GeneralSecurityException invalid) {
            throw new IllegalArgumentException("no key of X25519", invalid);
        }
    }

    /** Of ML-KEM-768, by its expanded decapsulation key. */
    public static KeyPair kem(byte[] expanded) {
        return MlKem768.expanded(expanded);
    }
}
