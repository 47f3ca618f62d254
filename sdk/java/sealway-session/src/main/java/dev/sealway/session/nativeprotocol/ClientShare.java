package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.MlKem768;
import dev.sealway.crypto.P256;
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
    private final KeyPair p256;
    private final KeyPair x25519;
    private final KeyPair kem;

    /** Creates a share of these key pairs, made for one init alone; those that the suite does not have may be null. */
    public ClientShare(Suite suite, KeyPair p256, KeyPair x25519, KeyPair kem) {
        this.suite = suite;
        this.p256 = p256;
        this.x25519 = x25519;
        this.kem = kem;
    }

    /** Creates a share of new key pairs. */
    public static ClientShare generate(Suite suite, SecureRandom random) {
        List<Part> parts = suite.parts();
        return new ClientShare(suite, parts.contains(Part.P256) ? P256.generate(random) : null,
                parts.contains(Part.X25519) ? X25519.generate(random) : null,
                parts.contains(Part.KEM) ? MlKem768.generate(random) : null);
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
                case KEM -> MlKem768.encode(kem.getPublic());
                case X25519 -> X25519.encode(x25519.getPublic());
                case P256 -> P256.encode((ECPublicKey) p256.getPublic());
            });
        }
        return out;
    }

    /** Returns the secret that follows from the server's share; the caller wipes it. */
    byte[] secret(byte[] serverShare) {
        List<byte[]> theirs = suite.split(serverShare, false);
        byte[] out = {};
        for (int at = 0; at < theirs.size(); at++) {
            byte[] part = switch (suite.parts().get(at)) {
                case KEM -> MlKem768.decapsulate(kem.getPrivate(), theirs.get(at));
                case X25519 -> X25519.agree(x25519.getPrivate(), theirs.get(at));
                case P256 -> P256.agree(p256.getPrivate(), theirs.get(at));
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
