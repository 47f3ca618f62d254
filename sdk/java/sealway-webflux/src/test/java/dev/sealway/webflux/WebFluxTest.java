package dev.sealway.webflux;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.client.ProblemException;
import dev.sealway.client.SealedRequest;
import dev.sealway.server.RouteTable.Mode;
import dev.sealway.server.RouteTable;
import dev.sealway.server.SealGate;
import dev.sealway.session.CompatSession;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import dev.sealway.wire.Wire;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DefaultDataBufferFactory;
import org.springframework.http.HttpHeaders;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;
import org.springframework.web.reactive.function.client.ClientResponse;
import org.springframework.web.reactive.function.client.WebClient;

/** WebClient with the exchange filter against reactor-netty with the web filter. */
@Timeout(60)
class WebFluxTest extends Fixture {
    @Test
    void aCallArrivesWithItsHeadersAndItsBody() {
        for (int length : new int[] {1, 1000, 300_000}) {
            byte[] body = draw(length);
            ResponseEntity<byte[]> answer = web.post().uri("/sealed/echo?a=b%20c").contentType(MediaType.APPLICATION_PDF).bodyValue(body)
                    .exchangeToMono(response -> response.toEntity(byte[].class)).timeout(LIMIT).block();
            assertEquals(200, answer.getStatusCode().value());
            assertArrayEquals(body, answer.getBody());
            assertEquals(MediaType.APPLICATION_PDF, answer.getHeaders().getContentType());
            assertEquals("ann", answer.getHeaders().getFirst("seen-subject"));
            assertEquals("null", answer.getHeaders().getFirst("seen-kid"));
            assertNull(answer.getHeaders().getFirst("X-Seal"));
        }
        assertEquals(1, inits.get());
    }

    @Test
    void messagesWithoutABodyAreSealedToo() {
        assertEquals(204, web.delete().uri("/sealed/none").exchangeToMono(response -> response.toBodilessEntity()).block(LIMIT)
                .getStatusCode().value());
        assertEquals(200, web.get().uri("/sealed/echo").exchangeToMono(ClientResponse::toBodilessEntity).block(LIMIT).getStatusCode().value());
    }

    @Test
    void onlyCookiesInsideTheSealAreSeen() {
        assertEquals("[who=ann]", web.post().uri("/sealed/echo").cookie("who", "ann").bodyValue("x")
                .exchangeToMono(ClientResponse::toBodilessEntity).block(LIMIT).getHeaders().getFirst("seen-cookies"));
        WebClient between = web.mutate().filter((request, next) -> next.exchange(org.springframework.web.reactive.function.client.ClientRequest
                .from(request).headers(headers -> headers.set("Cookie", "who=root")).build())).build();
        assertEquals("[]", between.post().uri("/sealed/echo").bodyValue("x").exchangeToMono(ClientResponse::toBodilessEntity)
                .block(LIMIT).getHeaders().getFirst("seen-cookies"));
    }

    @Test
    void answersStream() {
        List<String> parts = web.get().uri("/sealed/events").retrieve().bodyToFlux(DataBuffer.class)
                .map(buffer -> new String(Buffers.take(buffer))).collectList().block(LIMIT);
        assertEquals(List.of("part 0", "part 1", "part 2", "part 3"), parts);
    }

    @Test
    void aPieceOfAnAnswerArrivesBeforeTheNextOneIsThere() throws Exception {
        BlockingQueue<String> arrived = new LinkedBlockingQueue<>();
        web.get().uri("/sealed/pieces").retrieve().bodyToFlux(DataBuffer.class).map(buffer -> new String(Buffers.take(buffer)))
                .doOnComplete(() -> arrived.add("end")).subscribe(arrived::add);
        for (String piece : List.of("one", "two")) {
            pieces.tryEmitNext(piece);
            assertEquals(piece, arrived.poll(5, TimeUnit.SECONDS));
        }
        pieces.tryEmitComplete();
        assertEquals("end", arrived.poll(5, TimeUnit.SECONDS));
    }

    /** Sends two frames, the second when the first was seen by the handler, and gives the status. */
    private String frames() throws Exception {
        try (dev.sealway.client.SealedExchange exchange = client.exchange("POST", "/sealed/first");
                java.net.Socket socket = new java.net.Socket("127.0.0.1", server.port())) {
            socket.setSoTimeout(8_000);
            var sealing = exchange.begin(List.of());
            byte[] head = dev.sealway.crypto.Bytes.join(sealing.innerHeaders(), "ab".getBytes());
            byte[] first = sealing.sealer().seal(head, 0, head.length, false);
            byte[] last = sealing.sealer().seal("cd".getBytes(), 0, 2, true);
            StringBuilder lines = new StringBuilder("POST /sealed/first HTTP/1.1\r\nHost: a\r\nContent-Length: "
                    + (first.length + last.length) + "\r\nContent-Type: " + sealing.contentType() + "\r\n");
            sealing.headers().forEach(header -> lines.append(header.name()).append(": ").append(header.value()).append("\r\n"));
            socket.getOutputStream().write((lines + "\r\n").getBytes());
            socket.getOutputStream().write(first);
            assertTrue(begun.await(5, TimeUnit.SECONDS));
            socket.getOutputStream().write(last);
            return new String(socket.getInputStream().readNBytes(12));
        }
    }

    @Test
    void aRequestInFlightIsCutWithinASecondOfTheEndOfItsSession() throws Exception {
        // One whose answer has not begun, and one whose answer flows.
        web.post().uri("/sealed/never").bodyValue("x").exchangeToMono(ClientResponse::toBodilessEntity).subscribe(whole -> { }, refused -> { });
        BlockingQueue<String> arrived = new LinkedBlockingQueue<>();
        web.get().uri("/sealed/pieces").retrieve().bodyToFlux(DataBuffer.class).map(buffer -> new String(Buffers.take(buffer)))
                .subscribe(arrived::add, broken -> arrived.add("broken"), () -> arrived.add("a clean end"));
        assertTrue(begun.await(20, TimeUnit.SECONDS));
        pieces.tryEmitNext("one");
        assertEquals("one", arrived.poll(20, TimeUnit.SECONDS));
        // Longer than one look: a session that lives is left alone.
        assertEquals(false, cancelled.await(600, TimeUnit.MILLISECONDS));
        long began = System.nanoTime();
        store.delete(client.session().id());
        assertTrue(cancelled.await(20, TimeUnit.SECONDS));
        assertEquals("broken", arrived.poll(20, TimeUnit.SECONDS));
        // What a busy machine adds is not the rule's.
        assertTrue(System.nanoTime() - began < 10_000_000_000L);
    }

    @Test
    void theFirstPieceOfARequestIsReadBeforeTheRestWasSent() throws Exception {
        assertEquals("HTTP/1.1 200", frames());
    }

    @Test
    void aBodyWhoseLaterFrameDoesNotOpenIsNotComplete() throws Exception {
        byte[] body = draw(300_000);
        for (boolean isCut : new boolean[] {false, true}) {
            try (dev.sealway.client.SealedExchange exchange = client.exchange("POST", "/sealed/collect")) {
                var sealing = exchange.begin(List.of());
                byte[] stream = {};
                for (int at = 0; at < body.length; at += 50_000) {
                    byte[] plain = at == 0 ? dev.sealway.crypto.Bytes.join(sealing.innerHeaders(), java.util.Arrays.copyOf(body, 50_000))
                            : java.util.Arrays.copyOfRange(body, at, at + 50_000);
                    stream = dev.sealway.crypto.Bytes.join(stream, sealing.sealer().seal(plain, 0, plain.length, at == 250_000));
                }
                stream[280_000] ^= (byte) (isCut ? 0 : 1);
                HttpResponse<byte[]> answer = send("/sealed/collect", new dev.sealway.session.SealedMessage(sealing.headers(),
                        sealing.contentType(), isCut ? java.util.Arrays.copyOf(stream, 200_000) : stream));
                assertEquals(400, answer.statusCode());
                assertTrue(new String(answer.body()).contains("unsealable"), new String(answer.body()));
            }
        }
        assertEquals(0, collected.get());
    }

    @Test
    void aRequestOfWire3IsServedOnceAndNeverWithAByteAfterItsLastFrame() throws Exception {
        try (dev.sealway.client.SealedExchange exchange = client.exchange("POST", "/sealed/collect")) {
            var sealing = exchange.begin(List.of());
            byte[] plain = dev.sealway.crypto.Bytes.join(sealing.innerHeaders(), "body".getBytes());
            byte[] stream = sealing.sealer().seal(plain, 0, plain.length, true);
            try (java.net.Socket socket = new java.net.Socket("127.0.0.1", server.port())) {
                socket.setSoTimeout(8_000);
                StringBuilder lines = new StringBuilder("POST /sealed/collect HTTP/1.1\r\nHost: a\r\nContent-Length: " + (stream.length + 1)
                        + "\r\nContent-Type: " + sealing.contentType() + "\r\n");
                sealing.headers().forEach(header -> lines.append(header.name()).append(": ").append(header.value()).append("\r\n"));
                socket.getOutputStream().write((lines + "\r\n").getBytes());
                socket.getOutputStream().write(stream);
                Thread.sleep(300);
                socket.getOutputStream().write(0);
                assertEquals("HTTP/1.1 400", new String(socket.getInputStream().readNBytes(12)));
            }
            assertEquals(0, served.get());
            for (int status : new int[] {200, 409}) {
                assertEquals(status, send("/sealed/collect", new dev.sealway.session.SealedMessage(sealing.headers(), sealing.contentType(),
                        stream)).statusCode());
            }
        }
        assertEquals(1, collected.get());
    }

    @Test
    void aSubscriptionThatIsCancelledEndsTheExchangeAtTheServer() throws Exception {
        var subscription = web.post().uri("/sealed/never").bodyValue("x").retrieve().toBodilessEntity().subscribe();
        assertTrue(begun.await(5, TimeUnit.SECONDS));
        assertEquals(1, cancelled.getCount());
        subscription.dispose();
        assertTrue(cancelled.await(5, TimeUnit.SECONDS));
    }

    @Test
    void anAnswerThatWasChangedIsAnErrorOfTheCallWithItsHost() {
        WebClient changed = web.mutate().filter((request, next) -> next.exchange(request).map(answer -> answer.mutate().body(body -> body.map(buffer -> {
            byte[] bytes = Buffers.take(buffer);
            bytes[bytes.length - 1] ^= 1;
            return (DataBuffer) DefaultDataBufferFactory.sharedInstance.wrap(bytes);
        })).build())).build();
        ProtocolException broken = assertThrows(ProtocolException.class,
                () -> changed.post().uri("/sealed/echo").bodyValue("x").retrieve().bodyToMono(String.class).block(LIMIT));
        assertEquals("unsealable", broken.code());
        assertEquals(Stage.CALL, broken.stage());
        assertEquals("127.0.0.1:" + server.port(), broken.host());
        assertTrue(broken.getMessage().contains(broken.remedy()), broken.getMessage());
    }

    @Test
    void aRequestToAnotherOriginIsRejectedAndNotSent() {
        int before = served.get();
        for (String url : List.of("http://localhost:" + server.port() + "/sealed/echo", "http://127.0.0.1:1/sealed/echo",
                "https://127.0.0.1:" + server.port() + "/sealed/echo")) {
            UsageException refused = assertThrows(UsageException.class,
                    () -> web.post().uri(URI.create(url)).bodyValue("x").retrieve().toBodilessEntity().block(LIMIT));
            assertEquals("usage", refused.code());
            assertEquals(Stage.CONFIGURATION, refused.stage());
        }
        assertEquals(before, served.get());
        assertEquals(0, inits.get());
        assertEquals(200, web.get().uri(URI.create("HTTP://127.0.0.1:" + server.port() + "/sealed/echo"))
                .exchangeToMono(ClientResponse::toBodilessEntity).block(LIMIT).getStatusCode().value());
    }

    private String plain(String method, String target, String... headers) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.port() + target));
        if (headers.length > 0) {
            request.headers(headers);
        }
        try (HttpClient http = HttpClient.newHttpClient()) {
            HttpResponse<String> answer = http.send(request.method(method, HttpRequest.BodyPublishers.ofString("x")).build(),
                    HttpResponse.BodyHandlers.ofString());
            return answer.statusCode() + answer.headers().firstValue("Allow").orElse("") + answer.body();
        }
    }

    @Test
    void aPathThatNoRouteNamesIsSealedAndAPreflightReachesNoHandler() throws Exception {
        assertEquals("400{\"error\":\"CRYPTO_ERROR\"}", plain("POST", "/elsewhere"));
        for (String target : List.of("/elsewhere", "/maybe/echo")) {
            assertEquals("204POST, OPTIONS", plain("OPTIONS", target));
        }
        assertEquals(0, served.get());
        assertEquals("200x", plain("POST", "/maybe/echo"));
    }

    @Test
    void originHeadersPassOnlyFromATrustedProxy() {
        for (boolean isTrusted : new boolean[] {false, true}) {
            if (isTrusted) {
                stop();
                start(SealGate.builder(store, new RouteTable().path("/v3/sessions", Mode.OFF)).trustForwarded(true).build());
            }
            WebClient between = web.mutate().filter((request, next) -> next.exchange(org.springframework.web.reactive.function.client.ClientRequest
                    .from(request).headers(headers -> ORIGINS.forEach(name -> headers.set(name, "outside"))).build())).build();
            HttpHeaders seen = between.post().uri("/sealed/echo").bodyValue("x").exchangeToMono(ClientResponse::toBodilessEntity).block(LIMIT)
                    .getHeaders();
            ORIGINS.forEach(name -> assertEquals(isTrusted ? "outside" : "null", seen.getFirst("Seen-" + name), name));
        }
    }

    @Test
    void aBodyThatComesTooSlowlyOrLacksAHeaderIsRejected() throws Exception {
        assertTrue(plain("POST", "/sealed/echo", "X-Seal", "3").startsWith("400"));
        try (dev.sealway.client.SealedExchange exchange = client.exchange("POST", "/sealed/echo");
                java.net.Socket socket = new java.net.Socket("127.0.0.1", server.port())) {
            socket.setSoTimeout(8_000);
            var begunExchange = exchange.begin(List.of());
            StringBuilder head = new StringBuilder("POST /sealed/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\nContent-Type: "
                    + begunExchange.contentType() + "\r\n");
            begunExchange.headers().forEach(header -> head.append(header.name()).append(": ").append(header.value()).append("\r\n"));
            socket.getOutputStream().write((head + "\r\n0123456789").getBytes());
            byte[] answer = socket.getInputStream().readNBytes(12);
            assertEquals("HTTP/1.1 400", new String(answer));
        }
        assertEquals(0, served.get());
    }

    @Test
    void aFailingHandlerIsASealed500WithoutDetails() {
        ResponseEntity<String> answer = web.post().uri("/sealed/fails").bodyValue("x").exchangeToMono(response -> response.toEntity(String.class))
                .block(LIMIT);
        assertEquals(500, answer.getStatusCode().value());
        assertNull(answer.getBody());
    }

    @Test
    void aLostSessionIsReplacedForASafeMethodAndReportedForOthers() {
        String id = client.session().id();
        store.delete(id);
        assertEquals(200, web.get().uri("/sealed/echo").exchangeToMono(ClientResponse::toBodilessEntity).block(LIMIT).getStatusCode().value());
        assertEquals(2, inits.get());
        store.delete(client.session().id());
        ProblemException refused = assertThrows(ProblemException.class,
                () -> web.post().uri("/sealed/echo").bodyValue("x").retrieve().toBodilessEntity().block(LIMIT));
        assertEquals("session_expired", refused.code());
    }

    @Test
    void wires1And2AreServedOnceAndForgeriesNever() throws Exception {
        for (Wire wire : List.of(Wire.ONE, Wire.TWO)) {
            long nowMs = System.currentTimeMillis();
            CompatSession session = compatSession(wire);
            CompatSession.Call call = session.seal("/sealed/echo", "hi".getBytes(), nowMs, draw(16), draw(12));
            HttpResponse<byte[]> answer = send("/sealed/echo", call.message());
            List<dev.sealway.wire.Header> headers = new java.util.ArrayList<>();
            answer.headers().map().forEach((name, values) -> values.forEach(value -> headers.add(new dev.sealway.wire.Header(name, value))));
            assertEquals("hi", new String(call.open(new dev.sealway.wire.HeaderList(headers), answer.statusCode(), answer.body(), nowMs,
                    ReplayPolicy.DEFAULT)));
            assertEquals(400, send("/sealed/echo", call.message()).statusCode());
            CompatSession.Call forged = session.seal("/sealed/echo", "hi".getBytes(), nowMs, draw(16), draw(12));
            byte[] body = forged.message().body();
            body[0] = (byte) (body[0] == 'A' ? 'B' : 'A');
            assertEquals(400, send("/sealed/echo", forged.message()).statusCode());
        }
        assertEquals(2, served.get());
    }

    @Test
    void aLargeOrUnsealedRequestIsRejectedInTheFormOfItsWire() throws Exception {
        ProblemException large = assertThrows(ProblemException.class,
                () -> web.post().uri("/sealed/collect").bodyValue(new byte[400_000]).retrieve().toBodilessEntity().block(LIMIT));
        assertEquals("too_large", large.code());
        assertTrue(assertThrows(ProblemException.class, () -> client.send(new SealedRequest("POST", "/sealed/echo", List.of(),
                new byte[500_000], null))).code().equals("too_large"));
        try (HttpClient http = HttpClient.newHttpClient()) {
            HttpResponse<String> plain = http.send(HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.port() + "/sealed/echo"))
                    .POST(HttpRequest.BodyPublishers.ofString("x")).build(), HttpResponse.BodyHandlers.ofString());
            assertEquals("400{\"error\":\"CRYPTO_ERROR\"}", plain.statusCode() + plain.body());
        }
        assertEquals(0, collected.get());
    }
}
