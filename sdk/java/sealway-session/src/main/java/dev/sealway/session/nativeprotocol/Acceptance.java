package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.Hashes;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Wire;
import java.util.Comparator;
import java.util.List;
import java.util.function.Function;

/** The server's side of an init or a renewal. {@code spec/session-3.md#init}. */
public final class Acceptance {
    private static final int POLICY_TTL_MIN_SEC = 300;

    private Acceptance() {
    }

    /** The server's part of an agreement.
     *
     * @param idRandom 16 random bytes
     * @param expiresInSec the life of the session, in seconds
     * @param nowMs the server's clock
     * @param auth authentication of the client
     * @param subject of the client, or null
     * @param tenant of the client, or null
     */
    public record Decision(byte[] idRandom, long expiresInSec, long nowMs, String auth, String subject, String tenant) {
    }

    /** An accepted init: the body of its 201, and the session to store. */
    public record Grant(byte[] body, SessionRecord session) {
    }

    /** Returns the life of a session in seconds: the one that the client asks for, within 300 and {@code maxSec}; {@code maxSec} by default. */
    public static long ttlSec(InitRequest request, long maxSec) {
        return request.ttlSec() == null ? maxSec : Math.clamp(request.ttlSec(), POLICY_TTL_MIN_SEC, maxSec);
    }

    /** Accepts an init or a renewal.
     *
     * @param authorization the value of {@code Authorization} as it came, or null; no part of a renewal
     * @param suites that the server supports
     * @param share creates the server's share for a suite
     * @param renewed the session that is renewed, or null
     * @throws ProtocolException {@code suite_required}, {@code key_retired}, {@code public_key_invalid}, {@code policy}
     */
    public static Grant accept(InitRequest request, String authorization, Decision decision, List<String> suites,
            List<Identity> identities, Function<Suite, ServerShare> share, SessionRecord renewed) {
        if (renewed != null && (!request.clientId().equals(renewed.clientId()) || request.proof() != null)) {
            throw new ProtocolException(Code.POLICY);
        }
        Suite suite = Suite.of(request.suite());
        if (suite == null || !request.suite().equals(Suite.chosen(request.suites(), suites))) {
            throw new ProtocolException(Code.SUITE_REQUIRED);
        }
        List<Identity> live = identities.stream().filter(key -> key.isLive(decision.nowMs()))
                .sorted(Comparator.comparingLong(Identity::notBeforeMs).reversed()).toList();
        Identity signer = live.stream()
                .filter(key -> request.accepts(key.publicKey()))
                .findFirst().orElseThrow(() -> new ProtocolException(Code.KEY_RETIRED));
        ServerShare.SharedSecret agreed = share.apply(suite).agree(suite, request.share());
        InitAnswer answer = new InitAnswer(Forms.sessionId(decision.idRandom(), false), request.suite(), suites, agreed.share(),
                decision.expiresInSec(), decision.nowMs(), signer.keyId(), live.stream().map(Identity::keyId).toList(),
                decision.auth(), decision.subject(), decision.tenant());
        byte[] credential = renewed == null ? Transcript.credential(authorization) : new byte[0];
        byte[] hash = Hashes.sha256(Transcript.of(request, credential, answer, renewed == null ? null : renewed.id()));
        SessionKeys old = renewed == null ? null : new SessionKeys(renewed.key().duplicate());
        SessionKeys keys = SessionKeys.schedule(hash, agreed.secret(), old == null ? null : old.exporter());
        if (old != null) {
            old.close();
        }
        byte[] body = answer.write(signer.signer().sign(Transcript.signed(hash)), keys.confirm(hash));
        long createdMs = renewed == null ? decision.nowMs() : renewed.createdMs();
        SessionRecord session = new SessionRecord(answer.sessionId(), Wire.NATIVE, request.clientId(), decision.subject(),
                createdMs, decision.nowMs() + decision.expiresInSec() * 1000, keys.prk.duplicate(), decision.tenant(),
                decision.auth());
        keys.close();
        return new Grant(body, session);
    }
}
