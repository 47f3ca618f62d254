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
import javax.crypto.KEM;

/** ML-KEM by the JDK. */
final class PlatformMlKem implements MlKem.Kem {
    /** Returns true if the JDK has ML-KEM in full. */
    static boolean isThere() {
        try {
            KeyPairGenerator.getInstance("ML-KEM-768");
            KEM.getInstance("ML-KEM-768");
            return true;
        } catch (NoSuchAlgorithmException older) {
            return false;
        }
    }

    @Override
    public KeyPair generate(MlKem set, SecureRandom random) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance(set.text());
            generator.initialize(new NamedParameterSpec(set.text()), random);
            return generator.generateKeyPair();
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
    }

    @Override
    public KeyPair expanded(MlKem set, byte[] key) {
        try {
            PrivateKey mine = KeyFactory.getInstance(set.text()).generatePrivate(new PKCS8EncodedKeySpec(set.pkcs8(key)));
            return new KeyPair(publicKey(set, set.publicOf(key)), mine);
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }

    private static PublicKey publicKey(MlKem set, byte[] key) throws GeneralSecurityException {
        return KeyFactory.getInstance(set.text()).generatePublic(new X509EncodedKeySpec(set.spki(key)));
    }

    @Override
    public MlKem.Encapsulation encapsulate(MlKem set, byte[] publicKey, SecureRandom random) {
        try {
            KEM.Encapsulated made = KEM.getInstance(set.text()).newEncapsulator(publicKey(set, publicKey), random).encapsulate();
            return new MlKem.Encapsulation(made.encapsulation(), made.key().getEncoded());
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }

    @Override
    public byte[] decapsulate(MlKem set, PrivateKey key, byte[] ciphertext) {
        try {
            return KEM.getInstance(set.text()).newDecapsulator(key).decapsulate(ciphertext).getEncoded();
        } catch (GeneralSecurityException invalid) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID);
        }
    }
}
