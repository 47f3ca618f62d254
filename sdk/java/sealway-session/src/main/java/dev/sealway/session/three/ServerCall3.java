package dev.sealway.session.three;

import dev.sealway.crypto.Hashes;
import dev.sealway.session.Claim;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.RefusedException;
import dev.sealway.wire.Wire;
import java.util.List;

/** The server's side of a sealed request of wire 3. {@code spec/session-3.md#sealed-requests}. */
public final class ServerCall3 {
    private static final int NONCE_MIN = 16;
    private static final int TARGET_MAX = 8192;
    private final String method;
    private final String target;
    private final HeaderList headers;
    private final String stamp;
    private final String nonce;
    private final long stampMs;
    private final String sessionId;
    private final long nowMs;
    private final ReplayPolicy policy;

    /** Check 1.
     *
     * @param target path and query as sent
     * @throws RefusedException what is wrong with the headers
     */
    public ServerCall3(String method, String target, HeaderList headers, long nowMs, ReplayPolicy policy) {
        this.method = method;
        this.target = target;
        this.headers = headers;
        this.nowMs = nowMs;
        this.policy = policy;
        String kid = headers.required(HeaderNames.X_KID);
        String key = headers.required(HeaderNames.X_IDEMPOTENCY_KEY);
        if (!headers.required(HeaderNames.X_SEAL).equals("3")) {
            throw new RefusedException(Code.HEADER_INVALID, HeaderNames.X_SEAL);
        }
        if (target.length() > TARGET_MAX) {
            throw new RefusedException(Code.HEADER_INVALID, "target");
        }
        Forms.StampAndNonce split = Forms.split(key);
        this.stamp = split.stamp();
        this.nonce = split.nonce();
        Forms.checkRequestNonce(nonce, NONCE_MIN);
        this.stampMs = Forms.stampMs(stamp);
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

    /** Its nonce, for proofs. */
    public String nonce() {
        return nonce;
    }

    /** Its timestamp as sent, for proofs. */
    public String stamp() {
        return stamp;
    }

    /** Checks 2 to 4.
     *
     * @throws RefusedException {@code session_unknown}, {@code session_expired}, {@code wire_mismatch},
     *     {@code timestamp_outside_window}
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
        if (session.wire() != Wire.THREE) {
            throw new RefusedException(Code.WIRE_MISMATCH);
        }
        // However wide the window is configured: a client counts on the greatest width before it sends again.
        policy.atMost(Resends.WINDOW_MAX_MS).check(stampMs, atMs);
    }

    /** The stream where it stands in {@code X-Sealed}, else null; with it there may be no body.
     *
     * @throws RefusedException {@code header_invalid}
     */
    public byte[] inHeader() {
        return Placement.inHeader(headers);
    }

    /** Begins to open; {@link #check} comes first. */
    public Opening opening(SessionRecord session) {
        check(session);
        String type = headers.optional("Content-Type");
        FrameKeys keys = FrameKeys.ofRequest(Hashes.kept(session.key(), "sealway/3 c2s"), method, target, type, stamp, nonce, session.id());
        return new Opening(new FrameOpener(keys));
    }

    /** Opens a request whose body is all there.
     *
     * @throws RefusedException what is wrong with it
     */
    public Unreplayed<Begun> open(SessionRecord session, byte[] body) {
        check(session);
        byte[] stream = Placement.whole(headers, body);
        Opening opening = opening(session);
        boolean isBegun = opening.feed(stream, 0, stream.length);
        opening.opener.finish();
        if (!isBegun) {
            throw new RefusedException(Code.STREAM_TRUNCATED);
        }
        return opening.first(session, nowMs);
    }

    /** A request whose first frame has opened: its headers, what there is of its body, and what opens the rest. */
    public record Begun(HeaderList headers, List<byte[]> parts, FrameOpener rest, Reply3 reply) {
        @Override
        public String toString() {
            return "Begun(redacted)";
        }
    }

    /** A request whose first frame is still coming. */
    public final class Opening {
        private final FrameOpener opener;
        private List<byte[]> parts = List.of();

        private Opening(FrameOpener opener) {
            this.opener = opener;
        }

        /** Takes what came; whether the first frame has opened.
         *
         * @throws RefusedException as {@link FrameOpener#feed}
         */
        public boolean feed(byte[] data, int from, int length) {
            parts = opener.feed(data, from, length);
            return opener.headers() != null;
        }

        /** Whether the last frame has opened: then nothing may follow. */
        public boolean isDone() {
            return opener.isDone();
        }

        /** The request, held back until its claim is granted. Its first frame may have taken its time: what was checked of session and
         * stamp before is checked again.
         *
         * @param found the session as the store has it by now
         * @param atMs the server's clock by now
         * @throws RefusedException as {@link ServerCall3#check}
         */
        public Unreplayed<Begun> first(SessionRecord found, long atMs) {
            check(found, atMs);
            Claim claim = Claim.of(Claim.Scope.SESSION, found.id(), nonce, stampMs, atMs, policy.atMost(Resends.WINDOW_MAX_MS));
            Reply3 reply = new Reply3(found, method, target, nonce);
            return new Unreplayed<>(new Begun(opener.headers(), parts, opener, reply), claim);
        }
    }

    @Override
    public String toString() {
        return "ServerCall3[" + method + " " + target + "]";
    }
}
