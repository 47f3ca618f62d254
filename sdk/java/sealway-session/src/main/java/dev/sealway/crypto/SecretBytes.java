package dev.sealway.crypto;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import javax.crypto.SecretKey;

/** Bytes of a key: wiped by {@link #destroy}, never printed. */
public final class SecretBytes implements SecretKey, AutoCloseable {
    private static final long serialVersionUID = 1;
    private final transient byte[] bytes;
    private final String algorithm;
    private transient volatile boolean isDestroyed;
    private transient volatile HmacState hmac;
    private transient Map<String, SecretBytes> kept;

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

    /** HMAC under this key, made once. */
    HmacState hmac() {
        HmacState made = hmac;
        if (made == null) {
            made = new HmacState(raw());
            hmac = made;
        }
        if (isDestroyed) {
            made.wipe();
            throw new IllegalStateException("the key was wiped");
        }
        return made;
    }

    /** A key that is expanded from this one by a label, made once. */
    synchronized SecretBytes kept(String label) {
        raw();
        if (kept == null) {
            kept = new HashMap<>();
        }
        return kept.computeIfAbsent(label, name -> Hashes.expand(this, name));
    }

    /** Returns a copy, for stores. */
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
    public synchronized void destroy() {
        isDestroyed = true;
        Arrays.fill(bytes, (byte) 0);
        if (hmac != null) {
            hmac.wipe();
        }
        if (kept != null) {
            kept.values().forEach(SecretBytes::destroy);
        }
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
