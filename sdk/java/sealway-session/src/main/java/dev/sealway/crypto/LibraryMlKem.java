package dev.sealway.crypto;

import java.security.KeyPair;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.util.Arrays;
import org.bouncycastle.crypto.AsymmetricCipherKeyPair;
import org.bouncycastle.crypto.SecretWithEncapsulation;
import org.bouncycastle.crypto.generators.MLKEMKeyPairGenerator;
import org.bouncycastle.crypto.kems.MLKEMExtractor;
import org.bouncycastle.crypto.kems.MLKEMGenerator;
import org.bouncycastle.crypto.params.MLKEMKeyGenerationParameters;
import org.bouncycastle.crypto.params.MLKEMParameters;
import org.bouncycastle.crypto.params.MLKEMPrivateKeyParameters;
import org.bouncycastle.crypto.params.MLKEMPublicKeyParameters;

/** ML-KEM-768 by Bouncy Castle, for JDKs that have none. Its classes are used as they are: no provider is registered. */
final class LibraryMlKem implements MlKem768.Kem {
    private static final MLKEMParameters PARAMETERS = MLKEMParameters.ml_kem_768;

    /** An encapsulation key, as other keys of the platform show it. */
    private record Encapsulation(byte[] key) implements PublicKey {
        @Override
        public String getAlgorithm() {
            return "ML-KEM";
        }

        @Override
        public String getFormat() {
            return "X.509";
        }

        @Override
        public byte[] getEncoded() {
            return Bytes.join(PlatformMlKem.SPKI, key);
        }
    }

    /** A decapsulation key. It is never encoded. */
    private static final class Decapsulation implements PrivateKey {
        private static final long serialVersionUID = 1;
        private final transient MLKEMPrivateKeyParameters key;

        Decapsulation(MLKEMPrivateKeyParameters key) {
            this.key = key;
        }

        @Override
        public String getAlgorithm() {
            return "ML-KEM";
        }

        @Override
        public String getFormat() {
            return null;
        }

        @Override
        public byte[] getEncoded() {
            return null;
        }
    }

    @Override
    public KeyPair generate(SecureRandom random) {
        MLKEMKeyPairGenerator generator = new MLKEMKeyPairGenerator();
        generator.init(new MLKEMKeyGenerationParameters(random, PARAMETERS));
        AsymmetricCipherKeyPair made = generator.generateKeyPair();
        return new KeyPair(new Encapsulation(((MLKEMPublicKeyParameters) made.getPublic()).getEncoded()),
                new Decapsulation((MLKEMPrivateKeyParameters) made.getPrivate()));
    }

    @Override
    public KeyPair expanded(byte[] key) {
        return new KeyPair(new Encapsulation(Arrays.copyOfRange(key, 1152, 1152 + MlKem768.PUBLIC_LEN)),
                new Decapsulation(new MLKEMPrivateKeyParameters(PARAMETERS, key)));
    }

    @Override
    public MlKem768.Encapsulation encapsulate(byte[] publicKey, SecureRandom random) {
        SecretWithEncapsulation made = new MLKEMGenerator(random).generateEncapsulated(new MLKEMPublicKeyParameters(PARAMETERS, publicKey));
        return new MlKem768.Encapsulation(made.getEncapsulation(), made.getSecret());
    }

    @Override
    public byte[] decapsulate(PrivateKey key, byte[] ciphertext) {
        return new MLKEMExtractor(((Decapsulation) key).key).extractSecret(ciphertext);
    }
}
