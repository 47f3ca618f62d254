package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SigningKey;
import java.util.Arrays;
import java.util.HexFormat;

/** An identity key of a service.
 *
 * @param publicKey its bytes, whose length names the algorithm
 * @param notBeforeMs live from this time, milliseconds of the epoch
 * @param notAfterMs up to and without this one
 * @param signer signs by the algorithm
 */
public record Identity(byte[] publicKey, long notBeforeMs, long notAfterMs, Signer signer) {
    /** Signs a message by the algorithm of the key. */
    @FunctionalInterface
    public interface Signer {
        /** The signature. */
        byte[] sign(byte[] message);
    }

    /** Returns an identity of a private key, as {@link SigningKey#pkcs8} reads it. */
    public static Identity of(SigningKey key, long notBeforeMs, long notAfterMs) {
        return new Identity(key.publicKey(), notBeforeMs, notAfterMs, key::sign);
    }

    /** The id of a public key. */
    public static String keyId(byte[] publicKey) {
        return HexFormat.of().formatHex(Arrays.copyOf(Hashes.sha256(publicKey), 16));
    }

    /** Returns the id. */
    public String keyId() {
        return keyId(publicKey);
    }

    boolean isLive(long nowMs) {
        return notBeforeMs <= nowMs && nowMs < notAfterMs;
    }

    @Override
    public String toString() {
        return "Identity[" + keyId() + "]";
    }
}
