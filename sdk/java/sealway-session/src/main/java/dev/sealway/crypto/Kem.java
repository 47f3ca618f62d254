package dev.sealway.crypto;

import java.nio.charset.StandardCharsets;
import java.security.KeyPairGenerator;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** The KEMs of HPKE that wire 4 has. {@code spec/one-shot.md#keys}. */
public enum Kem {
    /** X-Wing: ML-KEM-768 and X25519, the default. */
    X_WING("X-Wing", 0x647a, true, dev.sealway.crypto.X25519.PUBLIC_LEN, "\\.//^\\"),
    /** ML-KEM-768 and P-256. */
    MLKEM768_P256("MLKEM768-P256", 0x0050, true, Curve.P256.publicLen(), "MLKEM768-P256"),
    /** X25519 alone. */
    X25519("X25519", 0x0020, false, dev.sealway.crypto.X25519.PUBLIC_LEN, ""),
    /** P-256 alone. */
    P256("P-256", 0x0010, false, Curve.P256.publicLen(), "");

    private final String text;
    private final int id;
    private final boolean isHybrid;
    private final int groupLen;
    private final byte[] label;

    Kem(String text, int id, boolean isHybrid, int groupLen, String label) {
        this.text = text;
        this.id = id;
        this.isHybrid = isHybrid;
        this.groupLen = groupLen;
        this.label = label.getBytes(StandardCharsets.US_ASCII);
    }

    /** Returns the KEM of an id of HPKE, or null if this library does not know it. */
    public static Kem of(int id) {
        for (Kem kem : values()) {
            if (kem.id == id) {
                return kem;
            }
        }
        return null;
    }

    /** Returns its name in the specification. */
    public String text() {
        return text;
    }

    /** Returns its id of HPKE, 16 bits. */
    public int id() {
        return id;
    }

    /** Returns the length of a public key, in bytes. */
    public int publicLen() {
        return groupLen + (isHybrid ? MlKem.ML_KEM_768.publicLen() : 0);
    }

    /** Returns the length of an encapsulation, in bytes. */
    public int encLen() {
        return groupLen + (isHybrid ? MlKem.ML_KEM_768.ciphertextLen() : 0);
    }

    /** Returns true if this platform has all parts of it. ML-KEM-768 comes with JDK 24, or with Bouncy Castle. */
    public boolean isAvailable() {
        return (!isX25519() || has(() -> KeyPairGenerator.getInstance("X25519")))
                && (!isHybrid || has(() -> MessageDigest.getInstance("SHA3-256")) && (PlatformMlKem.isThere() || MlDsa.isThere()));
    }

    /** A look-up of an algorithm. */
    private interface Lookup {
        void find() throws NoSuchAlgorithmException;
    }

    private static boolean has(Lookup lookup) {
        try {
            lookup.find();
            return true;
        } catch (NoSuchAlgorithmException missing) {
            return false;
        }
    }

    boolean isHybrid() {
        return isHybrid;
    }

    boolean isX25519() {
        return groupLen == dev.sealway.crypto.X25519.PUBLIC_LEN;
    }

    int groupLen() {
        return groupLen;
    }

    byte[] label() {
        return label;
    }
}
