package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.client.FakeService.Misbehaviour;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.SequenceInputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** A service that lies, stalls or breaks off: typed errors, nothing hangs, nothing of a plaintext in a message. */
@Timeout(30)
class HostileServiceTest {
    private static final String SECRET = "my-secret-plaintext";
    private FakeService service;
    private SealwayClient client;

    @BeforeEach
    void start() throws IOException {
        service = new FakeService();
        client = builder().build();
    }

    private SealwayClient.Builder builder() {
        return builder(service.url());
    }

    private SealwayClient.Builder builder(URI url) {
        return SealwayClient.builder(url).authorityUrl(service.url()).trust(Trust.pins(service.pin())).totalTimeout(Duration.ofSeconds(8))
                .answerMaxBytes(4 << 20).suites(Suite.P256, Suite.X25519MLKEM768);
    }

    @AfterEach
    void stop() {
        client.close();
        service.close();
    }

    private static SealedRequest request() {
        return new SealedRequest("POST", "/echo?a=b", List.of(), SECRET.getBytes(), null);
    }

    private void assertRefused(String code, Misbehaviour misbehaviour) {
        service.misbehaviour = misbehaviour;
        SealwayException refused = assertThrows(SealwayException.class, () -> client.send(request()));
        assertEquals(code, refused.code(), refused.toString());
        for (Throwable cause = refused; cause != null; cause = cause.getCause()) {
            assertFalse(cause.toString().contains(SECRET), cause.toString());
        }
    }

    private static SealedMessage with(SealedMessage message, String name, String value) {
        List<Header> headers = new java.util.ArrayList<>(message.headers().list());
        headers.removeIf(header -> header.name().equals(name));
        if (value != null) {
            headers.add(new Header(name, value));
        }
        return new SealedMessage(new HeaderList(headers), message.contentType(), message.body());
    }

    @Test
    void anHonestAnswerOpens() {
        SealedAnswer answer = client.send(request());
        assertEquals(SECRET, answer.text());
        assertEquals("text/plain", answer.headers().first("content-type"));
        assertTrue(answer.metrics().crypto().containsKey("aes-gcm-decrypt"));
    }

    @Test
    void aFlippedBitIsUnsealable() {
        assertRefused("unsealable", (exchange, honest) -> {
            honest.body()[honest.body().length - 1] ^= 1;
            FakeService.send(exchange, honest);
        });
    }

    @Test
    void anAnswerToAnotherRequestIsUnsealable() {
        AtomicReference<SealedMessage> first = new AtomicReference<>();
        service.misbehaviour = (exchange, honest) -> {
            first.set(honest);
            FakeService.send(exchange, honest);
        };
        client.send(request());
        assertRefused("unsealable", (exchange, honest) -> FakeService.send(exchange, first.get()));
    }

    @Test
    void answersThatWereSwappedAreUnsealable() throws Exception {
        AtomicReference<SealedMessage> held = new AtomicReference<>();
        CountDownLatch both = new CountDownLatch(2);
        AtomicReference<SealedMessage> other = new AtomicReference<>();
        service.misbehaviour = (exchange, honest) -> {
            boolean isFirst = held.compareAndSet(null, honest);
            if (!isFirst) {
                other.set(honest);
            }
            both.countDown();
            try {
                both.await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
            FakeService.send(exchange, isFirst ? other.get() : held.get());
        };
        client.session();
        List<CompletableFuture<SealedAnswer>> calls = List.of(client.sendAsync(request()), client.sendAsync(request()));
        for (CompletableFuture<SealedAnswer> call : calls) {
            Exception failed = assertThrows(java.util.concurrent.ExecutionException.class, call::get);
            assertEquals("unsealable", ((SealwayException) failed.getCause()).code());
        }
    }

    @Test
    void aMissingHeaderIsNamed() {
        assertRefused("header_missing", (exchange, honest) -> FakeService.send(exchange, with(honest, HeaderNames.X_KID, null)));
    }

    @Test
    void anAnswerThatIsNotSealedIsUnsealed() {
        assertRefused("unsealed", (exchange, honest) -> FakeService.plain(exchange, 200, SECRET.getBytes()));
    }

    @Test
    void anotherStatusThanTheSealedOneIsUnsealable() {
        assertRefused("unsealable", (exchange, honest) -> FakeService.send(exchange, honest, 201));
    }

    @Test
    void aCutBodyIsStreamTruncated() {
        assertRefused("stream_truncated", (exchange, honest) -> FakeService.send(exchange, new SealedMessage(honest.headers(),
                honest.contentType(), java.util.Arrays.copyOf(honest.body(), 10))));
    }

    @Test
    void aConnectionThatBreaksIsANetworkErrorOfTheCall() {
        assertRefused("network", (exchange, honest) -> {
            FakeService.head(exchange, honest);
            exchange.sendResponseHeaders(200, honest.body().length + 100L);
            exchange.getResponseBody().write(honest.body());
            exchange.getResponseBody().flush();
            exchange.close();
        });
    }

    @Test
    void anAnswerOfTenMebibytesIsTooLarge() {
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
    }

    @Test
    void aSlowBodyEndsAtTheDeadline() {
        client.session();
        service.misbehaviour = (exchange, honest) -> {
            FakeService.head(exchange, honest);
            exchange.sendResponseHeaders(200, honest.body().length);
            exchange.getResponseBody().write(honest.body(), 0, 5);
            exchange.getResponseBody().flush();
            sleep(5_000);
        };
        long begin = System.nanoTime();
        SealwayException late = assertThrows(SealwayException.class,
                () -> client.send(request().withTotalTimeout(Duration.ofMillis(700))));
        assertEquals("timeout", late.code());
        assertTrue(System.nanoTime() - begin < 4_000_000_000L);
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    void aRedirectIsNotFollowed() {
        assertRefused("redirected", (exchange, honest) -> {
            exchange.getResponseHeaders().set("Location", "/elsewhere");
            exchange.sendResponseHeaders(307, -1);
        });
        assertEquals(1, service.served.get());
    }

    @Test
    void aStatusOf5xxIsAnErrorWithItsCode() {
        assertRefused("unsealed", (exchange, honest) -> FakeService.plain(exchange, 503, "down".getBytes()));
        assertRefused("upstream_timeout", (exchange, honest) -> FakeService.plain(exchange, 504,
                "{\"type\":\"urn:sealway:problem:upstream_timeout\",\"code\":\"upstream_timeout\"}".getBytes()));
    }

    @Test
    void aCallThatIsCancelledEndsItsExchangeAtTheServiceToo() throws Exception {
        try (Tap tap = new Tap(service.url()); SealwayClient tapped = builder(tap.url()).build()) {
            tapped.session();
            CountDownLatch begun = new CountDownLatch(1);
            CountDownLatch end = new CountDownLatch(1);
            service.misbehaviour = (exchange, honest) -> {
                begun.countDown();
                await(end);
            };
            CompletableFuture<SealedAnswer> call = tapped.sendAsync(request());
            begun.await();
            assertFalse(tap.ended.await(300, TimeUnit.MILLISECONDS));
            call.cancel(true);
            assertThrows(CancellationException.class, call::join);
            assertTrue(tap.ended.await(3, TimeUnit.SECONDS));
            end.countDown();
        }
    }

    @Test
    void aCallThatTimesOutEndsItsExchangeAtTheServiceToo() throws Exception {
        try (Tap tap = new Tap(service.url()); SealwayClient tapped = builder(tap.url()).build()) {
            tapped.session();
            CountDownLatch end = new CountDownLatch(1);
            service.misbehaviour = (exchange, honest) -> await(end);
            assertThrows(TransportException.class, () -> tapped.send(request().withTotalTimeout(Duration.ofMillis(400))));
            assertTrue(tap.ended.await(3, TimeUnit.SECONDS));
            end.countDown();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Passes connections on, and notices when their client ends one. */
    private static final class Tap implements AutoCloseable {
        final CountDownLatch ended = new CountDownLatch(1);
        private final ServerSocket socket = new ServerSocket(0, 50, java.net.InetAddress.getLoopbackAddress());

        Tap(URI service) throws IOException {
            Thread.ofVirtual().start(() -> {
                try {
                    while (true) {
                        Socket client = socket.accept();
                        Socket there = new Socket(service.getHost(), service.getPort());
                        Thread.ofVirtual().start(() -> pump(client, there, ended));
                        Thread.ofVirtual().start(() -> pump(there, client, new CountDownLatch(1)));
                    }
                } catch (IOException closed) {
                    return;
                }
            });
        }

        private static void pump(Socket from, Socket to, CountDownLatch end) {
            try {
                from.getInputStream().transferTo(to.getOutputStream());
            } catch (IOException broken) {
                // A reset is an end too.
            } finally {
                end.countDown();
            }
        }

        URI url() {
            return URI.create("http://127.0.0.1:" + socket.getLocalPort());
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    @Test
    void theFirstPieceOfAStreamArrivesBeforeTheRestWasSentEitherWay() throws Exception {
        SynchronousBody body = new SynchronousBody();
        CompletableFuture<SealedStream> opened = CompletableFuture.supplyAsync(
                () -> client.stream(new SealedRequest("POST", "/flow", List.of(), new byte[0], null), body));
        body.pieces.put("first".getBytes());
        assertTrue(service.firstPiece.await(3, TimeUnit.SECONDS));
        body.pieces.put(new byte[0]);
        try (SealedStream answer = opened.get(5, TimeUnit.SECONDS)) {
            assertEquals("one", new String(answer.readNBytes(3)));
            service.goOn.countDown();
            assertEquals("two", new String(answer.readAllBytes()));
        }
    }

    /** A body of the pieces that a test puts; an empty one is the end. */
    private static final class SynchronousBody extends InputStream {
        final BlockingQueue<byte[]> pieces = new LinkedBlockingQueue<>();

        @Override
        public int read() {
            throw new UnsupportedOperationException();
        }

        @Override
        public int read(byte[] out, int from, int length) throws IOException {
            try {
                byte[] piece = pieces.take();
                System.arraycopy(piece, 0, out, from, piece.length);
                return piece.length == 0 ? -1 : piece.length;
            } catch (InterruptedException interrupted) {
                throw new IOException(interrupted);
            }
        }
    }

    @Test
    void anAddressWithoutAServiceIsUnreachable() throws IOException {
        int port;
        try (ServerSocket socket = new ServerSocket(0)) {
            port = socket.getLocalPort();
        }
        try (SealwayClient nobody = SealwayClient.builder(URI.create("http://127.0.0.1:" + port))
                .trust(Trust.pins(List.of(service.pin()))).build()) {
            assertEquals("unreachable", assertThrows(SealwayException.class, nobody::session).code());
        }
    }

    @Test
    void aKeyThatIsNotPinnedIsNotTrusted() {
        try (SealwayClient other = builder().trust(Trust.pins(List.of("00".repeat(16)))).build()) {
            assertEquals("key_retired", assertThrows(SealwayException.class, other::session).code());
        }
    }

    @Test
    void aStreamThatStallsOrBreaksIsAnErrorOfItsReader() throws IOException {
        service.misbehaviour = (exchange, honest) -> {
            FakeService.head(exchange, honest);
            exchange.sendResponseHeaders(200, 0);
            exchange.getResponseBody().write(honest.body(), 0, honest.body().length - 1);
            exchange.getResponseBody().flush();
            sleep(4_000);
        };
        SealedRequest large = new SealedRequest("POST", "/echo", List.of(), new byte[100_000], null);
        try (SealwayClient patient = builder().idleTimeout(Duration.ofMillis(500)).build(); SealedStream answer = patient.stream(large)) {
            SealwayException late = assertThrows(SealwayException.class, answer::readAllBytes);
            assertEquals("timeout", late.code());
            assertTrue(late.getMessage().contains("500 ms (option `idleTimeout`)"), late.getMessage());
        }
        service.misbehaviour = (exchange, honest) -> {
            honest.body()[40] ^= 1;
            FakeService.send(exchange, honest);
        };
        assertEquals("unsealable", assertThrows(SealwayException.class, () -> client.stream(request())).code());
    }

    @Test
    void theTimeForTheHeadCountsFromTheLastPartOfTheRequest() throws IOException {
        service.misbehaviour = (exchange, honest) -> sleep(3_000);
        try (SealwayClient hasty = builder().headTimeout(Duration.ofMillis(400)).build()) {
            for (Executable call : List.<Executable>of(() -> hasty.send(request()), () -> hasty.send(SealedRequest.get("/echo")),
                    () -> hasty.stream(request()))) {
                long begin = System.nanoTime();
                SealwayException late = assertThrows(SealwayException.class, call);
                assertEquals("timeout", late.code());
                assertEquals(Stage.CALL, late.stage());
                assertFalse(late.retryable());
                assertTrue(late.getMessage().contains("400 ms (option `headTimeout`)") && late.getMessage().contains("unknown"), late.getMessage());
                assertTrue(System.nanoTime() - begin < 2_000_000_000L);
            }
            service.misbehaviour = FakeService::send;
            InputStream slow = new SequenceInputStream(Collections.enumeration(IntStream.range(0, 4).mapToObj(at -> new ByteArrayInputStream("x".getBytes()) {
                @Override
                public synchronized int read(byte[] out, int from, int length) {
                    sleep(200);
                    return super.read(out, from, length);
                }
            }).toList()));
            try (SealedStream answer = hasty.stream(request(), slow)) {
                assertEquals("xxxx", new String(answer.readAllBytes()));
            }
        }
    }

    @Test
    void theTotalTimeoutBoundsAStreamUnlessItIsZero() throws IOException {
        service.misbehaviour = (exchange, honest) -> {
            FakeService.head(exchange, honest);
            exchange.sendResponseHeaders(200, 0);
            exchange.getResponseBody().write(honest.body(), 0, honest.body().length - 1);
            exchange.getResponseBody().flush();
            sleep(2_500);
            exchange.getResponseBody().write(honest.body(), honest.body().length - 1, 1);
        };
        byte[] body = new byte[100_000];
        SealedRequest large = new SealedRequest("POST", "/echo", List.of(), body, null);
        long begin = System.nanoTime();
        try (SealedStream answer = client.stream(large.withTotalTimeout(Duration.ofMillis(700)))) {
            SealwayException late = assertThrows(SealwayException.class, answer::readAllBytes);
            assertEquals("timeout", late.code());
            assertTrue(late.getMessage().contains("700 ms (option `totalTimeout`)"), late.getMessage());
            assertTrue(System.nanoTime() - begin < 2_000_000_000L);
        }
        try (SealwayClient endless = builder().totalTimeout(Duration.ZERO).build(); SealedStream answer = endless.stream(large)) {
            assertEquals(body.length, answer.readAllBytes().length);
        }
    }

    @Test
    void eachExchangeIsMeasured() throws IOException {
        List<String> endpoints = new CopyOnWriteArrayList<>();
        try (SealwayClient measured = builder().onMetrics(metrics -> endpoints.add(metrics.endpoint())).build()) {
            measured.send(request());
            measured.stream(request()).close();
            measured.end();
        }
        assertEquals(List.of("init", "call", "call", "end"), endpoints);
    }

    @Test
    void aStreamGoesBothWays() throws IOException {
        byte[] large = new byte[300_000];
        new java.util.Random(1).nextBytes(large);
        InputStream body = new java.io.ByteArrayInputStream(large);
        try (SealedStream answer = client.stream(new SealedRequest("PUT", "/echo", List.of(), new byte[0], null), body)) {
            assertEquals(200, answer.status());
            assertArrayEquals(large, answer.readAllBytes());
        }
        try (SealedStream answer = client.stream(SealedRequest.get("/echo"))) {
            assertEquals(0, answer.readAllBytes().length);
        }
        assertEquals("", new String(client.send(SealedRequest.get("/echo")).body(), StandardCharsets.UTF_8));
    }

    @Test
    void aCaptivePortalIsNamedWithTheHost() throws Exception {
        com.sun.net.httpserver.HttpServer portal = com.sun.net.httpserver.HttpServer.create(new java.net.InetSocketAddress("127.0.0.1", 0), 0);
        portal.createContext("/", exchange -> {
            byte[] page = "<!DOCTYPE html><html>Accept our terms</html>".getBytes();
            exchange.getResponseHeaders().set("Content-Type", "text/html");
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        portal.start();
        java.net.URI url = java.net.URI.create("http://127.0.0.1:" + portal.getAddress().getPort());
        try (SealwayClient client = SealwayClient.builder(url).trust(Trust.pins(java.util.List.of("0".repeat(32)))).build()) {
            String told = assertThrows(ProblemException.class, client::session).getMessage();
            assertTrue(told.contains("captive portal") && told.contains(url.getAuthority()), told);
        } finally {
            portal.stop(0);
        }
        try (SealwayClient client = SealwayClient.builder(url).trust(Trust.pins(java.util.List.of("0".repeat(32)))).build()) {
            String told = assertThrows(TransportException.class, client::session).getMessage();
            assertTrue(told.contains(url.getAuthority()) && told.contains("the connection was refused"), told);
        }
    }
}
