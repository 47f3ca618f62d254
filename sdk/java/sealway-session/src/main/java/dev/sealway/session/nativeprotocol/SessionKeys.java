package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SecretBytes;
import java.util.Arrays;

/** The keys of a session of wire 3, all of them made of one {@code prk}. */
final class SessionKeys implements AutoCloseable {
    final SecretBytes prk;
    final SecretBytes c2s;
    final SecretBytes s2c;
    private SecretBytes exporter;

    SessionKeys(SecretBytes prk) {
        this.prk = prk;
        this.c2s = Hashes.expand(prk, "sealway/3 c2s");
        this.s2c = Hashes.expand(prk, "sealway/3 s2c");
    }

    /** Of an agreement; wipes the secret. */
    static SessionKeys schedule(byte[] hash, byte[] secret, SecretBytes oldExporter) {
        byte[] old = oldExporter == null ? new byte[0] : oldExporter.copy();
        byte[] ikm = Bytes.join(old, secret);
        try {
            return new SessionKeys(Hashes.extract(hash, ikm));
        } finally {
            Arrays.fill(old, (byte) 0);
            Arrays.fill(ikm, (byte) 0);
            Arrays.fill(secret, (byte) 0);
        }
    }

    synchronized SecretBytes exporter() {
        if (exporter == null) {
            exporter = Hashes.expand(prk, "sealway/3 exporter");
        }
        return exporter;
    }

    byte[] confirm(byte[] hash) {
        try (SecretBytes key = Hashes.expand(prk, "sealway/3 confirm")) {
            return Hashes.hmac(key, hash);
        }
    }

    @Override
    public synchronized void close() {
        prk.destroy();
        c2s.destroy();
        s2c.destroy();
        if (exporter != null) {
            exporter.destroy();
        }
    }

    @Override
    public String toString() {
        return "SessionKeys(redacted)";
    }
}
