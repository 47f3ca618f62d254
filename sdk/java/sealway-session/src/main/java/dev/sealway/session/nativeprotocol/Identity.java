package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import java.util.Arrays;
import java.util.HexFormat;

/** An identity key of a service.
 *
 * @param publicKey 65 bytes
 * @param notBeforeMs live from this time, milliseconds of the epoch
 * @param notAfterMs up to and without this one
 * @param signer signs by ES256
 */
public record Identity(byte[] publicKey, long notBeforeMs, long notAfterMs, Signer signer) {
    /** Signs a message by ES256. */
    @FunctionalInterface
    public interface Signer {
        /** The signature, 64 bytes. */
        byte[] sign(byte[] message);
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
