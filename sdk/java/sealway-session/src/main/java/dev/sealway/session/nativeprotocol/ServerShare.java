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
import java.util.function.Function;

/** A server's part in one agreement. */
public final class ServerShare {
    private final KeyPair curve;
    private final KeyPair x25519;
    private final Function<byte[], MlKem.Encapsulation> encapsulate;

    /** Of these, made for one init alone; those of kinds that the suite has not may be null.
     *
     * @param curve of the suite's curve, P-256 or P-384
     * @param encapsulate for a key of the suite's ML-KEM */
    public ServerShare(KeyPair curve, KeyPair x25519, Function<byte[], MlKem.Encapsulation> encapsulate) {
        this.curve = curve;
        this.x25519 = x25519;
        this.encapsulate = encapsulate;
    }

    /** Of new key pairs. */
    public static ServerShare generate(Suite suite, SecureRandom random) {
        KeyPair curve = null;
        KeyPair x25519 = null;
        Function<byte[], MlKem.Encapsulation> encapsulate = null;
        for (Part part : suite.parts()) {
            if (part.kem != null) {
                encapsulate = key -> part.kem.encapsulate(key, random);
            } else if (part.curve != null) {
                curve = part.curve.generate(random);
            } else {
                x25519 = X25519.generate(random);
            }
        }
        return new ServerShare(curve, x25519, encapsulate);
    }

    /** The public share, and the secret, which the caller wipes. */
    record SharedSecret(byte[] share, byte[] secret) {
        @Override
        public String toString() {
            return "SharedSecret(redacted)";
        }
    }

    SharedSecret agree(Suite suite, byte[] clientShare) {
        List<byte[]> theirs = suite.split(clientShare, true);
        byte[] share = {};
        byte[] secret = {};
        for (int at = 0; at < theirs.size(); at++) {
            byte[] peer = theirs.get(at);
            byte[] mine;
            byte[] part;
            Part kind = suite.parts().get(at);
            switch (kind) {
                case KEM, KEM1024 -> {
                    MlKem.Encapsulation made = encapsulate.apply(peer);
                    mine = made.ciphertext();
                    part = made.secret();
                }
                case X25519 -> {
                    part = X25519.agree(x25519.getPrivate(), peer);
                    mine = X25519.encode(x25519.getPublic());
                }
                case P256, P384 -> {
                    part = kind.curve.agree(curve.getPrivate(), peer);
                    mine = kind.curve.encode((ECPublicKey) curve.getPublic());
                }
                default -> throw new IllegalStateException();
            }
            share = Bytes.join(share, mine);
            byte[] joined = Bytes.join(secret, part);
            Arrays.fill(part, (byte) 0);
            Arrays.fill(secret, (byte) 0);
            secret = joined;
        }
        return new SharedSecret(share, secret);
    }

    @Override
    public String toString() {
        return "ServerShare(redacted)";
    }
}
