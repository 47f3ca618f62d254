package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import dev.sealway.mle.Alg;
import dev.sealway.mle.Enc;
import dev.sealway.mle.KeyName;
import dev.sealway.mle.Message;
import dev.sealway.mle.MleException;
import dev.sealway.mle.OpeningKey;
import dev.sealway.mle.OpeningKeys;
import dev.sealway.mle.Plaintext;
import dev.sealway.mle.Profile;
import dev.sealway.mle.SealingKey;
import dev.sealway.mle.Tokens;
import dev.sealway.session.Fresh;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The client for messages of card schemes, against a service over HTTP that opens and seals by the same rules. */
class MleClientTest {
    private static final String TEXT = "{\"pan\":\"4111111111111111\",\"n\":12345678901234567890}";
    private static final SecureRandom RANDOM = new SecureRandom();
    private static KeyPair ofService;
    private static KeyPair ofClient;
    private final CountDownLatch end = new CountDownLatch(1);
    private HttpServer server;
    private String seen;
    private Map<String, List<String>> seenHeaders;

    @BeforeAll
    static void draw() throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        ofService = generator.generateKeyPair();
        ofClient = generator.generateKeyPair();
    }

    private interface Service {
        void answer(HttpExchange exchange, byte[] body) throws IOException;
    }

    private URI serve(Service service) throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            seen = new String(body, StandardCharsets.UTF_8);
            seenHeaders = exchange.getRequestHeaders();
            service.answer(exchange, body);
            exchange.close();
        });
        server.start();
        return URI.create("http://127.0.0.1:" + server.getAddress().getPort());
    }

    @AfterEach
    void stop() {
        end.countDown();
        if (server != null) {
            server.stop(0);
        }
    }

    private static void write(HttpExchange exchange, int status, byte[] body) throws IOException {
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
    }

    private static SealingKey seals(KeyPair pair) {
        return SealingKey.of(pair.getPublic().getEncoded(), Alg.RSA_OAEP_256, Enc.A256GCM, KeyName.fixed("k"));
    }

    private static OpeningKeys opens(KeyPair pair) {
        return OpeningKeys.of(OpeningKey.of(pair.getPrivate().getEncoded(), Alg.RSA_OAEP_256, KeyName.fixed("k")));
    }

    private static MleClient.Builder client(URI url, Profile profile) {
        return MleClient.builder(url, profile, List.of(seals(ofService)), opens(ofClient));
    }

    private static byte[] toClient(Profile profile, KeyPair recipient) {
        return Tokens.seal(TEXT.getBytes(StandardCharsets.UTF_8), profile, Message.ANSWER, seals(recipient), System.currentTimeMillis(), RANDOM);
    }

    @Test
    void requestsAreSealedAndAnswersOpenedOnEveryProfile() throws Exception {
        for (Profile profile : List.of(Profile.mastercardJwe(), Profile.visa(), Profile.visaAcceptance(),
                Profile.genericJwe(List.of(Alg.RSA_OAEP_256), List.of(Enc.A256GCM), Profile.Unit.SECONDS))) {
            URI url = serve((exchange, body) -> {
                Unreplayed<Plaintext> guarded = Tokens.open(body, HeaderList.of(), profile, Message.REQUEST, opens(ofService), System.currentTimeMillis(), RANDOM);
                byte[] plain = guarded.release(Fresh.granted(guarded.claim())).bytes();
                exchange.getResponseHeaders().set("Content-Type", profile.mediaType(Message.ANSWER));
                exchange.getResponseHeaders().set("X-Kept", "yes");
                write(exchange, 201, Tokens.seal(plain, profile, Message.ANSWER, seals(ofClient), System.currentTimeMillis(), RANDOM));
            });
            SealedRequest request = SealedRequest.postJson("/payments?a=%2f", TEXT).withHeader("Content-MD5", "digest").withHeader("X-Mine", "1");
            MleAnswer answer = client(url, profile).build().send(request);
            assertEquals("201 " + TEXT + " true", answer.status() + " " + answer.text() + " " + answer.isOpened());
            assertEquals("yes", answer.headers().first("x-kept"));
            assertEquals("application/json", answer.headers().first("content-type"));
            assertFalse(seen.contains("4111111111111111"), seen);
            assertEquals(List.of(profile.mediaType(Message.REQUEST)), seenHeaders.get("Content-type"));
            assertEquals(List.of("identity"), seenHeaders.get("Accept-encoding"));
            assertEquals(List.of("1"), seenHeaders.get("X-mine"));
            assertFalse(seenHeaders.containsKey("Content-md5"));
            stop();
        }
    }

    @Test
    void whatIsNoAnswerOfTheProfileIsAnError() throws Exception {
        record Case(String name, int status, List<Header> headers, byte[] body, String code) {
        }
        Profile profile = Profile.visa();
        byte[] right = toClient(profile, ofClient);
        byte[] plain = TEXT.getBytes(StandardCharsets.UTF_8);
        byte[] beside = new String(right, StandardCharsets.US_ASCII).replace("}", ",\"pan\":\"4\"}").getBytes(StandardCharsets.US_ASCII);
        byte[] changed = new String(right, StandardCharsets.US_ASCII).replace("\"}", "A\"}").getBytes(StandardCharsets.US_ASCII);
        for (Case wrong : List.of(new Case("a plain answer", 200, List.of(), plain, "unsealed"), new Case("an error in clear", 401, List.of(), plain, "unsealed"),
                new Case("a member beside it", 200, List.of(), beside, "unsealed"), new Case("another key", 200, List.of(), toClient(profile, ofService), "unsealable"),
                new Case("a changed token", 500, List.of(), changed, "unsealable"),
                new Case("a compressed token", 200, List.of(new Header("Content-Encoding", "gzip")), right, "unsealed"),
                new Case("a long answer", 200, List.of(), new byte[100_001], "body_too_large"),
                new Case("a redirect", 307, List.of(new Header("Location", "/other")), new byte[0], "redirected"))) {
            URI url = serve((exchange, body) -> {
                wrong.headers().forEach(header -> exchange.getResponseHeaders().set(header.name(), header.value()));
                write(exchange, wrong.status(), wrong.body());
            });
            MleClient client = client(url, profile).answerMaxBytes(100_000).build();
            SealwayException failed = assertThrows(SealwayException.class, () -> client.send(SealedRequest.postJson("/", TEXT)), wrong.name());
            assertEquals(wrong.code(), failed.code(), wrong.name());
            assertEquals(url.getAuthority(), failed.host(), wrong.name());
            assertFalse(failed.retryable() || failed.getMessage().contains("4111111111111111") || failed.remedy().isEmpty(), failed.getMessage());
            if (wrong.code().equals("unsealable")) {
                assertEquals(wrong.name().equals("another key") ? MleException.Reason.UNWRAP : MleException.Reason.TAG, ((MleException) failed).reason());
            }
            stop();
        }
    }

    @Test
    void errorsInClearAndAnswersWithoutABodyPassWhereTheyMay() throws Exception {
        for (int status : new int[] {422, 204}) {
            URI url = serve((exchange, body) -> write(exchange, status, status == 204 ? new byte[0] : "wrong amount".getBytes(StandardCharsets.UTF_8)));
            MleAnswer answer = client(url, Profile.mastercardJwe()).plainErrors(true).build().send(SealedRequest.get("/x"));
            assertEquals(status + (status == 204 ? "" : "wrong amount"), answer.status() + answer.text());
            assertFalse(answer.isOpened());
            assertEquals("", seen);
            stop();
        }
    }

    @Test
    void aCallEndsInTimeAndOptionsThatAreWrongAreNamed() throws Exception {
        URI url = serve((exchange, body) -> {
            try {
                end.await();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        });
        MleClient client = client(url, Profile.visa()).totalTimeout(Duration.ofMillis(50)).build();
        TransportException late = assertThrows(TransportException.class, () -> client.send(SealedRequest.postJson("/", TEXT)));
        assertEquals("timeout", late.code());
        assertTrue(late.getMessage().contains("totalTimeout"), late.getMessage());
        MleClient.Builder builder = client(url, Profile.visa());
        Map<String, Runnable> wrong = Map.of("url", () -> client(URI.create("ftp://x"), Profile.visa()), "profile", () -> client(url, null),
                "window", () -> builder.window(Duration.ofDays(2)), "answerMaxBytes", () -> builder.answerMaxBytes(0), "totalTimeout", () -> builder.totalTimeout(null),
                "seal", () -> MleClient.builder(url, Profile.visa(), List.of(), opens(ofClient)));
        wrong.forEach((name, run) -> {
            UsageException usage = assertThrows(UsageException.class, run::run, name);
            assertTrue(usage.getMessage().contains(name), usage.getMessage());
            assertEquals(Stage.CONFIGURATION, usage.stage());
        });
    }
}
