package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import dev.sealway.client.FakeService.Misbehaviour;
import dev.sealway.crypto.Curve;
import dev.sealway.exchange.AnswerSeal;
import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.session.Family;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.ServerInit;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A service of wires 1 and 2 on a real socket that lies, stalls or breaks off. */
@Timeout(30)
class CompatWiresTest {
    private static final String SECRET = "my-secret-plaintext";
    private final SecureRandom random = new SecureRandom();
    private final Map<String, SessionRecord> sessions = new ConcurrentHashMap<>();
    private final AtomicInteger inits = new AtomicInteger();
    private final AtomicInteger calls = new AtomicInteger();
    private volatile Misbehaviour misbehaviour = FakeService::send;
    private volatile Misbehaviour ofInits = null;
    private volatile long sleptMs;
    private HttpServer http;
    private SealwayClient client;

    @BeforeEach
    void start() throws IOException {
        http = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        http.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
        http.createContext("/", this::handle);
        http.start();
    }

    @AfterEach
    void stop() {
        client.close();
        http.stop(0);
    }

    private void begin(Wire wire) {
        client = SealwayClient.builder(URI.create("http://127.0.0.1:" + http.getAddress().getPort())).wire(wire)
                .answerMaxBytes(4 << 20).totalTimeout(Duration.ofSeconds(8)).day(() -> Instant.now().plusMillis(sleptMs)).build();
    }

    private byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readAllBytes();
            HeaderList headers = FakeService.headers(exchange);
            long nowMs = System.currentTimeMillis();
            if (exchange.getRequestURI().getPath().equals("/session/init")) {
                inits.incrementAndGet();
                Unreplayed<ServerInit> read = ServerInit.read(Family.SESSION, headers, body, nowMs, ReplayPolicy.DEFAULT);
                ServerInit.Grant accepted = read.release(Fresh.granted(read.claim())).accept(false, null, draw(16), Curve.P256.generate(random));
                sessions.put(accepted.session().id(), accepted.session());
                SealedMessage answer = new SealedMessage(HeaderList.of(), "application/json", accepted.answer().getBytes());
                if (ofInits == null) {
                    FakeService.send(exchange, answer);
                } else {
                    ofInits.answer(exchange, answer);
                }
                return;
            }
            calls.incrementAndGet();
            Exchange call = Exchange.begin("POST", exchange.getRequestURI().getPath(), headers, nowMs, ReplayPolicy.DEFAULT);
            SessionRecord session = sessions.get(call.sessionId());
            if (session == null) {
                FakeService.plain(exchange, 401, "{\"error\":\"SESSION_EXPIRED\"}".getBytes());
                return;
            }
            Unreplayed<PlainRequest> opened = call.session(session).openAll(body, nowMs);
            PlainRequest plain = opened.release(Fresh.granted(opened.claim()));
            misbehaviour.answer(exchange, ((AnswerSeal.Whole) plain.reply().answer(200)).seal(plain.first(), nowMs, draw(16), draw(12)));
        } catch (SealwayException refused) {
            FakeService.plain(exchange, 400, "{\"error\":\"CRYPTO_ERROR\"}".getBytes());
        }
    }

    private static SealedRequest request() {
        return new SealedRequest("POST", "/echo", List.of(), SECRET.getBytes(), null);
    }

    private void assertRefused(String code, Misbehaviour wrong) {
        misbehaviour = wrong;
        SealwayException refused = assertThrows(SealwayException.class, () -> client.send(request()));
        assertEquals(code, refused.code(), refused.toString());
        for (Throwable cause = refused; cause != null; cause = cause.getCause()) {
            assertFalse(cause.toString().contains(SECRET), cause.toString());
        }
    }

    private static SealedMessage without(SealedMessage message, String name) {
        List<Header> headers = new ArrayList<>(message.headers().list());
        headers.removeIf(header -> header.name().equals(name));
        return new SealedMessage(new HeaderList(headers), message.contentType(), message.body());
    }

    @ParameterizedTest
    @EnumSource(value = Wire.class, names = {"ONE", "TWO"})
    void theLifeOfASessionCountsFromWhenItsInitWasSent(Wire wire) {
        begin(wire);
        // The answer takes almost all of the half hour that it grants.
        ofInits = (exchange, answer) -> {
            sleptMs = 1_795_000;
            FakeService.send(exchange, answer);
        };
        client.send(request());
        client.send(request());
        assertEquals(2, inits.get());
    }

    @ParameterizedTest
    @EnumSource(value = Wire.class, names = {"ONE", "TWO"})
    void aMachineThatSleptPastTheEndOfItsSessionAgreesANewOne(Wire wire) {
        begin(wire);
        assertEquals(SECRET, client.send(request()).text());
        sleptMs = 86_400_000;
        assertEquals(SECRET, client.send(request()).text());
        assertEquals(2, inits.get());
    }

    @ParameterizedTest
    @EnumSource(value = Wire.class, names = {"ONE", "TWO"})
    void aWrongAnswerIsATypedError(Wire wire) {
        begin(wire);
        AtomicReference<SealedMessage> first = new AtomicReference<>();
        misbehaviour = (exchange, honest) -> {
            first.set(honest);
            FakeService.send(exchange, honest);
        };
        assertEquals(SECRET, client.send(request()).text());
        assertRefused("unsealable", (exchange, honest) -> {
            honest.body()[3] = (byte) (honest.body()[3] == 'A' ? 'B' : 'A');
            FakeService.send(exchange, honest);
        });
        assertRefused("unsealed", (exchange, honest) -> FakeService.send(exchange, without(honest, "X-Kid"), 500));
        for (Header header : first.get().headers()) {
            assertRefused("header_missing", (exchange, honest) -> FakeService.send(exchange, without(honest, header.name())));
        }
        assertRefused("unsealed", (exchange, honest) -> FakeService.plain(exchange, 503, SECRET.getBytes()));
        assertRefused("header_missing", (exchange, honest) -> FakeService.plain(exchange, 200, SECRET.getBytes()));
        assertRefused("unsealed", (exchange, honest) -> FakeService.plain(exchange, 200, ("<html>" + SECRET).getBytes()));
        assertRefused("redirected", (exchange, honest) -> {
            exchange.getResponseHeaders().set("Location", "/elsewhere");
            exchange.sendResponseHeaders(307, -1);
        });
        SealwayException cut = assertThrows(SealwayException.class, () -> {
            misbehaviour = (exchange, honest) -> FakeService.send(exchange, new SealedMessage(honest.headers(), honest.contentType(),
                    java.util.Arrays.copyOf(honest.body(), honest.body().length / 2)));
            client.send(request());
        });
        assertTrue(List.of("unsealable", "base64_invalid", "body_too_short").contains(cut.code()), cut.code());
        assertEquals(1, inits.get());
    }

    @ParameterizedTest
    @EnumSource(value = Wire.class, names = {"ONE", "TWO"})
    void waitsAndReadsAreBounded(Wire wire) {
        begin(wire);
        client.session();
        assertRefused("body_too_large", (exchange, honest) -> {
            FakeService.head(exchange, honest);
            exchange.sendResponseHeaders(200, 0);
            byte[] chunk = new byte[1 << 20];
            try (var out = exchange.getResponseBody()) {
                for (int at = 0; at < 10; at++) {
                    out.write(chunk);
                }
            } catch (IOException closed) {
                return;
            }
        });
        assertRefused("network", (exchange, honest) -> {
            FakeService.head(exchange, honest);
            exchange.sendResponseHeaders(200, honest.body().length + 100L);
            exchange.getResponseBody().write(honest.body());
            exchange.getResponseBody().flush();
            exchange.close();
        });
        misbehaviour = (exchange, honest) -> {
            FakeService.head(exchange, honest);
            exchange.sendResponseHeaders(200, honest.body().length);
            exchange.getResponseBody().write(honest.body(), 0, 5);
            exchange.getResponseBody().flush();
            try {
                Thread.sleep(5_000);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        };
        long began = System.nanoTime();
        assertEquals("timeout", assertThrows(SealwayException.class,
                () -> client.send(request().withTotalTimeout(Duration.ofMillis(600)))).code());
        assertTrue(System.nanoTime() - began < 4_000_000_000L);
    }

    @ParameterizedTest
    @EnumSource(value = Wire.class, names = {"ONE", "TWO"})
    void aForgottenSessionIsReplacedOnce(Wire wire) {
        begin(wire);
        client.send(request());
        sessions.clear();
        assertEquals(SECRET, client.send(request()).text());
        assertEquals(2, inits.get());
        assertEquals(3, calls.get());
        assertRefused("SESSION_EXPIRED", (exchange, honest) -> FakeService.plain(exchange, 401, "{\"error\":\"SESSION_EXPIRED\"}".getBytes()));
        assertEquals(5, calls.get());
    }

    @ParameterizedTest
    @EnumSource(value = Wire.class, names = {"ONE", "TWO"})
    void aMalformedAnswerToAnInitIsATypedError(Wire wire) {
        begin(wire);
        ofInits = (exchange, honest) -> FakeService.plain(exchange, 200, "<html>".getBytes());
        assertTrue(assertThrows(ProblemException.class, client::session).getMessage().contains("captive portal"));
        for (String body : new String[] {"", "{}", "[]", "{\"sessionId\":\"S-1\"}", "<"}) {
            ofInits = (exchange, honest) -> FakeService.plain(exchange, 200, body.getBytes());
            SealwayException refused = assertThrows(SealwayException.class, client::session);
            assertTrue(List.of("json_invalid", "field_invalid", "public_key_invalid").contains(refused.code()), refused.code());
        }
        ofInits = (exchange, honest) -> FakeService.plain(exchange, 503, "{\"error\":\"SERVICE_UNAVAILABLE\"}".getBytes());
        assertEquals("SERVICE_UNAVAILABLE", assertThrows(ProblemException.class, client::session).code());
        ofInits = null;
        assertEquals(SECRET, client.send(request()).text());
    }
}
