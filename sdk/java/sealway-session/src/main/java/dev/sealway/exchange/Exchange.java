package dev.sealway.exchange;

import dev.sealway.session.Claim;
import dev.sealway.session.CompatExchange;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.nativeprotocol.NativeExchange;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Wire;
import java.util.Map;

/** A sealed request whose headers are in order; its session is to be looked up next. Each protocol is a subclass; drivers and
 * handlers need not know which one a request uses.
 *
 * <pre>
 * headers ─ begin ─► sessionId ─ session ─► Opening, with the Stream of the body
 *      body ─ Stream.read, Stream.end ─► Pieces, the first of them ─ Opening.open ─► Unreplayed of a PlainRequest
 *                                the store's Fresh ─ Unreplayed.release ─► PlainRequest: headers, first, reply
 *      the handler's answer ─ Reply.answer ─► AnswerSeal: Whole, Frames, Plain
 * </pre>
 *
 * {@link Rejection#answer} is the answer to a request that is rejected at any step. */
public abstract class Exchange {
    protected final String stamp;
    protected final String nonce;
    private final Wire wire;
    private final long stampMs;
    private final String sessionId;
    private final long nowMs;
    private final ReplayPolicy policy;

    /** Makes the checks that all protocols share.
     *
     * @param nonceMin the least length of a nonce
     * @throws ProtocolException the code of the check that failed */
    protected Exchange(Wire wire, String kid, Forms.StampAndNonce key, int nonceMin, long nowMs, ReplayPolicy policy) {
        this.wire = wire;
        this.stamp = key.stamp();
        this.nonce = key.nonce();
        this.nowMs = nowMs;
        this.policy = policy;
        Forms.checkRequestNonce(nonce, nonceMin);
        this.stampMs = Forms.stampMs(stamp);
        if (wire != Wire.NATIVE) {
            // Wire 3 looks at the stamp when it has the session, by which it proves the time.
            policy.check(stampMs, nowMs);
        }
        this.sessionId = Forms.idOfKid(kid);
    }

    /** Returns true if a header of sealing is present, of any protocol. */
    public static boolean looksSealed(HeaderList headers) {
        return headers.has(HeaderNames.X_SEAL) || headers.has(HeaderNames.X_KID) || headers.has(HeaderNames.X_IDEMPOTENCY_KEY);
    }

    /** Returns the wire of a request by its headers. */
    public static Wire wireOf(HeaderList headers) {
        return headers.has(HeaderNames.X_SEAL) ? Wire.NATIVE : Wire.compat(headers);
    }

    /** Reads the headers of a sealed request.
     *
     * @param target path and query as sent
     * @throws ProtocolException the code of the check that failed
     * @throws Rejection of a method that the protocol does not seal */
    public static Exchange begin(String method, String target, HeaderList headers, long nowMs, ReplayPolicy policy) {
        boolean isNative = wireOf(headers) == Wire.NATIVE;
        if (isNative ? method.equals("CONNECT") || method.equals("TRACE") : !method.equals("POST")) {
            throw new Rejection(Refusal.METHOD);
        }
        return isNative ? NativeExchange.read(method, target, headers, nowMs, policy)
                : CompatExchange.read(target.split("\\?", 2)[0], headers, nowMs, policy);
    }

    /** Returns the id of the session to look up.
     *
     * @throws ProtocolException {@code session_unknown} for a malformed id: no store need be asked */
    public final String sessionId() {
        if (sessionId == null) {
            throw new ProtocolException(Code.SESSION_UNKNOWN);
        }
        return sessionId;
    }

    /** Takes the session, if the request may use it: its body is read next.
     *
     * @throws Rejection with the proof of the server's time where the request's is too far from it */
    public final Opening session(SessionRecord session) {
        try {
            check(session, nowMs);
            return new Opening(this, session, stream(session));
        } catch (ProtocolException refused) {
            throw rejection(refused, session, nowMs);
        }
    }

    /** Checks that the request may use a session at this time.
     *
     * @throws ProtocolException {@code session_unknown}, {@code session_expired}, {@code wire_mismatch}, {@code client_mismatch},
     *     {@code timestamp_outside_window} */
    protected void check(SessionRecord session, long atMs) {
        if (!sessionId().equals(session.id())) {
            throw new ProtocolException(Code.SESSION_UNKNOWN);
        }
        if (session.isExpired(atMs)) {
            throw new ProtocolException(Code.SESSION_EXPIRED);
        }
        if (session.wire() != wire) {
            throw new ProtocolException(Code.WIRE_MISMATCH);
        }
        policy.check(stampMs, atMs);
    }

    final Claim claim(long atMs) {
        return Claim.of(Claim.Scope.SESSION, sessionId, nonce, stampMs, atMs, policy);
    }

    final Rejection rejection(SealwayException why, SessionRecord session, long atMs) {
        Rejection rejection = Rejection.of(why);
        return rejection.code().equals(Code.TIMESTAMP_OUTSIDE_WINDOW.text()) ? rejection.with(clockProof(session, atMs)) : rejection;
    }

    /** Returns the members of a problem that prove the server's time, if the protocol has them. */
    protected Map<String, Object> clockProof(SessionRecord session, long atMs) {
        return Map.of();
    }

    /** Returns the reader of the sealed body. */
    protected abstract Stream stream(SessionRecord session);

    /** Returns the request, given the first piece of its stream.
     *
     * @throws ProtocolException where it does not open */
    protected abstract PlainRequest open(SessionRecord session, Stream stream, byte[] first);
}
