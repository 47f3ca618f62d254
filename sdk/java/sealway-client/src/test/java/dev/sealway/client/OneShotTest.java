package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.client.OneShotService.Request;
import dev.sealway.client.OneShotService.ServiceKey;
import dev.sealway.crypto.Kem;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import dev.sealway.wire.TruncatedException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PipedInputStream;
import java.io.PipedOutputStream;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Requests without a session, against a service whose HPKE is another implementation's. */
@Timeout(120)
class OneShotTest {
    private OneShotService service;

    @BeforeEach
    void start() throws IOException {
        service = new OneShotService();
    }

    @AfterEach
    void stop() {
        service.close();
    }

    private OneShot.Builder pinned() {
        return OneShot.to(service.url(), OneShotTrust.pins(service.keys.getFirst().pin()));
    }

    private OneShot.Builder rooted() {
        return OneShot.to(service.url(), OneShotTrust.root(service.rootText()));
    }

    private static SealedRequest post() {
        return SealedRequest.postJson("/pay?x=1", "{\"amount\":5000}");
    }

    private List<String> encs() {
        return service.requests.stream().map(Request::enc).toList();
    }

    @Test
    void everyKemServesEveryTrustWithAndWithoutAPsk() {
        for (Kem kem : Kem.values()) {
            service.keys = List.of(ServiceKey.generate(kem));
            for (OneShotTrust trust : List.of(OneShotTrust.pins(service.keys.getFirst().pin()), OneShotTrust.pins(service.keys.getFirst().kid()),
                    OneShotTrust.root(service.rootText()))) {
                for (boolean hasPsk : new boolean[] {false, true}) {
                    OneShot.Builder builder = OneShot.to(service.url(), trust);
                    try (OneShot client = (hasPsk ? builder.psk("team-a", OneShotService.PSK) : builder).build()) {
                        SealedAnswer answer = client.send(post().withHeader("x-own", "inside"));
                        assertEquals("{\"amount\":5000}", answer.text(), kem.text());
                        assertEquals("text/plain", answer.headers().first("content-type"));
                        Request last = service.requests.getLast();
                        assertEquals(hasPsk ? "team-a" : "", last.pskId());
                        assertEquals("inside", last.headers().first("x-own"));
                        // Without a body the stream, with its encapsulation, is in a header.
                        assertEquals(200, client.send(SealedRequest.get("/list")).status());
                        assertEquals(200, client.send(new SealedRequest("HEAD", "/list", List.of(), new byte[0], null)).status());
                        assertEquals("GET", service.requests.get(service.requests.size() - 2).method());
                    }
                }
            }
        }
        assertEquals(service.requests.size(), encs().stream().distinct().count(), "an encapsulation is used once");
    }

    @Test
    void aLargeBodyGoesBothWaysWholeAndAsAStream() throws IOException {
        byte[] body = new byte[300_000];
        new SecureRandom().nextBytes(body);
        SealedRequest request = new SealedRequest("POST", "/echo", List.of(), body, null);
        try (OneShot client = pinned().build(); SealedStream stream = client.stream(request)) {
            assertArrayEquals(body, stream.readAllBytes());
            assertArrayEquals(body, client.send(request).body());
            try (SealedStream other = client.stream(new SealedRequest("POST", "/echo", List.of(), new byte[0], null), new java.io.ByteArrayInputStream(body))) {
                assertArrayEquals(body, other.readAllBytes());
            }
        }
    }

    @Test
    void aStreamFlowsInBothDirectionsAtOnce() throws Exception {
        service.keys = List.of(ServiceKey.generate(Kem.X_WING));
        try (OneShot client = pinned().psk("team-a", OneShotService.PSK).build(); PipedInputStream body = new PipedInputStream()) {
            PipedOutputStream source = new PipedOutputStream(body);
            CompletableFuture<SealedStream> answer = CompletableFuture.supplyAsync(
                    () -> client.stream(new SealedRequest("POST", "/flow", List.of(), new byte[0], null), body));
            source.write("first".getBytes());
            source.flush();
            // The service has the first piece before the second exists.
            service.firstPiece.await();
            source.write("second".getBytes());
            source.close();
            try (SealedStream stream = answer.join()) {
                assertEquals("one", new String(stream.readNBytes(3)));
                service.goOn.countDown();
                assertEquals("two", new String(stream.readAllBytes()));
            }
        }
    }

    @Test
    void thePlatformsRequestsAndHandlersWork() throws Exception {
        try (OneShot client = pinned().build()) {
            HttpRequest request = HttpRequest.newBuilder(service.url().resolve("/pay?x=1")).header("x-own", "inside").timeout(Duration.ofSeconds(20))
                    .POST(BodyPublishers.ofString("{}")).build();
            HttpResponse<String> answer = client.send(request, BodyHandlers.ofString());
            assertEquals("{}", answer.body());
            assertEquals(200, answer.statusCode());
            assertEquals("text/plain", answer.headers().firstValue("Content-Type").orElseThrow());
            assertEquals("/pay?x=1", service.requests.getLast().target());
            assertEquals("inside", service.requests.getLast().headers().first("x-own"));
            try (InputStream stream = client.send(request, BodyHandlers.ofInputStream()).body()) {
                assertEquals("{}", new String(stream.readAllBytes()));
            }
            HttpRequest elsewhere = HttpRequest.newBuilder(java.net.URI.create("http://a.example/pay")).build();
            assertTrue(assertThrows(SealwayException.class, () -> client.send(elsewhere, BodyHandlers.ofString())).getMessage().contains("request is not below"));
        }
    }

    @Test
    void manyThreadsFetchTheDocumentOnce() {
        try (OneShot client = rooted().build()) {
            IntStream.range(0, 16).mapToObj(n -> client.sendAsync(post())).collect(Collectors.toList()).forEach(CompletableFuture::join);
        }
        assertEquals(1, service.fetches.get());
        assertEquals(16, encs().stream().distinct().count());
    }

    private static Problem skew(long serverMs) {
        return Problem.of("clock_skew", Map.of("server_time_ms", serverMs));
    }

    @Test
    void aSealedClockSkewSetsTheClockAndSafeMethodsGoAgain() {
        service.clockAheadMs = 3_600_000;
        try (OneShot client = pinned().build()) {
            assertEquals(200, client.send(SealedRequest.get("/list")).status());
            assertEquals(2, service.requests.size());
            assertEquals(2, encs().stream().distinct().count(), "a retry has a new encapsulation");
            assertFalse(service.requests.get(0).nonce().equals(service.requests.get(1).nonce()));
            // The clock stays corrected.
            client.send(post());
            assertEquals(3, service.requests.size());
            try (SealedStream stream = client.stream(SealedRequest.get("/list"))) {
                assertEquals(200, stream.status());
            }
        }
    }

    @Test
    void anUnsafeMethodGoesAgainOnlyIfItsStampWasTooOldForEveryServer() {
        for (long aheadMs : new long[] {3_600_000, 400_000, -3_600_000}) {
            service.requests.clear();
            service.clockAheadMs = aheadMs;
            try (OneShot client = pinned().build()) {
                if (aheadMs == 3_600_000) {
                    client.send(post());
                    assertEquals(2, service.requests.size());
                } else {
                    ClockSkewException refused = assertThrows(ClockSkewException.class, () -> client.send(post()));
                    assertTrue(refused.isSealed() && !refused.retryable(), refused.getMessage());
                    assertTrue(refused.getMessage().contains("outcome of the request is unknown; the next call works"), refused.getMessage());
                    assertEquals(1, service.requests.size());
                    client.send(post());
                }
            }
        }
        // A streamed body cannot be sent again, but the error says that it was not served.
        service.clockAheadMs = 3_600_000;
        try (OneShot client = pinned().build()) {
            ClockSkewException refused = assertThrows(ClockSkewException.class, () -> client.stream(post(), new java.io.ByteArrayInputStream(new byte[9])));
            assertTrue(refused.retryable(), refused.getMessage());
        }
    }

    @Test
    void aClockSkewGoesAgainOnce() {
        service.verdict = request -> skew(request.stampMs() + 3_600_000);
        try (OneShot client = pinned().build()) {
            assertThrows(ClockSkewException.class, () -> client.send(SealedRequest.get("/list")));
            assertEquals(2, service.requests.size());
        }
        // A time that no stamp can hold is none.
        service.verdict = request -> skew(Long.MAX_VALUE);
        try (OneShot client = pinned().build()) {
            assertThrows(ClockSkewException.class, () -> client.send(SealedRequest.get("/list")));
            assertEquals(3, service.requests.size());
            service.verdict = request -> null;
            client.send(post());
        }
    }

    @Test
    void aSealedProblemIsTypedAndNotSentAgain() {
        for (String code : List.of("replayed", "policy", "store_unavailable", "upstream_unreachable", "upstream_timeout", "something_new", "key_retired",
                "unsealable")) {
            service.requests.clear();
            Problem problem = List.of("something_new").contains(code)
                    ? new Problem(code, 418, Map.of("type", "urn:sealway:problem:" + code, "code", code)) : Problem.of(code, Map.of());
            service.verdict = request -> problem;
            try (OneShot client = rooted().build()) {
                ProblemException refused = assertThrows(ProblemException.class, () -> client.send(SealedRequest.get("/list")));
                assertEquals(code, refused.code());
                assertEquals(problem.status(), refused.status());
                assertTrue(refused.isSealed() && !refused.retryable());
                assertTrue(refused.getMessage().contains("outcome of the request is unknown"), refused.getMessage());
                assertEquals(code.equals("replayed"), refused instanceof ReplayedException);
                // Who lacks the key cannot seal: the code has no meaning there.
                assertFalse(refused instanceof KeyRetiredException);
                assertEquals(code, assertThrows(ProblemException.class, () -> client.stream(SealedRequest.get("/list"))).code());
                assertEquals(2, service.requests.size());
            }
        }
    }

    @Test
    void aProblemWithoutASealThatNeedsOneMeansNothing() {
        for (String code : List.of("replayed", "clock_skew", "policy", "session_expired")) {
            service.requests.clear();
            service.misbehaviour = (exchange, honest, status) -> FakeService.plain(exchange, 401,
                    Problem.of(code, Map.of("server_time_ms", 9_000_000_000_000L)).write());
            try (OneShot client = pinned().build()) {
                ProblemException refused = assertThrows(ProblemException.class, () -> client.send(SealedRequest.get("/list")));
                assertEquals(ProblemException.class, refused.getClass());
                assertFalse(refused.isSealed() || refused.retryable());
                assertFalse(refused.getMessage().contains("next call works"), refused.getMessage());
                service.misbehaviour = OneShotService::send;
                client.send(post());
                assertEquals(2, service.requests.size(), "nothing went again, and the clock was not moved");
            }
        }
    }

    @Test
    void aReplayedRequestIsRefusedByTheService() {
        List<SealedMessage> captured = new ArrayList<>();
        service.misbehaviour = (exchange, honest, status) -> {
            captured.add(honest);
            OneShotService.send(exchange, captured.getFirst(), status);
        };
        try (OneShot client = pinned().build()) {
            client.send(post());
            // The answer of another request does not open.
            ProtocolException refused = assertThrows(ProtocolException.class, () -> client.send(post()));
            assertEquals("unsealable", refused.code());
            assertEquals(Stage.CALL, refused.stage());
        }
    }

    @Test
    void anAnswerThatIsCutAnywhereIsTruncated() {
        SealedRequest small = new SealedRequest("POST", "/echo", List.of(), "0123456789".getBytes(), null);
        int[] length = {0};
        service.misbehaviour = (exchange, honest, status) -> {
            length[0] = honest.body().length;
            OneShotService.send(exchange, honest, status);
        };
        try (OneShot client = pinned().build()) {
            client.send(small);
            for (int at = 0; at < length[0]; at++) {
                int cut = at;
                service.misbehaviour = (exchange, honest, status) -> OneShotService.send(exchange,
                        new SealedMessage(honest.headers(), honest.contentType(), Arrays.copyOf(honest.body(), cut)), status);
                assertThrows(TruncatedException.class, () -> client.send(small), "cut at " + at);
                assertThrows(TruncatedException.class, () -> client.stream(small).readAllBytes(), "cut at " + at);
            }
        }
    }

    @Test
    void aChangedAnswerIsRefused() {
        try (OneShot client = pinned().build()) {
            service.misbehaviour = (exchange, honest, status) -> OneShotService.send(exchange, honest, 201);
            assertEquals("unsealable", assertThrows(ProtocolException.class, () -> client.send(post())).code());
            for (String mark : List.of("3", "5")) {
                service.misbehaviour = (exchange, honest, status) -> {
                    FakeService.head(exchange, honest);
                    exchange.getResponseHeaders().set("X-Seal", mark);
                    exchange.sendResponseHeaders(200, honest.body().length);
                    try (OutputStream out = exchange.getResponseBody()) {
                        out.write(honest.body());
                    }
                };
                assertEquals("header_invalid", assertThrows(ProtocolException.class, () -> client.send(post())).code());
            }
            service.misbehaviour = (exchange, honest, status) -> {
                FakeService.head(exchange, honest);
                // A problem of the server cannot be made of an answer of the service.
                exchange.getResponseHeaders().set("X-Idempotency-Key", exchange.getResponseHeaders().getFirst("X-Idempotency-Key").replace("r-", "p-"));
                exchange.sendResponseHeaders(200, honest.body().length);
                try (OutputStream out = exchange.getResponseBody()) {
                    out.write(honest.body());
                }
            };
            assertEquals("unsealable", assertThrows(ProtocolException.class, () -> client.send(post())).code());
            service.misbehaviour = (exchange, honest, status) -> FakeService.plain(exchange, 200, "{}".getBytes());
            ProblemException plain = assertThrows(ProblemException.class, () -> client.send(post()));
            assertEquals("unsealed", plain.code());
        }
    }

    @Test
    void aWrongPskIsUnsealable() {
        try (OneShot client = pinned().psk("team-a", new byte[32]).build()) {
            ProblemException refused = assertInstanceOf(ProblemException.class, assertThrows(SealwayException.class, () -> client.send(post())));
            assertEquals("unsealable", refused.code());
            assertFalse(refused.isSealed());
            assertEquals(0, service.served.get());
        }
    }
}
