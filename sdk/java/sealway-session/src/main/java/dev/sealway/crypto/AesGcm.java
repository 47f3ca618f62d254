package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.security.GeneralSecurityException;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;

/** AES-256-GCM with an IV of 12 bytes and a tag of 16. Not for use by several threads at once. */
public final class AesGcm {
    /** Bytes of an IV. */
    public static final int IV_LEN = 12;
    /** Bytes of a tag. */
    public static final int TAG_LEN = 16;
    private final Cipher cipher;
    private final SecretBytes key;

    /** Under this key, which stays the caller's to wipe. */
    public AesGcm(SecretBytes key) {
        try {
            this.cipher = Cipher.getInstance("AES/GCM/NoPadding");
        } catch (GeneralSecurityException missing) {
            throw ProviderException.of(missing);
        }
        this.key = key;
    }

    /** Seals: ciphertext and tag into {@code out} from {@code at}. {@code in} and {@code out} may be one array. */
    public void seal(byte[] iv, byte[] aad, byte[] in, int from, int length, byte[] out, int at) {
        try {
            cipher.init(Cipher.ENCRYPT_MODE, key, new GCMParameterSpec(TAG_LEN * 8, iv));
            cipher.updateAAD(aad);
            cipher.doFinal(in, from, length, out, at);
        } catch (GeneralSecurityException broken) {
            throw ProviderException.of(broken);
        }
    }

    /** Seals two parts as one, without joining them first. */
    public void seal(byte[] iv, byte[] aad, byte[] first, byte[] in, int from, int length, byte[] out, int at) {
        try {
            cipher.init(Cipher.ENCRYPT_MODE, key, new GCMParameterSpec(TAG_LEN * 8, iv));
            cipher.updateAAD(aad);
            int done = cipher.update(first, 0, first.length, out, at);
            cipher.doFinal(in, from, length, out, at + done);
        } catch (GeneralSecurityException broken) {
            throw ProviderException.of(broken);
        }
    }

    /** Opens ciphertext and tag.
     *
     * @throws ProtocolException {@code unsealable}
     */
    public byte[] open(byte[] iv, byte[] aad, byte[] in, int from, int length) {
        try {
            cipher.init(Cipher.DECRYPT_MODE, key, new GCMParameterSpec(TAG_LEN * 8, iv));
            cipher.updateAAD(aad);
            return cipher.doFinal(in, from, length);
        } catch (AEADBadTagException unsealable) {
            throw new ProtocolException(Code.UNSEALABLE);
        } catch (GeneralSecurityException broken) {
            throw ProviderException.of(broken);
        }
    }
}
