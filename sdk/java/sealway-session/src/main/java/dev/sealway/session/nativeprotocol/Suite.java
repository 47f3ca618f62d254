package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Curve;
import dev.sealway.crypto.MlKem;
import dev.sealway.crypto.X25519;
import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The suites of wire 3, the default first. Those with ML-KEM-1024 are offered only where they are named. {@code spec/session-3.md#suites}. */
public enum Suite {
    /** ML-KEM-768 and X25519, the default. */
    X25519MLKEM768("X25519MLKEM768", Part.KEM, Part.X25519),
    /** P-256 and ML-KEM-768. */
    SECP256R1MLKEM768("SecP256r1MLKEM768", Part.P256, Part.KEM),
    /** P-256 alone. */
    P256("P256", Part.P256),
    /** P-384 and ML-KEM-1024. */
    SECP384R1MLKEM1024("SecP384r1MLKEM1024", Part.P384, Part.KEM1024),
    /** ML-KEM-1024 alone. */
    MLKEM1024("MLKEM1024", Part.KEM1024);

    /** Those that are offered by default, in this order. */
    public static final List<Suite> DEFAULT = List.of(X25519MLKEM768, SECP256R1MLKEM768, P256);

    /** A part of a share: a key of a curve, of X25519, or of ML-KEM. */
    enum Part {
        KEM(null, MlKem.ML_KEM_768),
        KEM1024(null, MlKem.ML_KEM_1024),
        X25519(null, null),
        P256(Curve.P256, null),
        P384(Curve.P384, null);

        /** The curve, or null. */
        final Curve curve;
        /** The parameter set of ML-KEM, or null. */
        final MlKem kem;

        Part(Curve curve, MlKem kem) {
            this.curve = curve;
            this.kem = kem;
        }

        private int length(boolean isOfClient) {
            if (kem != null) {
                return isOfClient ? kem.publicLen() : kem.ciphertextLen();
            }
            return curve == null ? dev.sealway.crypto.X25519.PUBLIC_LEN : curve.publicLen();
        }
    }

    private final String text;
    private final List<Part> parts;

    Suite(String text, Part... parts) {
        this.text = text;
        this.parts = List.of(parts);
    }

    /** Its name on the wire. */
    public String text() {
        return text;
    }

    List<Part> parts() {
        return parts;
    }

    /** The suite of a name, or null. */
    public static Suite of(String name) {
        return Arrays.stream(values()).filter(suite -> suite.text.equals(name)).findFirst().orElse(null);
    }

    /** The first of the client's list that is in the server's, or null. */
    public static String chosen(List<String> client, List<String> server) {
        return client.stream().filter(server::contains).findFirst().orElse(null);
    }

    /** The parts of a share, in their order.
     *
     * @throws ProtocolException {@code public_key_invalid} for a wrong length
     */
    List<byte[]> split(byte[] share, boolean isOfClient) {
        List<byte[]> out = new ArrayList<>();
        int at = 0;
        for (Part part : parts) {
            int length = part.length(isOfClient);
            if (share.length - at < length) {
                throw new ProtocolException(Code.PUBLIC_KEY_INVALID, "share");
            }
            out.add(Arrays.copyOfRange(share, at, at + length));
            at += length;
        }
        if (at != share.length) {
            throw new ProtocolException(Code.PUBLIC_KEY_INVALID, "share");
        }
        return out;
    }
}
