package dev.sealway.crypto;

import java.security.KeyPair;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import org.bouncycastle.crypto.AsymmetricCipherKeyPair;
import org.bouncycastle.crypto.SecretWithEncapsulation;
import org.bouncycastle.crypto.generators.MLKEMKeyPairGenerator;
import org.bouncycastle.crypto.kems.MLKEMExtractor;
import org.bouncycastle.crypto.kems.MLKEMGenerator;
import org.bouncycastle.crypto.params.MLKEMKeyGenerationParameters;
import org.bouncycastle.crypto.params.MLKEMParameters;
import org.bouncycastle.crypto.params.MLKEMPrivateKeyParameters;
import org.bouncycastle.crypto.params.MLKEMPublicKeyParameters;

/** ML-KEM by Bouncy Castle, for JDKs that have none. Its classes are used as they are: no provider is registered. */
final class LibraryMlKem implements MlKem.Kem {
    private static MLKEMParameters parameters(MlKem set) {
        return set == MlKem.ML_KEM_768 ? MLKEMParameters.ml_kem_768 : MLKEMParameters.ml_kem_1024;
    }

    /** An encapsulation key, as other keys of the platform show it. */
    private record Encapsulation(MlKem set, byte[] key) implements PublicKey {
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
            return set.spki(key);
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
    public KeyPair generate(MlKem set, SecureRandom random) {
        MLKEMKeyPairGenerator generator = new MLKEMKeyPairGenerator();
        generator.init(new MLKEMKeyGenerationParameters(random, parameters(set)));
        AsymmetricCipherKeyPair made = generator.generateKeyPair();
        return new KeyPair(new Encapsulation(set, ((MLKEMPublicKeyParameters) made.getPublic()).getEncoded()),
                new Decapsulation((MLKEMPrivateKeyParameters) made.getPrivate()));
    }

    @Override
    public KeyPair expanded(MlKem set, byte[] key) {
        return new KeyPair(new Encapsulation(set, set.publicOf(key)),
                new Decapsulation(new MLKEMPrivateKeyParameters(parameters(set), key)));
    }

    @Override
    public MlKem.Encapsulation encapsulate(MlKem set, byte[] publicKey, SecureRandom random) {
        SecretWithEncapsulation made = new MLKEMGenerator(random).generateEncapsulated(new MLKEMPublicKeyParameters(parameters(set), publicKey));
        return new MlKem.Encapsulation(made.getEncapsulation(), made.getSecret());
    }

    @Override
    public byte[] decapsulate(MlKem set, PrivateKey key, byte[] ciphertext) {
        return new MLKEMExtractor(((Decapsulation) key).key).extractSecret(ciphertext);
    }
}
