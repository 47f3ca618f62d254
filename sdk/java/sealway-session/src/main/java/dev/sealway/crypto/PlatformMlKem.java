package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.NoSuchAlgorithmException;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.spec.NamedParameterSpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;
import javax.crypto.KEM;

/** ML-KEM-768 by the JDK. */
final class PlatformMlKem implements MlKem768.Kem {
    static final byte[] SPKI = HexFormat.of().parseHex("308204b2300b0609608648016503040402038204a100");
    private static final byte[] PKCS8 = HexFormat.of().parseHex("30820978020100300b06096086480165030404020482096404820960");
    private static final String NAME = "ML-KEM-768";

    /** Returns true if the JDK has ML-KEM in full. */
    static boolean isThere() {
        try {
            KeyPairGenerator.getInstance(NAME);
            KEM.getInstance(NAME);
            return true;
        } catch (NoSuchAlgorithmException older) {
            return false;
        }
    }

    @Override
    public KeyPair generate(SecureRandom random) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance(NAME);
            generator.initialize(new NamedParameterSpec(NAME), random);
            return generator.generateKeyPair();
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    @Override
    public KeyPair expanded(byte[] key) {
        try {
            PrivateKey mine = KeyFactory.getInstance(NAME).generatePrivate(new PKCS8EncodedKeySpec(Bytes.join(PKCS8, key)));
            return new KeyPair(publicKey(Arrays.copyOfRange(key, 1152, 1152 + MlKem768.PUBLIC_LEN)), mine);
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }

    private static PublicKey publicKey(byte[] key) throws GeneralSecurityException {
        return KeyFactory.getInstance(NAME).generatePublic(new X509EncodedKeySpec(Bytes.join(SPKI, key)));
    }

    @Override
    public MlKem768.Encapsulation encapsulate(byte[] publicKey, SecureRandom random) {
        try {
            KEM.Encapsulated made = KEM.getInstance(NAME).newEncapsulator(publicKey(publicKey), random).encapsulate();
            return new MlKem768.Encapsulation(made.encapsulation(), made.key().getEncoded());
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }

    @Override
    public byte[] decapsulate(PrivateKey key, byte[] ciphertext) {
        try {
            return KEM.getInstance(NAME).newDecapsulator(key).decapsulate(ciphertext).getEncoded();
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }
}
