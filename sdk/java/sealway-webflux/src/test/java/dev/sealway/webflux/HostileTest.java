package dev.sealway.webflux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.session.CompatSession;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.http.ResponseEntity;
import org.springframework.web.reactive.function.client.ClientResponse;
import org.springframework.web.reactive.function.client.WebClient;

/** What those in between must not get at, whatever a handler does or fails to do. */
@Timeout(60)
class HostileTest extends Fixture {
    /** A stream of two frames for a target, and what it is without the end of the second. */
    private HttpResponse<byte[]> sendCut(String target) throws Exception {
        try (dev.sealway.client.SealedExchange exchange = client.exchange("POST", target)) {
            var sealing = exchange.begin(List.of());
            byte[] first = sealing.sealer().seal(sealing.innerHeaders(), 0, sealing.innerHeaders().length, false);
            byte[] last = sealing.sealer().seal(draw(100), 0, 100, true);
            return send(target, new dev.sealway.session.SealedMessage(sealing.headers(), sealing.contentType(),
                    dev.sealway.crypto.Bytes.join(first, java.util.Arrays.copyOf(last, 50))));
        }
    }

    @Test
    void aRejectionHasNoHeaderThatAHandlerSet() throws Exception {
        HttpResponse<byte[]> refused = sendCut("/sealed/collect");
        assertEquals(400, refused.statusCode());
        assertEquals(List.of(), refused.headers().map().keySet().stream().filter(name -> name.toLowerCase(java.util.Locale.ROOT).startsWith("seen-")).toList());
    }

    @Test
    void aHeaderSetWhenTheAnswerIsCommittedIsInsideTheSeal() throws Exception {
        assertEquals("1", web.post().uri("/sealed/late").bodyValue("x").exchangeToMono(ClientResponse::toBodilessEntity).block(LIMIT)
                .getHeaders().getFirst("Seen-Late"));
        try (dev.sealway.client.SealedExchange exchange = client.exchange("POST", "/sealed/late")) {
            var sealing = exchange.begin(List.of());
            byte[] stream = sealing.sealer().seal(sealing.innerHeaders(), 0, sealing.innerHeaders().length, true);
            HttpResponse<byte[]> answer = send("/sealed/late", new dev.sealway.session.SealedMessage(sealing.headers(), sealing.contentType(), stream));
            assertEquals(200, answer.statusCode());
            assertTrue(answer.headers().firstValue("Seen-Late").isEmpty());
        }
    }

    @Test
    void aBrokenBodyIsRejectedWhateverItsHandlerAnswers() throws Exception {
        HttpResponse<byte[]> refused = sendCut("/sealed/ignores");
        assertTrue(refused.statusCode() == 400 && new String(refused.body()).contains("unsealable"), refused.statusCode() + new String(refused.body()));
    }

    @Test
    void severalFramesInAHeaderAreRejected() throws Exception {
        try (dev.sealway.client.SealedExchange exchange = client.exchange("GET", "/sealed/echo")) {
            var sealing = exchange.begin(List.of());
            byte[] first = sealing.sealer().seal(sealing.innerHeaders(), 0, sealing.innerHeaders().length, false);
            byte[] last = sealing.sealer().seal("body".getBytes(), 0, 4, true);
            for (byte[] stream : new byte[][] {first, dev.sealway.crypto.Bytes.join(first, last)}) {
                HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.port() + "/sealed/echo"))
                        .header("Content-Type", sealing.contentType()).header("X-Sealed", StrictBase64.encode(stream));
                sealing.headers().forEach(header -> request.header(header.name(), header.value()));
                try (HttpClient http = HttpClient.newHttpClient()) {
                    assertEquals(400, http.send(request.GET().build(), HttpResponse.BodyHandlers.discarding()).statusCode());
                }
                assertEquals(0, served.get());
            }
        }
    }

    @Test
    void aHandlerThatFailsWhileItWritesIsASealed500() {
        for (String target : List.of("/sealed/breaks/whole", "/sealed/breaks/flowing")) {
            ResponseEntity<Void> answer = web.post().uri(target).bodyValue("x").exchangeToMono(ClientResponse::toBodilessEntity).block(LIMIT);
            assertEquals(500, answer.getStatusCode().value());
            assertNull(answer.getHeaders().getFirst("Set-Cookie"));
        }
    }

    @Test
    void theBoundOfRequestsDoesNotApplyToAnswersOfWire3() throws Exception {
        assertEquals(500_000, web.get().uri("/sealed/long").retrieve().bodyToMono(byte[].class).block(LIMIT).length);
        assertEquals(200, web.head().uri("/sealed/long").exchangeToMono(ClientResponse::toBodilessEntity).block(LIMIT).getStatusCode().value());
        CompatSession session = compatSession(Wire.TWO);
        HttpResponse<byte[]> refused = send("/sealed/long", session.seal("/sealed/long", new byte[1], System.currentTimeMillis(), draw(16), draw(12)).message());
        assertEquals("502{\"error\":\"SERVICE_UNAVAILABLE\"}", refused.statusCode() + new String(refused.body()));
    }

    @Test
    void aCookieOutsideTheSealFindsNoSessionOfTheServer() throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.port() + "/maybe/session"));
        try (HttpClient http = HttpClient.newHttpClient()) {
            HttpResponse<Void> made = http.send(request.build(), HttpResponse.BodyHandlers.discarding());
            String cookie = made.headers().firstValue("Set-Cookie").orElseThrow().split(";")[0];
            assertEquals("ann", http.send(request.header("Cookie", cookie).build(), HttpResponse.BodyHandlers.discarding()).headers()
                    .firstValue("Seen-Who").orElseThrow());
            WebClient between = web.mutate().filter((sealed, next) -> next.exchange(org.springframework.web.reactive.function.client.ClientRequest
                    .from(sealed).headers(headers -> headers.set("Cookie", cookie)).build())).build();
            ResponseEntity<Void> answer = between.post().uri("/sealed/session").bodyValue("x").exchangeToMono(ClientResponse::toBodilessEntity)
                    .block(LIMIT);
            assertEquals("null", answer.getHeaders().getFirst("Seen-Who"));
            assertNull(answer.getHeaders().getFirst("Set-Cookie"));
        }
    }
}
