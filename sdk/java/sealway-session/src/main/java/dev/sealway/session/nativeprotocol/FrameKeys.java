package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SecretBytes;
import java.util.Arrays;

/** Key, IV and commitment of one stream, and the context it is bound to. {@code spec/session-3.md#sealed-requests}. */
final class FrameKeys {
    static final int COMMIT_LEN = 16;
    final SecretBytes key;
    final byte[] iv;
    final byte[] commit;
    final byte[] context;

    private FrameKeys(byte[] expanded, byte[] context) {
        this.key = SecretBytes.owning(Arrays.copyOf(expanded, 32));
        this.iv = Arrays.copyOfRange(expanded, 32, 44);
        this.commit = Arrays.copyOfRange(expanded, 44, 60);
        this.context = context;
        Arrays.fill(expanded, (byte) 0);
    }

    static FrameKeys ofRequest(Protocol protocol, SecretBytes c2s, String method, String target, String contentType, String stamp,
            String nonce, String id) {
        byte[] info = new Fields().add(protocol.label("request")).add(nonce).add(stamp).bytes();
        byte[] context = new Fields().add(protocol.label("request context")).add(method).add(target).add(contentType).add(stamp)
                .add(nonce).add(id).bytes();
        return new FrameKeys(Hashes.expand(c2s, info, 60), Hashes.sha256(context));
    }

    static FrameKeys ofAnswer(Protocol protocol, SecretBytes s2c, String requestNonce, int status, String method, String target,
            String contentType, String stamp, String nonce, String id) {
        byte[] info = new Fields().add(protocol.label("answer")).add(requestNonce).add(nonce).bytes();
        byte[] context = new Fields().add(protocol.label("answer context")).number(status).add(method).add(target).add(contentType)
                .add(stamp).add(nonce).add(id).bytes();
        return new FrameKeys(Hashes.expand(s2c, info, 60), Hashes.sha256(context));
    }

    byte[] nonce(long count, boolean isLast) {
        byte[] out = iv.clone();
        out[3] ^= (byte) (isLast ? 1 : 0);
        for (int at = 0; at < 8; at++) {
            out[11 - at] ^= (byte) (count >>> 8 * at);
        }
        return out;
    }

    @Override
    public String toString() {
        return "FrameKeys(redacted)";
    }
}
