package dev.sealway.exchange;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Curve;
import dev.sealway.crypto.Hashes;
import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.session.nativeprotocol.Acceptance;
import dev.sealway.session.nativeprotocol.Agreement;
import dev.sealway.session.nativeprotocol.ClientShare;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.session.nativeprotocol.ServerShare;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Code;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Wire;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

/** Wire 3 by the value; wires 1 and 2 are played by the vectors, and all of them over HTTP by the filters. */
class ExchangeTest {
    private static final long NOW_MS = 1_750_000_000_000L;
    private static final long WINDOW_MAX_MS = 300_000;
    private static final SecureRandom RANDOM = new SecureRandom();
    private final KeyPair pair = Curve.P256.generate(RANDOM);
    private final Identity identity = new Identity(Curve.P256.encode((ECPublicKey) pair.getPublic()), 0, Long.MAX_VALUE,
            message -> Curve.P256.sign(pair.getPrivate(), message, RANDOM));
    private final Agreement agreement = new Agreement(new Agreement.Offer(List.of("P256"), "client-1", null, List.of(), null),
            ClientShare.generate(Suite.P256, RANDOM), (UnaryOperator<InitRequest>) null);
    private final Acceptance.Grant accepted = Acceptance.accept(agreement.request(), null,
            new Acceptance.Decision(new byte[16], 3600, NOW_MS, "none", null, null), List.of("P256"), List.of(identity),
            suite -> ServerShare.generate(suite, RANDOM), null);
    private final SessionRecord session = accepted.session();
    private final NativeSession client = agreement.finish(201, accepted.body(), id -> identity.publicKey());

    private Exchange exchange(long stampMs, long nowMs, ReplayPolicy policy) {
        HeaderList headers = client.begin("POST", "/x?y", null, Long.toString(stampMs), "0123456789abcdef").headers();
        return Exchange.begin("POST", "/x?y", headers, nowMs, policy);
    }

    private byte[] body(String... parts) {
        var sealer = client.begin("POST", "/x?y", null, Long.toString(NOW_MS), "0123456789abcdef").sealer().begin(new byte[2]);
        byte[] out = {};
        for (int at = 0; at < parts.length; at++) {
            out = Bytes.join(out, sealer.seal(parts[at].getBytes(), 0, parts[at].length(), at == parts.length - 1));
        }
        return out;
    }

    private record Read(List<Boolean> lasts, String error) {
    }

    /** What comes of a body that arrives in chunks of this length: its pieces, and the error that ended it. */
    private Read read(byte[] body, int chunk) {
        Stream stream = exchange(NOW_MS, NOW_MS, ReplayPolicy.DEFAULT).session(session).stream();
        List<Piece> pieces = new ArrayList<>();
        String error = null;
        try {
            for (int at = 0; at < body.length; at += chunk) {
                pieces.addAll(stream.read(body, at, Math.min(chunk, body.length - at)));
            }
            pieces.addAll(stream.end());
        } catch (ProtocolException refused) {
            error = refused.code();
        }
        return new Read(pieces.stream().map(Piece::isLast).toList(), error);
    }

    @Test
    void theLastPieceIsReleasedOnlyAtTheEndOfTheBody() {
        byte[] body = body("one", "two");
        for (int chunk : new int[] {1, 7, body.length}) {
            assertEquals(new Read(List.of(false, true), null), read(body, chunk));
            // One byte behind it, in the same chunk or in the next.
            Read longer = read(Bytes.join(body, new byte[1]), chunk);
            assertEquals("frame_invalid", longer.error());
            assertFalse(longer.lasts().contains(true));
            assertEquals(new Read(List.of(false), "stream_truncated"), read(Arrays.copyOf(body, body.length - 1), chunk));
        }
        assertEquals("frame_invalid", read(Bytes.join(body, new byte[1]), body.length + 1).error());
    }

    @Test
    void aRequestIsOpenedAndItsAnswerIsSealedByItsStatus() {
        Unreplayed<PlainRequest> shut = exchange(NOW_MS, NOW_MS, ReplayPolicy.DEFAULT).session(session).openAll(body("hel", "lo"), NOW_MS);
        PlainRequest plain = shut.release(Fresh.granted(shut.claim()));
        assertEquals("hello", new String(plain.first()));
        assertEquals(List.of(), plain.headers().list());
        for (int status : new int[] {200, 204, 304, 422}) {
            AnswerSeal.Frames frames = assertInstanceOf(AnswerSeal.Frames.class, plain.reply().answer(status));
            assertEquals(status == 204 || status == 304, frames.isBodyless());
            SealedMessage message = frames.seal(List.of(), "hi".getBytes(), NOW_MS, new byte[16]);
            assertEquals(frames.isBodyless(), message.headers().has("X-Sealed"));
            assertEquals(frames.isBodyless(), message.body().length == 0);
        }
    }

    private static String code(Runnable step) {
        return assertThrows(SealwayException.class, step::run).code();
    }

    @Test
    void sessionAndStampAreCheckedAgainAtTheClaim() {
        ReplayPolicy wide = new ReplayPolicy(86_400_000);
        Opening opening = exchange(NOW_MS, NOW_MS, wide).session(session);
        opening.stream().read(body("x"), 0, body("x").length);
        Piece first = opening.stream().end().getFirst();
        assertEquals(NOW_MS, opening.open(first, session, NOW_MS).claim().stampMs());
        assertEquals("session_expired", code(() -> opening.open(first, session, session.expiresMs())));
        // The window of wire 3 is five minutes at most, whatever the policy says.
        opening.open(first, session, NOW_MS + WINDOW_MAX_MS);
        assertEquals("timestamp_outside_window", code(() -> opening.open(first, session, NOW_MS + WINDOW_MAX_MS + 1)));
    }

    @Test
    void aStampThatIsOffIsRejectedWithAProofOfTheTime() {
        Rejection rejection = assertThrows(Rejection.class,
                () -> exchange(NOW_MS - WINDOW_MAX_MS - 1, NOW_MS, ReplayPolicy.DEFAULT).session(session));
        Answer problem = rejection.answer(Form.PROBLEM);
        assertEquals(400, problem.status());
        assertTrue(client.call("POST", "/x?y", Long.toString(NOW_MS - WINDOW_MAX_MS - 1), "0123456789abcdef")
                .provesClock(Problem.parse(400, problem.body())));
        assertEquals("{\"error\":\"CRYPTO_ERROR\"}", new String(rejection.answer(Form.PLAIN).body()));
        // So is one that a store finds off with the claim.
        Rejection late = exchange(NOW_MS, NOW_MS, ReplayPolicy.DEFAULT).session(session)
                .rejection(new ProtocolException(Code.TIMESTAMP_OUTSIDE_WINDOW), NOW_MS + 1);
        assertTrue(new String(late.answer(Form.PROBLEM).body()).contains("\"server_time_ms\":" + (NOW_MS + 1)));
    }

    @Test
    void aMethodThatIsNotSealedIsRejectedBeforeAnyHeaderIsRead() {
        for (String method : List.of("GET", "CONNECT", "TRACE")) {
            HeaderList headers = method.equals("GET") ? HeaderList.of() : HeaderList.of("X-Seal", "3");
            Rejection rejection = assertThrows(Rejection.class, () -> Exchange.begin(method, "/", headers, NOW_MS, ReplayPolicy.DEFAULT));
            for (Form form : Form.values()) {
                assertEquals(405, rejection.answer(form).status());
                assertEquals("POST, OPTIONS", new HeaderList(rejection.answer(form).headers()).first("Allow"));
            }
        }
        assertEquals("header_missing", code(() -> Exchange.begin("POST", "/", HeaderList.of(), NOW_MS, ReplayPolicy.DEFAULT)));
    }

    @Test
    void whatTheHeadersSayIsCheckedBeforeTheSessionIsLookedUp() {
        List<String> sealed = List.of("X-Seal", "3", "X-Kid", "session:none", "X-Idempotency-Key", NOW_MS + ".0123456789abcdef");
        for (List<String> added : List.of(List.of("X-Sealed", "*"), List.of("X-Sealed", "YQ==", "X-Sealed", "YQ=="),
                List.of("X-Sealed", "A".repeat(8196)), List.of("Content-Type", "a/b", "Content-Type", "a/b"))) {
            List<String> all = new ArrayList<>(sealed);
            all.addAll(added);
            HeaderList headers = HeaderList.of(all.toArray(String[]::new));
            assertEquals("header_invalid", code(() -> Exchange.begin("GET", "/", headers, NOW_MS, ReplayPolicy.DEFAULT)));
        }
        Exchange unknown = Exchange.begin("GET", "/", HeaderList.of(sealed.toArray(String[]::new)), NOW_MS, ReplayPolicy.DEFAULT);
        assertEquals("session_unknown", code(() -> unknown.sessionId()));
    }

    @Test
    void eachRejectionHasBothForms() {
        for (Code code : Code.values()) {
            for (Form form : Form.values()) {
                Answer answer = Rejection.of(new ProtocolException(code)).answer(form);
                HeaderList headers = new HeaderList(answer.headers());
                assertEquals(answer.status() == 503, headers.has("Retry-After"), code + " " + form);
                assertEquals("no-store", headers.first("Cache-Control"));
            }
        }
        for (Form form : Form.values()) {
            // The order of the checks shows in nothing.
            assertEquals(new String(Rejection.of(new ProtocolException(Code.UNSEALABLE)).answer(form).body()),
                    new String(Rejection.of(new ProtocolException(Code.AAD_MISMATCH)).answer(form).body()));
        }
        Answer full = new Rejection(Refusal.NONCES_FULL).answer(Form.PLAIN);
        assertEquals("400{\"error\":\"CRYPTO_ERROR\"}", full.status() + new String(full.body()));
        assertEquals(503, new Rejection(Refusal.NONCES_FULL).answer(Form.PROBLEM).status());
    }

    @Test
    void aRequestLooksSealedByAnyHeaderOfASeal() {
        for (String name : List.of("X-Seal", "X-Kid", "X-Idempotency-Key")) {
            assertTrue(Exchange.looksSealed(HeaderList.of(name, "")), name);
        }
        assertFalse(Exchange.looksSealed(HeaderList.of("X-Sealed", "")));
    }

    @Test
    void theCompatWiresCheckTheStampBeforeTheSessionIsLookedUp() {
        for (long off : new long[] {WINDOW_MAX_MS, WINDOW_MAX_MS + 1}) {
            HeaderList headers = HeaderList.of("X-Kid", "session:none", "X-ClientId", "c", "X-Idempotency-Key", NOW_MS + ".0123456789abcdef");
            assertEquals(off > WINDOW_MAX_MS ? "timestamp_outside_window" : "session_unknown",
                    code(() -> Exchange.begin("POST", "/", headers, NOW_MS + off, ReplayPolicy.DEFAULT).sessionId()));
        }
    }

    @Test
    void anAnonymousSessionHasASmallerBound() {
        SessionRecord anonymous = new SessionRecord("A-0", Wire.ONE, null, null, 0, 1, session.key(), null, "none");
        Opening opening = new Opening(null, anonymous, null);
        assertEquals(List.of(4096L, 4096L, 4095L), List.of(opening.bodyMax(5000), opening.bodyMax(4096), opening.bodyMax(4095)));
        assertEquals(anonymous, opening.session());
        assertEquals(5000, new Opening(null, session, null).bodyMax(5000));
    }

    @Test
    void aClaimIsReleasedByItsOwnReservation() {
        Claim claim = Claim.of(Claim.Scope.CLIENT, "c".repeat(256), "n", 5, 7, new ReplayPolicy(10));
        byte[] hashed = Bytes.join(new byte[] {1, 1, 0}, "c".repeat(256).getBytes(), "n".getBytes());
        assertEquals(new Claim(HexFormat.of().formatHex(Hashes.sha256(hashed)).substring(0, 32), false, 5, 10, 28), claim);
        Unreplayed<String> shut = new Unreplayed<>("value", claim);
        Claim same = Claim.of(Claim.Scope.CLIENT, "c".repeat(256), "n", 5, 7, new ReplayPolicy(10));
        Claim other = Claim.of(Claim.Scope.CLIENT, "c".repeat(256), "m", 5, 7, new ReplayPolicy(10));
        assertEquals(List.of("value", "value"), List.of(shut.release(Fresh.granted(claim)), shut.release(Fresh.granted(same))));
        assertEquals("reservation_mismatch", code(() -> shut.release(Fresh.granted(other))));
    }
}
