package dev.sealway.conformance;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Curve;
import dev.sealway.crypto.MlKem;
import dev.sealway.crypto.X25519;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.PrivateKey;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Key pairs of given private keys, for keys that are no secrets. */
public final class FixedKeys {
    private static final HexFormat HEX = HexFormat.of();
    private static final Map<String, KeyPair> MADE = new ConcurrentHashMap<>();

    private FixedKeys() {
    }

    /** Of P-256 (32 bytes) or P-384 (48 bytes), by its scalar. */
    public static KeyPair curve(byte[] scalar) {
        return MADE.computeIfAbsent(HEX.formatHex(scalar), key -> (scalar.length == Curve.P256.scalarLen() ? Curve.P256 : Curve.P384).keyPair(scalar));
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

    /** Of ML-KEM-768 (2400 bytes) or ML-KEM-1024 (3168 bytes), by its expanded decapsulation key. */
    public static KeyPair kem(byte[] expanded) {
        return (expanded.length == 2400 ? MlKem.ML_KEM_768 : MlKem.ML_KEM_1024).expanded(expanded);
    }
}
