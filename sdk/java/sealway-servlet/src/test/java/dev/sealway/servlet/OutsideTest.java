package dev.sealway.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.Bytes;
import dev.sealway.server.RouteTable;
import dev.sealway.server.SealGate;
import dev.sealway.session.CompatSession;
import dev.sealway.session.Family;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.net.Socket;
import java.net.http.HttpRequest.BodyPublishers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What stands outside the seal: paths, origins, cookies of the container, headers that are missing, and bodies as they come. */
@Timeout(60)
class OutsideTest {
    private static final List<String> ORIGINS = List.of("X-Forwarded-For", "X-Forwarded-Anything", "Forwarded", "X-Real-IP",
            "Client-Cert", "Client-Cert-Chain", "X-Client-Cert");
    private static final String REFUSED = "400{\"error\":\"CRYPTO_ERROR\"}";
    private final EchoServlet servlet = new EchoServlet();
    private Fixture fixture;

    @BeforeEach
    void start() throws Exception {
        fixture = new Fixture(servlet, store -> store);
    }

    @AfterEach
    void stop() {
        fixture.close();
    }

    private void restart(UnaryOperator<SealGate.Builder> settings) throws Exception {
        fixture.close();
        fixture = new Fixture(servlet, store -> store, new RouteTable(), settings);
    }

    private NativeSession.WholeRequest sealNative(String target, List<Header> inner, byte[] body) {
        return fixture.nativeSession(null).seal("POST", target, inner, body, System.currentTimeMillis(), fixture.draw(16));
    }

    private CompatSession.Call sealCompat(Wire wire, byte[] body) {
        return fixture.compatSession(wire, Family.SESSION).seal("/sealed/echo", body, System.currentTimeMillis(), fixture.draw(16), fixture.draw(12));
    }

    private Fixture.Reply plain(String method, String target) throws Exception {
        return fixture.send(fixture.request(target, HeaderList.of(), null).method(method,
                method.equals("POST") ? BodyPublishers.ofString("plain") : BodyPublishers.noBody()).build());
    }

    private static String told(Fixture.Reply reply) {
        return reply.status() + reply.text();
    }

    private static SealedMessage with(SealedMessage message, List<Header> more) {
        List<Header> headers = new ArrayList<>(message.headers().list());
        headers.addAll(more);
        return new SealedMessage(new HeaderList(headers), message.contentType(), message.body());
    }

    private static SealedMessage without(SealedMessage message, String name) {
        return new SealedMessage(new HeaderList(message.headers().list().stream().filter(header -> !header.name().equals(name)).toList()),
                message.contentType(), message.body());
    }

    @Test
    void aPathThatNoRouteNamesIsSealed() throws Exception {
        for (String target : new String[] {"/", "/elsewhere", "/plain/../elsewhere"}) {
            assertEquals(REFUSED, told(plain("POST", target)), target);
        }
        assertEquals(0, servlet.served.get());
        assertEquals("200plain", told(plain("POST", "/plain/x")));
        NativeSession.WholeRequest sealed = sealNative("/elsewhere", List.of(), "body".getBytes());
        Fixture.Reply reply = fixture.send("POST", "/elsewhere", sealed.message());
        assertEquals("body", new String(sealed.call().open(reply.status(), reply.headers(), reply.body()).body()));
    }

    @Test
    void aPreflightReachesNoServletOnASealedPath() throws Exception {
        for (String target : new String[] {"/sealed/echo", "/maybe/echo", "/elsewhere"}) {
            Fixture.Reply reply = plain("OPTIONS", target);
            assertEquals("204 POST, OPTIONS", reply.status() + " " + reply.headers().first("allow"), target);
        }
        assertEquals(0, servlet.served.get());
        assertEquals(200, plain("OPTIONS", "/plain/echo").status());
        assertEquals(1, servlet.served.get());
    }

    @Test
    void originHeadersPassOnlyFromATrustedProxy() throws Exception {
        for (boolean isTrusted : new boolean[] {false, true}) {
            restart(gate -> gate.trustForwarded(isTrusted));
            List<Header> outside = new ArrayList<>(ORIGINS.stream().map(name -> new Header(name, "outside")).toList());
            outside.add(new Header("X_Forwarded_For", "outside"));
            outside.add(new Header("Via", "outside"));
            NativeSession.WholeRequest sealed = sealNative("/sealed/echo", ORIGINS.stream().map(name -> new Header(name, "within")).toList(), new byte[1]);
            CompatSession.Call compat = sealCompat(Wire.TWO, new byte[1]);
            Fixture.Reply reply = fixture.send("POST", "/sealed/echo", with(sealed.message(), outside));
            HeaderList seenByNative = sealed.call().open(reply.status(), reply.headers(), reply.body()).headers();
            HeaderList seenByCompat = fixture.send("POST", "/sealed/echo", with(compat.message(), outside)).headers();
            for (String name : ORIGINS) {
                assertEquals(isTrusted ? "outside" : "null", seenByNative.first("seen-" + name), name);
                assertEquals(isTrusted ? "outside" : "null", seenByCompat.first("seen-" + name), name);
            }
            assertEquals("null", seenByNative.first("seen-X_Forwarded_For"));
            assertEquals("null", seenByCompat.first("seen-X_Forwarded_For"));
            assertEquals("outside", seenByNative.first("seen-via"));
        }
    }

    @Test
    void aSealedRequestNeitherFindsNorCreatesASessionOfTheContainer() throws Exception {
        String cookie = plain("GET", "/plain/session?make=1").headers().first("set-cookie").split(";")[0];
        String id = cookie.substring(cookie.indexOf('=') + 1);
        List<Header> outside = List.of(new Header("Cookie", cookie));
        Fixture.Reply known = fixture.send(fixture.request("/plain/session", new HeaderList(outside), null).GET().build());
        assertEquals(id + " true", known.headers().first("seen-session"));
        NativeSession.WholeRequest sealed = sealNative("/sealed/session", List.of(), new byte[1]);
        Fixture.Reply reply = fixture.send("POST", "/sealed/session", with(sealed.message(), outside));
        assertEquals("null false", sealed.call().open(reply.status(), reply.headers(), reply.body()).headers().first("seen-session"));
        NativeSession.WholeRequest maker = sealNative("/sealed/session?make=1", List.of(), new byte[1]);
        Fixture.Reply failed = fixture.send("POST", "/sealed/session?make=1", with(maker.message(), outside));
        assertEquals(500, failed.status());
        assertNull(failed.headers().first("set-cookie"));
    }

    @Test
    void aRequestWithoutARequiredHeaderIsRejected() throws Exception {
        NativeSession.WholeRequest sealed = sealNative("/sealed/echo", List.of(), "body".getBytes());
        for (String name : new String[] {"X-Kid", "X-Idempotency-Key"}) {
            Fixture.Reply reply = fixture.send("POST", "/sealed/echo", without(sealed.message(), name));
            assertEquals("unsealable", Problem.parse(reply.status(), reply.body()).code());
        }
        assertEquals(REFUSED, told(fixture.send("POST", "/sealed/echo", without(sealed.message(), "X-Seal"))));
        for (Wire wire : new Wire[] {Wire.ONE, Wire.TWO}) {
            CompatSession.Call call = sealCompat(wire, "body".getBytes());
            for (Header header : call.message().headers()) {
                assertEquals(REFUSED, told(fixture.send("POST", "/sealed/echo", without(call.message(), header.name()))),
                        wire + " " + header.name());
            }
        }
        assertEquals(0, servlet.served.get());
    }

    @Test
    void trailersDoNotPassTheSealAndContentLanguageIsInside() throws Exception {
        NativeSession.WholeRequest sealed = sealNative("/sealed/trailers", List.of(), "body".getBytes());
        StringBuilder head = new StringBuilder("POST /sealed/trailers HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTE: trailers\r\n"
                + "Transfer-Encoding: chunked\r\nContent-Type: application/octet-stream\r\n");
        sealed.message().headers().forEach(header -> head.append(header.name()).append(": ").append(header.value()).append("\r\n"));
        byte[] body = sealed.message().body();
        try (Socket socket = new Socket("127.0.0.1", fixture.port())) {
            socket.setSoTimeout(10_000);
            socket.getOutputStream().write((head + "\r\n" + Integer.toHexString(body.length) + "\r\n").getBytes());
            socket.getOutputStream().write(Bytes.join(body, "\r\n0\r\nx-who: root\r\n\r\n".getBytes()));
            String answer = new String(socket.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.ISO_8859_1);
            assertTrue(answer.startsWith("HTTP/1.1 200"), answer);
            assertTrue(!answer.contains("x-secret") && !answer.toLowerCase(Locale.ROOT).contains("content-language"), answer);
            assertEquals("{}", servlet.trailers);
        }
        NativeSession.WholeRequest again = sealNative("/sealed/trailers", List.of(), "body".getBytes());
        Fixture.Reply reply = fixture.send("POST", "/sealed/trailers", again.message());
        assertEquals("de", again.call().open(reply.status(), reply.headers(), reply.body()).headers().first("content-language"));
    }

    @Test
    void aRejectedRequestIsAnsweredWithoutWaitingForItsBody() throws Exception {
        fixture.close();
        fixture = new Fixture(servlet, store -> store, new RouteTable(), gate -> gate, 300_000);
        for (String target : List.of("/sealed/echo", "/plain/../sealed/%2e%2e")) {
            assertTrue(slowly(target, new SealedMessage(HeaderList.of("X-Seal", "3"), "application/octet-stream", new byte[500]), 0, 0)
                    .startsWith("HTTP/1.1 400 "));
        }
    }

    /** Sends the head and {@code length} bytes of a body, then a byte every {@code gapMs}, or none if that is 0; what is answered. */
    private String slowly(String target, SealedMessage message, int length, long gapMs) throws IOException {
        try (Socket socket = new Socket("127.0.0.1", fixture.port())) {
            socket.setSoTimeout(10_000);
            StringBuilder head = new StringBuilder("POST " + target + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + message.body().length
                    + "\r\nContent-Type: " + message.contentType() + "\r\n");
            message.headers().forEach(header -> head.append(header.name()).append(": ").append(header.value()).append("\r\n"));
            socket.getOutputStream().write((head + "\r\n").getBytes());
            socket.getOutputStream().write(message.body(), 0, length);
            Thread drip = Thread.ofVirtual().start(() -> {
                try {
                    for (int at = length; gapMs > 0 && at < message.body().length - 1; at++) {
                        Thread.sleep(gapMs);
                        socket.getOutputStream().write(message.body(), at, 1);
                    }
                } catch (InterruptedException | IOException ended) {
                    Thread.currentThread().interrupt();
                }
            });
            StringBuilder answer = new StringBuilder();
            byte[] buffer = new byte[4096];
            while (!answer.toString().contains("}")) {
                int read = socket.getInputStream().read(buffer);
                if (read < 0) {
                    break;
                }
                answer.append(new String(buffer, 0, read));
            }
            drip.interrupt();
            return answer.toString();
        }
    }

    @Test
    void aBodyThatComesTooSlowlyEndsTheRequestInTime() throws Exception {
        restart(gate -> gate.bodyTimeout(Duration.ofMillis(700)));
        for (long gapMs : new long[] {0, 200}) {
            long began = System.nanoTime();
            String answer = slowly("/sealed/echo", sealNative("/sealed/echo", List.of(), new byte[500]).message(), 100, gapMs);
            assertTrue(answer.startsWith("HTTP/1.1 400 ") && answer.contains(":unsealable"), answer);
            answer = slowly("/sealed/echo", sealCompat(Wire.TWO, new byte[500]).message(), 100, gapMs);
            assertTrue(answer.startsWith("HTTP/1.1 400 ") && answer.contains("CRYPTO_ERROR"), answer);
            assertTrue(System.nanoTime() - began < 15_000_000_000L);
        }
        assertEquals(0, servlet.served.get());
    }

    @Test
    void theFirstPieceOfARequestIsReadBeforeTheRestWasSent() throws Exception {
        NativeSession.StreamRequest begun = fixture.nativeSession(null).begin("POST", "/sealed/first", "application/octet-stream",
                Long.toString(System.currentTimeMillis()), "0123456789abcdef");
        byte[] head = Bytes.join(InnerHeaders.encode(List.of()), "ab".getBytes());
        byte[] first = begun.sealer().seal(head, 0, head.length, false);
        byte[] last = begun.sealer().seal("cd".getBytes(), 0, 2, true);
        StringBuilder lines = new StringBuilder("POST /sealed/first HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
                + (first.length + last.length) + "\r\nContent-Type: application/octet-stream\r\n");
        begun.headers().forEach(header -> lines.append(header.name()).append(": ").append(header.value()).append("\r\n"));
        try (Socket socket = new Socket("127.0.0.1", fixture.port())) {
            socket.setSoTimeout(10_000);
            socket.getOutputStream().write((lines + "\r\n").getBytes());
            socket.getOutputStream().write(first);
            assertTrue(servlet.first.await(1500, TimeUnit.MILLISECONDS));
            socket.getOutputStream().write(last);
            assertTrue(new String(socket.getInputStream().readAllBytes()).startsWith("HTTP/1.1 200 "));
        }
    }
}
