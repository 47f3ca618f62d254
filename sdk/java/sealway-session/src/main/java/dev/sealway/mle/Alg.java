package dev.sealway.mle;

import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.SecureRandom;
import java.security.spec.MGF1ParameterSpec;
import javax.crypto.Cipher;
import javax.crypto.spec.OAEPParameterSpec;
import javax.crypto.spec.PSource;

/** Key management algorithms of RSA keys (RFC 7518 section 4.3). {@code RSA1_5}, {@code PBES2} and {@code none} do not exist here. */
public enum Alg {
    /** RSAES-OAEP with SHA-256 and MGF1 with SHA-256. */
    RSA_OAEP_256("RSA-OAEP-256", "SHA-256", MGF1ParameterSpec.SHA256),
    /** RSAES-OAEP with SHA-1 and MGF1 with SHA-1. */
    RSA_OAEP("RSA-OAEP", "SHA-1", MGF1ParameterSpec.SHA1);

    private final String text;
    private final OAEPParameterSpec padding;

    Alg(String text, String hash, MGF1ParameterSpec mask) {
        this.text = text;
        this.padding = new OAEPParameterSpec(hash, "MGF1", mask, PSource.PSpecified.DEFAULT);
    }

    /** Returns the registered name. */
    public String text() {
        return text;
    }

    /** Returns the algorithm of exactly this name.
     *
     * @throws dev.sealway.wire.UsageException for another name */
    public static Alg of(String name) {
        return Enc.named(values(), Alg::text, name);
    }

    byte[] run(int mode, Key key, byte[] data, SecureRandom random) throws GeneralSecurityException {
        // By its name alone the platform would use SHA-1 for the mask.
        Cipher cipher = Cipher.getInstance("RSA/ECB/OAEPPadding");
        cipher.init(mode, key, padding, random);
        return cipher.doFinal(data);
    }
}
