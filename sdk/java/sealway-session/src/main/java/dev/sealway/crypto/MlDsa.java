package dev.sealway.crypto;

/** The parameter sets of ML-DSA (FIPS 204 table 2) that identity keys have. */
enum MlDsa {
    ML_DSA_65(1952, 3309, "608648016503040312"),
    ML_DSA_87(2592, 4627, "608648016503040313");

    private final int publicLen;
    private final int signatureLen;
    private final String oid;

    MlDsa(int publicLen, int signatureLen, String oid) {
        this.publicLen = publicLen;
        this.signatureLen = signatureLen;
        this.oid = oid;
    }

    /** Returns true if Bouncy Castle is on the class path: it may be excluded on JDK 24 and newer. Not in the class that uses it, which cannot be
     * linked without it. */
    static boolean isThere() {
        try {
            Class.forName("org.bouncycastle.crypto.signers.MLDSASigner", false, MlDsa.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException excluded) {
            return false;
        }
    }

    int publicLen() {
        return publicLen;
    }

    int signatureLen() {
        return signatureLen;
    }

    /** Returns what is in front of the seed in a PKCS #8 key of the form seed (RFC 9881 section 6), in hexadecimal. */
    String seedForm() {
        return "3034020100300b0609" + oid + "04228020";
    }
}
