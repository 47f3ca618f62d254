package dev.sealway.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.mle.Alg;
import dev.sealway.mle.Enc;
import dev.sealway.mle.KeyName;
import dev.sealway.mle.Message;
import dev.sealway.mle.OpeningKey;
import dev.sealway.mle.OpeningKeys;
import dev.sealway.mle.Plaintext;
import dev.sealway.mle.Profile;
import dev.sealway.mle.SealingKey;
import dev.sealway.mle.Tokens;
import dev.sealway.server.MemoryStore;
import dev.sealway.server.MleGate;
import dev.sealway.server.SessionStore;
import dev.sealway.server.StoreException;
import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.HeaderList;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Base64;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import org.eclipse.jetty.ee11.servlet.FilterHolder;
import org.eclipse.jetty.ee11.servlet.ServletContextHandler;
import org.eclipse.jetty.ee11.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The filter for messages of card schemes before a servlet, in Jetty, over HTTP. */
class MleFilterTest {
    private static final String TEXT = "{\"pan\":\"4111111111111111\",\"n\":12345678901234567890}";
    private static final String REFUSED = "400 {\"error\":\"CRYPTO_ERROR\"}";
    private static final SecureRandom RANDOM = new SecureRandom();
    private static KeyPair ofService;
    private static KeyPair ofNext;
    private static KeyPair ofClient;
    private final HttpClient http = HttpClient.newHttpClient();
    private final Map<String, String> seen = new TreeMap<>();
    private volatile int served;
    private volatile String refused;
    private Server server;
    private URI url;

    @BeforeAll
    static void draw() throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        ofService = generator.generateKeyPair();
        ofNext = generator.generateKeyPair();
        ofClient = generator.generateKeyPair();
    }

    private static OpeningKey opens(KeyPair pair, String kid) {
        return OpeningKey.of(pair.getPrivate().getEncoded(), Alg.RSA_OAEP_256, KeyName.fixed(kid));
    }

    private static SealingKey seals(KeyPair pair, String kid) {
        return SealingKey.of(pair.getPublic().getEncoded(), Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.fixed(kid));
    }

    private static byte[] sealed(Profile profile, String text) {
        return Tokens.seal(text.getBytes(StandardCharsets.UTF_8), profile, Message.REQUEST, seals(ofService, "service"), System.currentTimeMillis(), RANDOM);
    }

    private static String opened(Profile profile, byte[] body) {
        Unreplayed<Plaintext> guarded = Tokens.open(body, HeaderList.of(), profile, Message.ANSWER, OpeningKeys.of(opens(ofClient, "client")),
                System.currentTimeMillis(), RANDOM);
        return new String(guarded.release(Fresh.granted(guarded.claim())).bytes(), StandardCharsets.UTF_8);
    }

    private interface Handler {
        void serve(HttpServletRequest request, HttpServletResponse response) throws IOException;
    }

    private void echo(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setHeader("ETag", "digest");
        response.setHeader("X-Kept", "yes");
        response.setContentType("application/json");
        response.getOutputStream().write(request.getInputStream().readAllBytes());
    }

    private void start(Profile profile, SessionStore store, List<SealingKey> recipients, UnaryOperator<MleGate.Builder> settings, Handler handler)
            throws Exception {
        OpeningKeys keys = OpeningKeys.of(opens(ofService, "service"), opens(ofNext, "next"));
        MleGate gate = settings.apply((store == null ? MleGate.builderAllowingReplays(profile, keys) : MleGate.builder(profile, keys, store))
                .onRefusal(rejection -> refused = rejection.code())).build();
        server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler();
        context.addFilter(new FilterHolder(new MleFilter(gate, request -> recipients)), "/*", EnumSet.of(DispatcherType.REQUEST));
        context.addServlet(new ServletHolder(new HttpServlet() {
            private static final long serialVersionUID = 1;

            @Override
            protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
                served++;
                seen.clear();
                request.getHeaderNames().asIterator().forEachRemaining(name -> seen.put(name, request.getHeader(name)));
                handler.serve(request, response);
            }
        }), "/*");
        server.setHandler(context);
        server.start();
        url = URI.create("http://127.0.0.1:" + connector.getLocalPort() + "/payments");
    }

    private void start(Profile profile) throws Exception {
        start(profile, new MemoryStore(100, System::currentTimeMillis), List.of(seals(ofClient, "client")), gate -> gate, this::echo);
    }

    @AfterEach
    void stop() throws Exception {
        if (server != null) {
            server.stop();
        }
    }

    private HttpResponse<byte[]> send(byte[] body, String... headers) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(url).POST(BodyPublishers.ofByteArray(body)).timeout(Duration.ofSeconds(60));
        return http.send((headers.length == 0 ? request : request.headers(headers)).build(), BodyHandlers.ofByteArray());
    }

    private String answer(byte[] body, String... headers) throws Exception {
        HttpResponse<byte[]> response = send(body, headers);
        return response.statusCode() + " " + new String(response.body(), StandardCharsets.UTF_8);
    }

    @Test
    void aServletOfEveryProfileSeesThePlainRequestAndItsAnswerIsSealed() throws Exception {
        for (Profile profile : List.of(Profile.mastercardJwe(), Profile.visa(), Profile.visaAcceptance(),
                Profile.genericJwe(List.of(Alg.RSA_OAEP_256), List.of(Enc.A256GCM), Profile.Unit.NONE))) {
            start(profile);
            for (String text : List.of(TEXT, "\"\ud83d\ude00\"", "x".repeat(500_000))) {
                HttpResponse<byte[]> response = send(sealed(profile, text), "X-Sealway-Wire", "mle:forged", "X-Forwarded-For", "1.2.3.4", "Content-MD5", "digest",
                        "X-Idempotency-Key", "kept", "keyId", "service");
                assertEquals(200, response.statusCode(), profile.name() + refused);
                assertEquals(text, opened(profile, response.body()));
                assertEquals("yes", response.headers().firstValue("X-Kept").orElse(null));
                assertTrue(response.headers().firstValue("ETag").isEmpty());
                assertEquals(profile.mediaType(Message.ANSWER), response.headers().firstValue("Content-Type").orElse(null));
                assertEquals("mle:" + profile.name(), seen.get("x-sealway-wire"));
                assertEquals("application/json", seen.get("content-type"));
                assertEquals("kept", seen.get("x-idempotency-key"));
                assertNull(seen.get("x-forwarded-for"));
                assertNull(seen.get("content-md5"));
            }
            HttpResponse<byte[]> empty = http.send(HttpRequest.newBuilder(url).GET().build(), BodyHandlers.ofByteArray());
            assertEquals("200 0", empty.statusCode() + " " + empty.body().length);
            assertNull(seen.get("x-sealway-wire"));
            stop();
        }
    }

    @Test
    void everyWrongTokenHasOneAnswerAndReachesNoServlet() throws Exception {
        start(Profile.visa());
        byte[] right = sealed(Profile.visa(), TEXT);
        String token = new String(right, StandardCharsets.US_ASCII).replaceAll(".*:\"|\"}", "");
        String[] parts = token.split("\\.");
        Map<String, String> wrong = Map.of("json", TEXT, "shape", "{\"encData\":\"a.b.c\"}", "base64", body(token + "="),
                "alg", body(header("{\"alg\":\"RSA1_5\"}", parts)), "zip", body(header("{\"zip\":\"DEF\"}", parts)), "header", body(header("[", parts)),
                "kid", body(header("{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A128GCM\",\"kid\":\"x\"}", parts)),
                "iat", body(header("{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A128GCM\",\"kid\":\"service\"}", parts)),
                "unwrap", body(token.replace(parts[1], "A".repeat(342))), "tag", body(token.replace(parts[4], "A".repeat(22))));
        for (Map.Entry<String, String> one : wrong.entrySet()) {
            assertEquals(REFUSED, answer(one.getValue().getBytes(StandardCharsets.UTF_8)), one.getKey());
            assertEquals(one.getKey(), refused);
        }
        assertEquals(REFUSED, answer(new byte[0]));
        assertEquals(REFUSED, answer(right, "keyId", "other"));
        assertEquals("415 {\"error\":\"CRYPTO_ERROR\"}", answer(right, "Content-Encoding", "gzip"));
        assertEquals("413 {\"error\":\"PAYLOAD_TOO_LARGE\"}", answer(new byte[(1 << 20) + 1]));
        assertEquals(0, served);
        assertEquals(200, send(right).statusCode());
        assertEquals(REFUSED, answer(right));
        assertEquals("replayed", refused);
        assertEquals(1, served);
    }

    private static String body(String token) {
        return "{\"encData\":\"" + token + "\"}";
    }

    private static String header(String json, String[] parts) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(json.getBytes(StandardCharsets.UTF_8)) + "." + parts[1] + "." + parts[2] + "." + parts[3] + "."
                + parts[4];
    }

    @Test
    void aTokenWithoutTimeIsAReplayTooAndBothKeysOfARotationOpen() throws Exception {
        start(Profile.mastercardJwe());
        byte[] right = sealed(Profile.mastercardJwe(), "{}");
        assertEquals(200, send(right).statusCode());
        // Another spelling of it.
        assertEquals(REFUSED, answer(new String(right, StandardCharsets.US_ASCII).replace('-', '+').replace("_", "\\/").getBytes(StandardCharsets.US_ASCII)));
        assertEquals("replayed", refused);
        byte[] next = Tokens.seal(right, Profile.mastercardJwe(), Message.REQUEST, seals(ofNext, "next"), System.currentTimeMillis(), RANDOM);
        assertEquals(200, send(next).statusCode());
        stop();
        start(Profile.mastercardJwe(), null, List.of(seals(ofClient, "client")), gate -> gate, this::echo);
        assertEquals(200, send(right).statusCode());
        assertEquals(200, send(right).statusCode());
    }

    /** A store that grants nothing. */
    private record BrokenStore(boolean isFull) implements SessionStore {
        @Override
        public SessionRecord find(String id) {
            return null;
        }

        @Override
        public Fresh reserve(Claim claim) {
            throw new StoreException(isFull, "broken", null);
        }
    }

    private void serves(String want, SessionStore store, List<SealingKey> recipients, UnaryOperator<MleGate.Builder> settings, Handler handler) throws Exception {
        start(Profile.mastercardJwe(), store, recipients, settings, handler);
        String got = answer(sealed(Profile.mastercardJwe(), TEXT));
        assertTrue(got.startsWith(want), got);
        assertFalse(got.contains("4111111111111111"), got);
        stop();
    }

    @Test
    void aServerThatCannotServeATokenSaysSo() throws Exception {
        List<SealingKey> client = List.of(seals(ofClient, "client"));
        serves("403 {\"error\":\"SESSION_FORBIDDEN\"}", null, List.of(), gate -> gate, this::echo);
        serves("503 {\"error\":\"SERVICE_UNAVAILABLE\"}", new BrokenStore(false), client, gate -> gate, this::echo);
        serves(REFUSED, new BrokenStore(true), client, gate -> gate, this::echo);
        assertEquals(0, served);
        SealingKey sha1 = SealingKey.of(ofClient.getPublic().getEncoded(), Alg.RSA_OAEP, Enc.A256GCM, KeyName.fixed("client"));
        serves("502 {\"error\":\"SERVICE_UNAVAILABLE\"}", null, List.of(sha1), gate -> gate, this::echo);
        serves("502 {\"error\":\"SERVICE_UNAVAILABLE\"}", null, client, gate -> gate.answerMaxBytes(10), this::echo);
        serves("502 {\"error\":\"SERVICE_UNAVAILABLE\"}", null, client, gate -> gate, (request, response) -> {
            response.setHeader("Content-Encoding", "gzip");
            response.getOutputStream().write(1);
        });
        serves("500 ", null, client, gate -> gate, (request, response) -> {
            throw new IllegalStateException(TEXT);
        });
        serves("422 {\"encryptedData\":\"", null, client, gate -> gate, MleFilterTest::fail);
        serves("422 wrong amount", null, client, gate -> gate.plainErrors(true), MleFilterTest::fail);
    }

    private static void fail(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setStatus(422);
        response.getWriter().print("wrong amount");
    }

    @Test
    void aBodyThatDoesNotArriveIsNotWaitedFor() throws Exception {
        start(Profile.mastercardJwe(), null, List.of(seals(ofClient, "client")), gate -> gate.bodyTimeout(Duration.ofMillis(100)), this::echo);
        try (Socket socket = new Socket("127.0.0.1", url.getPort())) {
            socket.setSoTimeout(30_000);
            socket.getOutputStream().write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{".getBytes(StandardCharsets.US_ASCII));
            assertEquals("HTTP/1.1 400", new String(socket.getInputStream().readNBytes(12), StandardCharsets.US_ASCII));
        }
        assertEquals("0 body_too_slow", served + " " + refused);
    }
}
