package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.MlKem768;
import dev.sealway.crypto.P256;
import dev.sealway.crypto.X25519;
import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The suites of wire 3, the one to be liked most first. {@code spec/session-3.md#suites}. */
public enum Suite {
    /** ML-KEM-768 and X25519, the default. */
    X25519MLKEM768("X25519MLKEM768", Part.KEM, Part.X25519),
    /** P-256 and ML-KEM-768. */
    SECP256R1MLKEM768("SecP256r1MLKEM768", Part.P256, Part.KEM),
    /** P-256 alone. */
    P256("P256", Part.P256);

    /** All of them, in this order. */
    public static final List<Suite> ALL = List.of(values());

    enum Part {
        KEM(MlKem768.PUBLIC_LEN, MlKem768.CIPHERTEXT_LEN),
        X25519(dev.sealway.crypto.X25519.PUBLIC_LEN, dev.sealway.crypto.X25519.PUBLIC_LEN),
        P256(dev.sealway.crypto.P256.PUBLIC_LEN, dev.sealway.crypto.P256.PUBLIC_LEN);

        private final int clientLen;
        private final int serverLen;

        Part(int clientLen, int serverLen) {
            this.clientLen = clientLen;
            this.serverLen = serverLen;
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
        return ALL.stream().filter(suite -> suite.text.equals(name)).findFirst().orElse(null);
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
            int length = isOfClient ? part.clientLen : part.serverLen;
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
