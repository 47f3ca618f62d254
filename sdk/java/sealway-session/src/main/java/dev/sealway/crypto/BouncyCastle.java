package dev.sealway.crypto;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import org.bouncycastle.crypto.CryptoException;
import org.bouncycastle.crypto.ec.CustomNamedCurves;
import org.bouncycastle.crypto.params.MLDSAParameters;
import org.bouncycastle.crypto.params.MLDSAPrivateKeyParameters;
import org.bouncycastle.crypto.params.MLDSAPublicKeyParameters;
import org.bouncycastle.crypto.signers.MLDSASigner;
import org.bouncycastle.math.ec.FixedPointCombMultiplier;

/** ML-DSA (FIPS 204) with an empty context, and points of private scalars. Bouncy Castle's classes are used as they are: no provider is registered. */
final class BouncyCastle {
    private BouncyCastle() {
    }

    /** Returns the public key of a scalar of a curve. */
    static byte[] point(Curve curve, BigInteger scalar) {
        return new FixedPointCombMultiplier().multiply(CustomNamedCurves.getByName(curve.text()).getG(), scalar).getEncoded(false);
    }

    private static MLDSAParameters parameters(MlDsa set) {
        return set == MlDsa.ML_DSA_65 ? MLDSAParameters.ml_dsa_65 : MLDSAParameters.ml_dsa_87;
    }

    /** Returns the key of a seed of 32 bytes, which signs by the deterministic variant. */
    static SigningKey key(MlDsa set, byte[] seed) {
        MLDSAPrivateKeyParameters key = new MLDSAPrivateKeyParameters(parameters(set), seed.clone());
        return SigningKey.of(key.getPublicKeyParameters().getEncoded(), message -> {
            MLDSASigner signer = new MLDSASigner();
            signer.init(true, key);
            signer.update(message, 0, message.length);
            try {
                return signer.generateSignature();
            } catch (CryptoException broken) {
                throw ProviderException.of(new GeneralSecurityException(broken));
            }
        });
    }

    static boolean verifies(MlDsa set, byte[] publicKey, byte[] message, byte[] signature) {
        MLDSASigner verifier = new MLDSASigner();
        verifier.init(false, new MLDSAPublicKeyParameters(parameters(set), publicKey));
        verifier.update(message, 0, message.length);
        return verifier.verifySignature(signature);
    }
}
