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
import java.util.function.Function;

/** A server's part in one agreement. */
public final class ServerShare {
    private final KeyPair p256;
    private final KeyPair x25519;
    private final Function<byte[], MlKem768.Encapsulation> encapsulate;

    /** Of these, made for one init alone; those of kinds that the suite has not may be null. */
    public ServerShare(KeyPair p256, KeyPair x25519, Function<byte[], MlKem768.Encapsulation> encapsulate) {
        this.p256 = p256;
        this.x25519 = x25519;
        this.encapsulate = encapsulate;
    }

    /** Of new key pairs. */
    public static ServerShare generate(Suite suite, SecureRandom random) {
        List<Part> parts = suite.parts();
        return new ServerShare(parts.contains(Part.P256) ? P256.generate(random) : null,
                parts.contains(Part.X25519) ? X25519.generate(random) : null, key -> MlKem768.encapsulate(key, random));
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
        if (suite.parts().contains(Part.KEM)) {
            MlKem768.check(theirs.get(suite.parts().indexOf(Part.KEM)));
        }
        byte[] share = {};
        byte[] secret = {};
        for (int at = 0; at < theirs.size(); at++) {
            byte[] peer = theirs.get(at);
            byte[] mine;
            byte[] part;
            switch (suite.parts().get(at)) {
                case KEM -> {
                    MlKem768.Encapsulation made = encapsulate.apply(peer);
                    mine = made.ciphertext();
                    part = made.secret();
                }
                case X25519 -> {
                    part = X25519.agree(x25519.getPrivate(), peer);
                    mine = X25519.encode(x25519.getPublic());
                }
                case P256 -> {
                    part = P256.agree(p256.getPrivate(), peer);
                    mine = P256.encode((ECPublicKey) p256.getPublic());
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
