package dev.sealway.session;

import dev.sealway.crypto.SecretBytes;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Wire;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/** A client's session of wire 1 or 2: seals requests, opens answers. */
public final class CompatSession implements AutoCloseable {
    private final Wire wire;
    private final String clientId;
    private final String id;
    private final long expiresMs;
    private final SecretBytes key;

    CompatSession(Wire wire, String clientId, String id, long expiresMs, SecretBytes key) {
        this.wire = wire;
        this.clientId = clientId;
        this.id = id;
        this.expiresMs = expiresMs;
        this.key = key;
    }

    /** Returns the id. */
    public String id() {
        return id;
    }

    /** Returns the end of its life by the clock of the init. */
    public long expiresMs() {
        return expiresMs;
    }

    /** Returns a copy of the key, for tests and stores. */
    public byte[] copyKey() {
        return key.copy();
    }

    /** Seals a request.
     *
     * @param path as sent, without its query
     * @param nonceRandom 16 random bytes
     * @param iv 12 random bytes
     */
    public Call seal(String path, byte[] plaintext, long nowMs, byte[] nonceRandom, byte[] iv) {
        return sealAs(path, plaintext, Long.toString(nowMs), HexFormat.of().formatHex(nonceRandom), iv);
    }

    /** Seals a request with a given timestamp and nonce. */
    public Call sealAs(String path, byte[] plaintext, String stamp, String nonce, byte[] iv) {
        String kid = Forms.KID_PREFIX + id;
        SealedMessage message = CompatSeal.seal(wire, key, "POST", path, stamp, nonce, kid, clientId, iv, plaintext);
        if (wire == Wire.TWO) {
            List<Header> headers = new ArrayList<>(message.headers().list());
            headers.add(new Header(HeaderNames.X_CLIENT_ID, clientId));
            message = new SealedMessage(new HeaderList(headers), message.contentType(), message.body());
        }
        return new Call(message, path);
    }

    /** A sealed request, and the opener of its answer. */
    public final class Call {
        private final SealedMessage message;
        private final String path;

        private Call(SealedMessage message, String path) {
            this.message = message;
            this.path = path;
        }

        /** Returns the sealed request. */
        public SealedMessage message() {
            return message;
        }

        /** Opens the answer. {@code spec/session.md#answer}.
         *
         * @throws ProtocolException the code of the check that failed; then nothing of the answer may be used
         */
        public byte[] open(HeaderList headers, int status, byte[] body, long nowMs, ReplayPolicy policy) {
            String kid = headers.required(HeaderNames.X_KID);
            if (!id.equals(Forms.idOfKid(kid))) {
                throw new ProtocolException(Code.ANSWER_MISMATCH);
            }
            String stamp;
            String nonce;
            byte[] plaintext;
            if (wire == Wire.ONE) {
                nonce = headers.required(HeaderNames.X_NONCE);
                stamp = headers.required(HeaderNames.X_TIMESTAMP);
                CompatSeal.DetachedParts parts = CompatSeal.DetachedParts.read(headers);
                byte[] aad = CompatSeal.aad1(Integer.toString(status), path, stamp, nonce, kid);
                plaintext = CompatSeal.open1(key, parts, aad, body);
            } else {
                Forms.StampAndNonce split = Forms.split(headers.required(HeaderNames.X_IDEMPOTENCY_KEY));
                stamp = split.stamp();
                nonce = split.nonce();
                plaintext = CompatSeal.open2(key, CompatSeal.aad2(stamp, nonce, kid, clientId), body);
            }
            Forms.checkAnswerNonce(nonce, CompatSeal.NONCE_MIN);
            policy.check(Forms.stampMs(stamp), nowMs);
            return plaintext;
        }

        @Override
        public String toString() {
            return "Call[" + id + "]";
        }
    }

    @Override
    public void close() {
        key.destroy();
    }

    @Override
    public String toString() {
        return "CompatSession[" + id + ", wire " + wire.number() + "]";
    }
}
