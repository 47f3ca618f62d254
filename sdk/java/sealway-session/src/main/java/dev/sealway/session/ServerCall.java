package dev.sealway.session;

import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.RefusedException;
import dev.sealway.wire.Wire;
import java.util.HexFormat;

/** The server's side of a sealed call of wires 1 and 2: read, open, seal. {@code spec/session.md#open}. */
public final class ServerCall {
    private final Wire wire;
    private final String kid;
    private final String sessionId;
    private final String stamp;
    private final String nonce;
    private final long stampMs;
    private final String clientId;
    private final String path;
    private final OldSeal.Detached parts;
    private final long nowMs;
    private final ReplayPolicy policy;

    /** A call that was opened: its plaintext, and what seals its answer. */
    public record Opened(byte[] plaintext, Reply reply) {
        @Override
        public String toString() {
            return "Opened(redacted)";
        }
    }

    /** Reads the headers, checks 2 to 6.
     *
     * @param path as sent, without its query
     * @throws RefusedException what is wrong with them
     */
    public ServerCall(HeaderList headers, String path, long nowMs, ReplayPolicy policy) {
        this.kid = headers.required(HeaderNames.X_KID);
        this.wire = Wire.old(headers);
        this.path = path;
        this.nowMs = nowMs;
        this.policy = policy;
        if (wire == Wire.ONE) {
            this.nonce = headers.required(HeaderNames.X_NONCE);
            this.stamp = headers.required(HeaderNames.X_TIMESTAMP);
            this.parts = OldSeal.Detached.read(headers);
            this.clientId = null;
            if (path.length() > OldSeal.PATH_MAX) {
                throw new RefusedException(Code.BODY_TOO_LARGE, "path");
            }
        } else {
            String key = headers.required(HeaderNames.X_IDEMPOTENCY_KEY);
            this.clientId = headers.required(HeaderNames.X_CLIENT_ID);
            if (!Forms.isClientId(clientId)) {
                throw new RefusedException(Code.HEADER_INVALID, HeaderNames.X_CLIENT_ID);
            }
            Forms.StampAndNonce split = Forms.split(key);
            this.stamp = split.stamp();
            this.nonce = split.nonce();
            this.parts = null;
        }
        Forms.checkRequestNonce(nonce, OldSeal.NONCE_MIN);
        this.stampMs = Forms.stampMs(stamp);
        policy.check(stampMs, nowMs);
        this.sessionId = Forms.idOfKid(kid);
    }

    /** The session to look for.
     *
     * @throws RefusedException {@code session_unknown} where the kid holds none
     */
    public String sessionId() {
        if (sessionId == null) {
            throw new RefusedException(Code.SESSION_UNKNOWN);
        }
        return sessionId;
    }

    /** Which wire it speaks. */
    public Wire wire() {
        return wire;
    }

    /** Checks 7 to 10, before the body is read.
     *
     * @throws RefusedException {@code session_unknown}, {@code session_expired}, {@code wire_mismatch},
     *     {@code client_mismatch}
     */
    public void check(SessionRecord session) {
        check(session, nowMs);
    }

    private void check(SessionRecord session, long atMs) {
        if (!sessionId().equals(session.id())) {
            throw new RefusedException(Code.SESSION_UNKNOWN);
        }
        if (session.isExpired(atMs)) {
            throw new RefusedException(Code.SESSION_EXPIRED);
        }
        if (session.wire() != wire) {
            throw new RefusedException(Code.WIRE_MISMATCH);
        }
        if (wire == Wire.TWO && !clientId.equals(session.clientId())) {
            throw new RefusedException(Code.CLIENT_MISMATCH);
        }
    }

    /** Opens the body, checks 12 and 13; its nonce is still to be claimed. The body may have taken its time: what was checked of session
     * and stamp before is checked again.
     *
     * @param session as the store has it by now
     * @param atMs the server's clock by now
     * @throws RefusedException what does not open
     */
    public Unreplayed<Opened> open(SessionRecord session, byte[] body, long atMs) {
        check(session, atMs);
        policy.check(stampMs, atMs);
        byte[] plaintext = wire == Wire.ONE
                ? OldSeal.open1(session.key(), parts, OldSeal.aad1("POST", path, stamp, nonce, kid), body)
                : OldSeal.open2(session.key(), OldSeal.aad2(stamp, nonce, kid, clientId), body);
        Claim claim = Claim.of(Claim.Scope.SESSION, session.id(), nonce, stampMs, atMs, policy);
        return new Unreplayed<>(new Opened(plaintext, new Reply(session, path)), claim);
    }

    /** Seals the answer to one call. */
    public static final class Reply {
        private final SessionRecord session;
        private final String path;

        private Reply(SessionRecord session, String path) {
            this.session = session;
            this.path = path;
        }

        /** Whose call it was. */
        public SessionRecord session() {
            return session;
        }

        /** Seals.
         *
         * @param status the status that the answer is sent with
         * @param nonceRandom 16 random bytes
         * @param iv 12 random bytes
         */
        public SealedMessage seal(int status, byte[] plaintext, long nowMs, byte[] nonceRandom, byte[] iv) {
            String nonce = Forms.ANSWER_PREFIX + HexFormat.of().formatHex(nonceRandom);
            return OldSeal.seal(session.wire(), session.key(), Integer.toString(status), path, Long.toString(nowMs), nonce,
                    session.kid(), session.clientId(), iv, plaintext);
        }

        @Override
        public String toString() {
            return "Reply[" + session + "]";
        }
    }
}
