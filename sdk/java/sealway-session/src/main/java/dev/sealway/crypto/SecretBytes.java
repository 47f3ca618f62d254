package dev.sealway.crypto;

import java.util.Arrays;
import javax.crypto.SecretKey;

/** Bytes of a key: wiped by {@link #destroy}, never printed. */
public final class SecretBytes implements SecretKey, AutoCloseable {
    private static final long serialVersionUID = 1;
    private final transient byte[] bytes;
    private final String algorithm;
    private transient volatile boolean isDestroyed;

    private SecretBytes(byte[] bytes, String algorithm) {
        this.bytes = bytes;
        this.algorithm = algorithm;
    }

    /** Takes these bytes over: the caller no longer uses them. */
    public static SecretBytes owning(byte[] bytes) {
        return new SecretBytes(bytes, "AES");
    }

    /** The bytes themselves, not a copy.
     *
     * @throws IllegalStateException if they were wiped
     */
    byte[] raw() {
        if (isDestroyed) {
            throw new IllegalStateException("the key was wiped");
        }
        return bytes;
    }

    /** A copy, for whoever keeps keys: a store. */
    public byte[] copy() {
        return raw().clone();
    }

    /** Another holder of the same key with bytes of its own. */
    public SecretBytes duplicate() {
        return new SecretBytes(copy(), algorithm);
    }

    @Override
    public String getAlgorithm() {
        return algorithm;
    }

    @Override
    public String getFormat() {
        return "RAW";
    }

    @Override
    public byte[] getEncoded() {
        return raw().clone();
    }

    @Override
    public void destroy() {
        isDestroyed = true;
        Arrays.fill(bytes, (byte) 0);
    }

    @Override
    public boolean isDestroyed() {
        return isDestroyed;
    }

    @Override
    public void close() {
        destroy();
    }

    @Override
    public String toString() {
        return "SecretBytes(redacted)";
    }

    private void writeObject(java.io.ObjectOutputStream out) throws java.io.IOException {
        throw new java.io.NotSerializableException("SecretBytes");
    }
}
