package dev.sealway.session.nativeprotocol;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.Curve;
import dev.sealway.crypto.MlKem;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.crypto.SigningKey;
import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

/** Inits and renewals between the two sides of this SDK. */
class InitsTest {
    private static final long NOW_MS = 1_750_000_000_000L;
    private static final SecureRandom RANDOM = new SecureRandom();
    private final KeyPair pair = Curve.P256.generate(RANDOM);
    private final Identity identity = new Identity(Curve.P256.encode((ECPublicKey) pair.getPublic()), 5, NOW_MS + 1,
            message -> Curve.P256.sign(pair.getPrivate(), message, RANDOM));

    private static Agreement.Offer offer(String clientId, String authorization) {
        return new Agreement.Offer(List.of("P256"), clientId, 600L, List.of(), authorization);
    }

    private static Agreement agreement(UnaryOperator<InitRequest> prove) {
        return new Agreement(offer("client-1", "Bearer x"), ClientShare.generate(Suite.P256, RANDOM), prove);
    }

    private Acceptance.Grant accept(InitRequest request, String authorization, SessionRecord renewed, long nowMs) {
        Acceptance.Decision decision = new Acceptance.Decision(new byte[16], 600, nowMs, "bearer", "s", "t");
        return Acceptance.accept(request, authorization, decision, List.of("P256"), List.of(identity), suite -> ServerShare.generate(suite, RANDOM), renewed);
    }

    private NativeSession finish(Agreement agreement, Acceptance.Grant grant) {
        return agreement.finish(201, grant.body(), Map.of(identity.keyId(), identity.publicKey())::get);
    }

    private static byte[] openedBy(SessionRecord record, SealedMessage sealed) {
        List<Header> headers = new ArrayList<>(sealed.headers().list());
        if (sealed.contentType() != null) {
            headers.add(new Header("Content-Type", sealed.contentType()));
        }
        Unreplayed<PlainRequest> opened = Exchange.begin("GET", "/", new HeaderList(headers), NOW_MS, ReplayPolicy.DEFAULT).session(record)
                .openAll(sealed.body(), NOW_MS);
        return opened.release(Fresh.granted(opened.claim())).first();
    }

    private static String code(Runnable step) {
        return assertThrows(ProtocolException.class, step::run).code();
    }

    @Test
    void anInitIsRenewed() {
        Agreement first = agreement(request -> request.withProof("proof"));
        assertEquals("proof", first.request().proof());
        Acceptance.Grant grant = accept(first.request(), "Bearer x", null, NOW_MS);
        NativeSession session = finish(first, grant);
        SessionRecord record = grant.session();
        assertArrayEquals(record.key().copy(), session.copyPrk());
        assertEquals(List.of("client-1", NOW_MS + 600_000), List.of(session.clientId(), session.expiresMs()));
        assertEquals(List.of("client-1", "s", NOW_MS, NOW_MS + 600_000, "t", "bearer"),
                List.of(record.clientId(), record.subject(), record.createdMs(), record.expiresMs(), record.tenant(), record.auth()));
        assertEquals(List.of(identity.keyId()), session.agreed().keyIds());

        Agreement renewal = new Agreement(offer("another", null), ClientShare.generate(Suite.P256, RANDOM), session);
        assertEquals("client-1", renewal.request().clientId());
        Acceptance.Grant renewed = accept(renewal.request(), "Bearer y", record, NOW_MS - 1);
        NativeSession second = finish(renewal, renewed);
        assertArrayEquals(renewed.session().key().copy(), second.copyPrk());
        assertFalse(Arrays.equals(session.copyPrk(), second.copyPrk()));
        assertEquals(List.of(NOW_MS, NOW_MS - 1 + 600_000), List.of(renewed.session().createdMs(), renewed.session().expiresMs()));
        // The session before is in force until it is ended.
        assertFalse(record.key().isDestroyed());
        assertEquals("policy", code(() -> accept(first.request(), null, record, NOW_MS)));
        Agreement other = new Agreement(offer("another", null), ClientShare.generate(Suite.P256, RANDOM), (UnaryOperator<InitRequest>) null);
        assertEquals("policy", code(() -> accept(other.request(), null, record, NOW_MS)));
        // Only the session that was renewed can finish it.
        assertEquals("signature_invalid", code(() -> finish(Agreement.of(renewal.request(), ClientShare.generate(Suite.P256, RANDOM), null, null), renewed)));
    }

    @Test
    void anInitIsBoundToTheAuthorizationAsSent() {
        Agreement agreement = agreement(null);
        assertNull(agreement.request().proof());
        assertEquals("signature_invalid", code(() -> finish(agreement, accept(agreement.request(), "Bearer y", null, NOW_MS))));
        assertEquals("signature_invalid", code(() -> finish(agreement, accept(agreement.request(), null, null, NOW_MS))));
        assertEquals("client-1", finish(agreement, accept(agreement.request(), "Bearer x", null, NOW_MS)).clientId());
        ClientShare another = ClientShare.generate(Suite.P256, RANDOM);
        assertEquals("unconfirmed", code(() -> finish(Agreement.of(agreement.request(), another, "Bearer x", null),
                accept(agreement.request(), "Bearer x", null, NOW_MS))));
        assertEquals("key_retired", code(() -> accept(agreement.request(), null, null, NOW_MS + 1)));
        assertTrue(identity.isLive(5) && !identity.isLive(4));
    }

    @Test
    void aClosedSessionHasNoKeys() {
        Agreement agreement = agreement(null);
        NativeSession session = finish(agreement, accept(agreement.request(), "Bearer x", null, NOW_MS));
        SecretBytes exporter = session.exporter();
        assertSame(exporter, session.exporter());
        RequestKeys.WholeRequest sealed = session.seal("POST", "/", List.of(), new byte[0], NOW_MS, new byte[16]);
        session.close();
        assertTrue(exporter.isDestroyed() && session.s2c().isDestroyed());
        assertThrows(IllegalStateException.class, session::copyPrk);
        assertThrows(IllegalStateException.class, () -> session.seal("POST", "/", List.of(), new byte[0], NOW_MS, new byte[16]));
        assertEquals("POST", sealed.call().toString().substring("NativeCall[".length(), "NativeCall[POST".length()));
        SessionKeys unused = new SessionKeys(SecretBytes.owning(new byte[32]));
        unused.close();
        assertTrue(unused.prk.isDestroyed() && unused.c2s.isDestroyed() && unused.s2c.isDestroyed());
    }

    @Test
    void anAgreementWipesItsSecret() {
        byte[] secret = {1, 2, 3};
        SessionKeys.schedule(new byte[32], secret, null);
        assertArrayEquals(new byte[3], secret);
    }

    @Test
    void aBodyHas16KiBAtMost() {
        byte[] body = Arrays.copyOf(agreement(null).request().write(), 16_385);
        for (int at = 0; at < body.length; at++) {
            body[at] = body[at] == 0 ? (byte) ' ' : body[at];
        }
        assertEquals(600L, InitRequest.read(Arrays.copyOf(body, 16_384)).ttlSec());
        assertEquals("body_too_large", code(() -> InitRequest.read(body)));
    }

    @Test
    void aLifeIsWithinItsBounds() {
        long[][] lives = {{299, 300}, {300, 300}, {301, 301}, {3600, 3600}, {3601, 3600}, {0, 300}, {0xffff_ffffL, 3600}};
        for (long[] life : lives) {
            InitRequest request = new InitRequest("P256", List.of("P256"), new byte[65], "c", life[0], null, List.of(), List.of());
            assertEquals(life[1], Acceptance.ttlSec(request, 3600));
        }
        assertEquals(3600, Acceptance.ttlSec(new InitRequest("P256", List.of("P256"), new byte[65], "c", null, null, List.of(), List.of()), 3600));
    }

    @Test
    void anEmptyRequestGoesIntoAHeaderWhileItFits() {
        // 8192 characters of base64 are 6144 bytes.
        int most = 6144 - (int) FrameSealer.streamLen(0);
        for (String method : new String[] {"GET", "HEAD", "DELETE", "POST", "PUT", "PATCH", "get"}) {
            boolean has = List.of("GET", "HEAD", "DELETE").contains(method);
            assertEquals(List.of(has, has, false),
                    List.of(Placement.isBodiless(method, 2), Placement.isBodiless(method, most), Placement.isBodiless(method, most + 1)));
        }
        Agreement agreement = agreement(null);
        Acceptance.Grant grant = accept(agreement.request(), "Bearer x", null, NOW_MS);
        SessionRecord record = grant.session();
        NativeSession session = finish(agreement, grant);
        for (int more : new int[] {0, 1}) {
            // Length of the block, then of name and value.
            List<Header> inner = List.of(new Header("a", "x".repeat(most - 2 - 4 + more)));
            RequestKeys.WholeRequest sealed = session.seal("GET", "/", inner, new byte[0], NOW_MS, new byte[16]);
            assertEquals(more == 0, sealed.message().headers().has("X-Sealed"));
            assertEquals(more == 0 ? 0 : 6145, sealed.message().body().length);
            assertEquals(more == 0 ? null : Placement.OCTETS, sealed.message().contentType());
            assertArrayEquals(new byte[0], openedBy(record, sealed.message()));
        }
        assertFalse(session.seal("GET", "/", List.of(), new byte[1], NOW_MS, new byte[16]).message().headers().has("X-Sealed"));
        assertEquals("inner_headers_invalid", code(() -> Placement.message(HeaderList.of(), new byte[6145], true)));
        for (String method : new String[] {"CONNECT", "TRACE", "OPTIONS", "trace"}) {
            assertEquals("header_invalid", code(() -> session.begin(method, "/", null, "1", "n")));
        }
        assertEquals("header_invalid", code(() -> session.begin("GET", "/".repeat(8193), null, "1", "n")));
        HeaderList longest = session.begin("GET", "/".repeat(8192), null, Long.toString(NOW_MS), "0123456789abcdef").headers();
        NativeExchange.read("GET", "/".repeat(8192), longest, NOW_MS, ReplayPolicy.DEFAULT);
        assertEquals("header_invalid", code(() -> NativeExchange.read("GET", "/".repeat(8193), longest, NOW_MS, ReplayPolicy.DEFAULT)));
    }

    @Test
    void anAnswerWithoutABodyIsThatOfItsMethodOrStatus() {
        for (int status : new int[] {200, 203, 204, 205, 206, 303, 304, 305}) {
            assertEquals(status == 204 || status == 205 || status == 304, Placement.isBodilessAnswer("GET", status));
            assertTrue(Placement.isBodilessAnswer("HEAD", status));
        }
    }

    @Test
    void aProblemIsReadUpToItsBound() {
        String problem = "{\"code\":\"clock_skew\",\"type\":\"urn:sealway:problem:clock_skew\",\"texts\":[\"a\",1],\"text\":\"b\"}";
        Problem read = Problem.parse(400, (problem + " ".repeat(Problem.BYTES_MAX - problem.length())).getBytes());
        assertEquals(List.of("clock_skew", 400, List.of("a"), List.of(), List.of()),
                List.of(read.code(), read.status(), read.texts("texts"), read.texts("text"), read.texts("none")));
        assertNull(Problem.parse(400, (problem + " ".repeat(Problem.BYTES_MAX + 1 - problem.length())).getBytes()));
        assertEquals(5L, Problem.of("clock_skew", Map.of("server_time_ms", 5L)).serverTimeMs());
        assertNull(Problem.of("clock_skew", Map.of("server_time_ms", "5")).serverTimeMs());
        assertEquals("clock_skew", NativeCall.problem(400, problem.getBytes()).code());
        assertEquals("answer_mismatch", code(() -> NativeCall.problem(400, "{}".getBytes())));
    }

    @Test
    void aRequestIsUnservedIfItsStampWasTooOldBeforeItLeft() {
        Agreement agreement = agreement(null);
        NativeCall call = finish(agreement, accept(agreement.request(), "Bearer x", null, NOW_MS)).call("POST", "/", "1000", "n");
        Problem late = Problem.of("clock_skew", Map.of("server_time_ms", 1000 + 2 * Resends.WINDOW_MAX_MS + 6));
        assertTrue(call.isUnserved(late, true, 5) && call.isUnserved(late, true, -1));
        assertFalse(call.isUnserved(late, true, 6) || call.isUnserved(late, false, 5));
    }

    @Test
    void anIdentityIsOfItsPrivateKey() {
        Identity of = Identity.of(SigningKey.of(Curve.P256, pair, RANDOM), 1, 2);
        assertEquals(identity.keyId(), of.keyId());
        assertTrue(Curve.P256.verifies(of.publicKey(), new byte[1], of.signer().sign(new byte[1])));
    }

    @Test
    void aServerWipesTheSecretOfAnEncapsulation() {
        MlKem.Encapsulation made = new MlKem.Encapsulation(new byte[] {1}, new byte[] {2});
        ServerShare.SharedSecret agreed = new ServerShare(null, null, key -> made).agree(Suite.MLKEM1024, new byte[MlKem.ML_KEM_1024.publicLen()]);
        assertArrayEquals(new byte[] {1}, agreed.share());
        assertArrayEquals(new byte[] {2}, agreed.secret());
        assertArrayEquals(new byte[1], made.secret());
    }
}
