package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Curve;
import dev.sealway.crypto.MlKem;
import dev.sealway.crypto.X25519;
import dev.sealway.session.nativeprotocol.Suite.Part;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.util.Arrays;
import java.util.List;

/** A client's key pairs of one init. */
public final class ClientShare {
    private final Suite suite;
    private final KeyPair curve;
    private final KeyPair x25519;
    private final KeyPair kem;

    /** Creates a share of these key pairs, made for one init alone; those that the suite does not have may be null.
     *
     * @param curve of the suite's curve, P-256 or P-384
     * @param kem of the suite's ML-KEM */
    public ClientShare(Suite suite, KeyPair curve, KeyPair x25519, KeyPair kem) {
        this.suite = suite;
        this.curve = curve;
        this.x25519 = x25519;
        this.kem = kem;
    }

    /** Creates a share of new key pairs. */
    public static ClientShare generate(Suite suite, SecureRandom random) {
        KeyPair curve = null;
        KeyPair x25519 = null;
        KeyPair kem = null;
        for (Part part : suite.parts()) {
            if (part.kem != null) {
                kem = part.kem.generate(random);
            } else if (part.curve != null) {
                curve = part.curve.generate(random);
            } else {
                x25519 = X25519.generate(random);
            }
        }
        return new ClientShare(suite, curve, x25519, kem);
    }

    /** Returns the suite. */
    public Suite suite() {
        return suite;
    }

    /** Returns the public share. */
    public byte[] share() {
        byte[] out = {};
        for (Part part : suite.parts()) {
            out = Bytes.join(out, switch (part) {
                case KEM, KEM1024 -> part.kem.encode(kem.getPublic());
                case X25519 -> X25519.encode(x25519.getPublic());
                case P256, P384 -> part.curve.encode((ECPublicKey) curve.getPublic());
            });
        }
        return out;
    }

    /** Returns the secret that follows from the server's share; the caller wipes it. */
    byte[] secret(byte[] serverShare) {
        List<byte[]> theirs = suite.split(serverShare, false);
        byte[] out = {};
        for (int at = 0; at < theirs.size(); at++) {
            Part kind = suite.parts().get(at);
            byte[] part = switch (kind) {
                case KEM, KEM1024 -> kind.kem.decapsulate(kem.getPrivate(), theirs.get(at));
                case X25519 -> X25519.agree(x25519.getPrivate(), theirs.get(at));
                case P256, P384 -> kind.curve.agree(curve.getPrivate(), theirs.get(at));
            };
            byte[] joined = Bytes.join(out, part);
            Arrays.fill(part, (byte) 0);
            Arrays.fill(out, (byte) 0);
            out = joined;
        }
        return out;
    }

    @Override
    public String toString() {
        return "ClientShare[" + suite.text() + "]";
    }
}
