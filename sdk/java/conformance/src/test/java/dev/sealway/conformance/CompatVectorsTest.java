package dev.sealway.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.session.CompatExchange;
import dev.sealway.session.CompatInit;
import dev.sealway.session.CompatReply;
import dev.sealway.session.CompatSession;
import dev.sealway.session.Family;
import dev.sealway.session.Fresh;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.ServerInit;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.Json;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** All of {@code vectors/session}, both sides. */
class CompatVectorsTest {
    private static final Map<String, Integer> RAN = new TreeMap<>();

    @TestFactory
    Stream<DynamicTest> everyVectorOfTheCompatWiresHolds() {
        return Scenario.folder("session").stream().map(scenario -> DynamicTest.dynamicTest(scenario.name(), () -> {
            run(scenario);
            scenario.assertAllRead();
            RAN.merge(scenario.type(), 1, Integer::sum);
        }));
    }

    @AfterAll
    static void someOfEachTypeRan() {
        assertEquals(8, RAN.size(), RAN.toString());
        System.out.println("vectors/session: " + RAN.values().stream().mapToInt(n -> n).sum() + " ran, none skipped: " + RAN);
    }

    private static void run(Scenario s) {
        switch (s.type()) {
            case "init" -> init(s);
            case "init-refused" -> s.assertRefused(() -> acceptAny(s));
            case "client-init" -> clientInit(s);
            case "client-init-refused" -> s.assertRefused(() -> client(s, s.text("client_id"), null, 0).finish(s.bytes("answer"), 0));
            case "request" -> request(s);
            case "request-refused" -> {
                SessionRecord session = s.object("session").record();
                byte[] body = s.bytes("body");
                s.assertRefused(() -> CompatExchange.read(s.text("path"), s.headers(), s.number("now_ms"), s.window())
                        .session(session).openAll(body, s.number("now_ms")));
            }
            case "answer" -> answer(s);
            case "answer-refused" -> s.assertRefused(() -> seal(s.object("client"), s.object("request"))
                    .open(s.headers(), Math.toIntExact(s.number("status")), s.bytes("body"), s.number("received_ms"), s.window()));
            default -> fail(s.name() + ": unknown type " + s.type());
        }
    }

    private static Family family(Scenario s) {
        return switch (s.text("family")) {
            case "session" -> Family.SESSION;
            case "v1" -> Family.V1;
            case "anonymous" -> Family.ANONYMOUS;
            default -> fail("unknown family");
        };
    }

    private static void init(Scenario s) {
        Unreplayed<ServerInit> read = ServerInit.read(family(s), s.headers(), s.bytes("body"), s.number("now_ms"), s.window());
        s.assertClaim(read.claim());
        ServerInit.Grant accepted = read.release(Fresh.granted(read.claim())).accept(s.flag("authenticated"), null,
                s.hex("session_id_random_hex"), FixedKeys.curve(s.hex("server_scalar_hex")));
        assertEquals(s.text("answer"), accepted.answer());
        SessionRecord expected = s.object("session").record();
        SessionRecord session = accepted.session();
        assertEquals(expected.id(), session.id());
        assertEquals(expected.wire(), session.wire());
        assertEquals(expected.clientId(), session.clientId());
        assertEquals(expected.createdMs(), session.createdMs());
        assertEquals(expected.expiresMs(), session.expiresMs());
        assertArrayEquals(expected.key().copy(), session.key().copy());
        // The client of the same init comes to the same key; shared secret and info are there to find a difference by.
        byte[] peer = dev.sealway.crypto.Curve.P256.encode((java.security.interfaces.ECPublicKey) FixedKeys.curve(
                s.hex("server_scalar_hex")).getPublic());
        byte[] shared = dev.sealway.crypto.Curve.P256.agree(FixedKeys.curve(s.hex("client_scalar_hex")).getPrivate(), peer);
        s.assertHex("shared_secret_hex", shared);
        byte[] key = dev.sealway.crypto.Hashes.derive(shared, session.id().getBytes(StandardCharsets.US_ASCII),
                s.text("key_info").getBytes(StandardCharsets.US_ASCII)).copy();
        assertArrayEquals(key, session.key().copy());
    }

    private static CompatInit client(Scenario s, String clientId, Long ttlSec, long nowMs) {
        byte[] nonce = s.has("nonce_random_hex") ? s.hex("nonce_random_hex") : new byte[16];
        return new CompatInit(s.wire(), s.flag("anonymous"), clientId, ttlSec, FixedKeys.curve(s.hex("scalar_hex")), nonce, nowMs);
    }

    private static void clientInit(Scenario s) {
        CompatInit init = client(s, s.text("client_id"), s.optionalNumber("ttl_sec"), s.number("sent_ms"));
        Scenario request = s.object("request");
        request.assertHeaders(init.request().headers(), null);
        assertEquals(Json.parse(request.bytes("body")), Json.parse(init.request().body()));
        CompatSession session = init.finish(s.bytes("answer"), s.number("received_ms"));
        assertEquals(s.text("session_id"), session.id());
        assertEquals(s.number("expires_ms"), session.expiresMs());
        s.assertHex("key_hex", session.copyKey());
        Scenario probe = s.object("probe");
        SealedMessage sealed = session.sealAs(probe.text("path"), probe.bytes("plaintext"), probe.text("stamp"), probe.text("nonce"),
                probe.hex("iv_hex")).message();
        assertSealed(probe.object("sealed"), sealed);
    }

    private static CompatSession.Call seal(Scenario client, Scenario message) {
        CompatInit init = client(client, client.text("client_id"), null, 0);
        CompatSession session = init.finish(client.text("init_answer").getBytes(StandardCharsets.UTF_8), 0);
        CompatSession.Call call = session.sealAs(message.text("path"), message.bytes("plaintext"), message.text("stamp"),
                message.text("nonce"), message.hex("iv_hex"));
        assertSealed(message.object("sealed"), call.message());
        assertTrue(message.text("aad").contains(message.text("nonce")));
        return call;
    }

    private static void assertSealed(Scenario expected, SealedMessage sealed) {
        expected.assertHeaders(sealed.headers(), null);
        expected.assertBytes("body", sealed.body());
    }

    private static PlainRequest open(Scenario s, Scenario message, boolean isClaimGiven) {
        Scenario sealed = message.object("sealed");
        Exchange exchange = Exchange.begin("POST", message.text("path"), sealed.headers(), s.number("now_ms"), s.window());
        Unreplayed<PlainRequest> opened = exchange.session(s.object("session").record()).openAll(sealed.bytes("body"), s.number("now_ms"));
        if (isClaimGiven) {
            s.assertClaim(opened.claim());
        }
        return opened.release(Fresh.granted(opened.claim()));
    }

    private static void request(Scenario s) {
        Scenario message = s.object("request");
        seal(s.object("client"), message);
        assertArrayEquals(message.bytes("plaintext"), open(s, message, true).first());
    }

    private static void answer(Scenario s) {
        CompatReply reply = (CompatReply) open(s, s.object("request"), false).reply();
        Scenario answer = s.object("answer");
        SealedMessage sealed = reply.seal(Math.toIntExact(answer.number("status")), answer.bytes("plaintext"),
                answer.number("stamp_ms"), answer.hex("nonce_random_hex"), answer.hex("iv_hex"));
        Scenario expected = answer.object("sealed");
        assertSealed(expected, sealed);
        assertTrue(answer.text("aad").contains(answer.text("nonce")) && answer.text("aad").contains(answer.text("stamp")));
        assertEquals(s.object("request").text("path"), answer.text("path"));
        byte[] plaintext = seal(s.object("client"), s.object("request")).open(expected.headers(),
                Math.toIntExact(answer.number("status")), expected.bytes("body"), s.number("received_ms"), s.window());
        assertArrayEquals(answer.bytes("plaintext"), plaintext);
    }

    private static void acceptAny(Scenario s) {
        Unreplayed<ServerInit> read = ServerInit.read(family(s), s.headers(), s.bytes("body"), s.number("now_ms"), s.window());
        byte[] scalar = new byte[32];
        scalar[31] = 1;
        read.release(Fresh.granted(read.claim())).accept(false, null, new byte[16], FixedKeys.curve(scalar));
    }
}
