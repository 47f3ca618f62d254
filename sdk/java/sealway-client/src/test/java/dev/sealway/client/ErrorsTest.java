package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import dev.sealway.crypto.Curve;
import dev.sealway.crypto.SigningKey;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Header;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.channels.UnresolvedAddressException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Errors say the stage, the code, the host and the remedy, whether a retry is safe, and never a secret. */
@Timeout(120)
class ErrorsTest {
    private FakeService service;

    @BeforeEach
    void start() throws IOException {
        service = new FakeService();
    }

    @AfterEach
    void stop() {
        service.close();
    }

    private static SealedRequest post() {
        return new SealedRequest("POST", "/echo?card=hunter2", List.of(new Header("x-own", "hunter2")), "hunter2".getBytes(), null);
    }

    private SealwayException assertError(SealwayClient.Builder builder, Stage stage, String code, URI host, String... wants) {
        try (SealwayClient client = builder.build()) {
            SealwayException failed = assertThrows(SealwayException.class, () -> client.send(post()));
            String message = failed.getMessage();
            assertEquals(code, failed.code(), message);
            assertEquals(stage, failed.stage(), message);
            assertEquals(host.getAuthority(), failed.host());
            assertTrue(message.startsWith(code) && message.contains(" at " + failed.host() + ": ") && message.contains(failed.remedy()), message);
            assertTrue(failed.remedy().matches("[A-Z0-9].{10,}[.]"), failed.remedy());
            assertFalse(message.contains("hunter2"), message);
            for (String want : wants) {
                assertTrue(message.contains(want), message);
            }
            return failed;
        }
    }

    private SealwayClient.Builder builder(URI url, Wire wire, Trust trust) {
        return SealwayClient.builder(url).suites(Suite.P256).wire(wire).trust(trust).authorization(() -> "Bearer hunter2");
    }

    /** Nothing was sent, and the cause may pass. */
    private void assertRetryable(URI url, String code, Duration headTimeout, String... wants) {
        for (Wire wire : Wire.values()) {
            SealwayClient.Builder builder = builder(url, wire, Trust.pins(service.pin())).headTimeout(headTimeout).connectTimeout(Duration.ofSeconds(3));
            assertTrue(assertError(builder, Stage.AGREEMENT, code, url, wants).retryable());
        }
    }

    private static URI local(String scheme, int port) {
        return URI.create(scheme + "://127.0.0.1:" + port);
    }

    private static HttpsServer tls(Path folder) throws Exception {
        Path store = folder.resolve("keys.p12");
        assertEquals(0, new ProcessBuilder(System.getProperty("java.home") + "/bin/keytool", "-genkeypair", "-alias", "a", "-keyalg", "EC", "-dname",
                "CN=127.0.0.1", "-storetype", "PKCS12", "-storepass", "changeit", "-keystore", store.toString()).inheritIO().start().waitFor());
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            keys.load(in, "changeit".toCharArray());
        }
        KeyManagerFactory managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        managers.init(keys, "changeit".toCharArray());
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(managers.getKeyManagers(), null, null);
        HttpsServer server = HttpsServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(context));
        server.start();
        return server;
    }

    /** Answers each connection once its first bytes are there, and closes it. */
    private static void answerAll(ServerSocket server, String answer) {
        Thread.ofVirtual().start(() -> {
            while (!server.isClosed()) {
                try (Socket each = server.accept()) {
                    each.getInputStream().read(new byte[65_536]);
                    each.getOutputStream().write(answer.getBytes());
                } catch (IOException closed) {
                    continue;
                }
            }
        });
    }

    @Test
    void aServiceThatDoesNotAnswerIsUnreachableLateOrBroken(@TempDir Path folder) throws Exception {
        Duration patient = Duration.ofSeconds(30);
        int port;
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            port = socket.getLocalPort();
        }
        assertRetryable(local("http", port), "unreachable", patient, "the connection was refused");
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            assertRetryable(local("http", silent.getLocalPort()), "timeout", Duration.ofMillis(300), "within 300 ms (option `headTimeout`)");
            // A handshake that nobody answers is part of connecting.
            SealwayClient.Builder builder = builder(local("https", silent.getLocalPort()), Wire.NATIVE, Trust.pins(service.pin()));
            assertTrue(assertError(builder.connectTimeout(Duration.ofMillis(300)), Stage.AGREEMENT, "unreachable", local("https", silent.getLocalPort()),
                    "(option `connectTimeout`)").retryable());
        }
        try (ServerSocket hangsUp = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            answerAll(hangsUp, "");
            assertRetryable(local("http", hangsUp.getLocalPort()), "network", patient, "the connection broke");
        }
        HttpsServer tls = tls(folder);
        try {
            assertRetryable(local("https", tls.getAddress().getPort()), "unreachable", patient, "TLS failed", "certificat");
        } finally {
            tls.stop(0);
        }
        try (ServerSocket plain = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            answerAll(plain, "HTTP/1.1 400 Bad Request\r\n\r\n");
            assertRetryable(local("https", plain.getLocalPort()), "unreachable", patient, "TLS failed");
        }
        SealwayException unnamed = Transport.failure(Stage.CALL, "a.example:443", new IOException(new UnresolvedAddressException()));
        assertTrue(unnamed.retryable() && unnamed.getMessage().contains("the host name was not found"), unnamed.getMessage());
        // Behind the handshake, TLS may fail after the request.
        SealwayException broken = Transport.failure(Stage.CALL, "a.example:443", new IOException(new SSLException("bad record")));
        assertEquals("network", broken.code());
        assertFalse(broken.retryable());
    }

    @Test
    void aCallWithoutAConnectionIsRetryableAndABrokenOneIsNot() throws IOException {
        URI url;
        try (ServerSocket hangsUp = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            url = local("http", hangsUp.getLocalPort());
            answerAll(hangsUp, "");
            SealwayClient.Builder builder = builder(url, Wire.NATIVE, Trust.pins(service.pin())).authorityUrl(service.url());
            assertFalse(assertError(builder, Stage.CALL, "network", url, "the outcome of the request is unknown").retryable());
        }
        SealwayClient.Builder builder = builder(url, Wire.NATIVE, Trust.pins(service.pin())).authorityUrl(service.url());
        assertTrue(assertError(builder, Stage.CALL, "unreachable", url, "the connection was refused").retryable());
    }

    @Test
    void aRequestThatCannotBeSealedIsAnErrorOfTheConfiguration() {
        try (SealwayClient client = builder(service.url(), Wire.NATIVE, Trust.pins(service.pin())).build()) {
            for (SealedRequest wrong : List.of(new SealedRequest("CONNECT", "/", List.of(), new byte[0], null),
                    SealedRequest.get("/" + "x".repeat(9000)), SealedRequest.get("/ x"), SealedRequest.get("/").withHeader("a b", "c"),
                    SealedRequest.get("/").withHeader("X-Kid", "c"))) {
                SealwayException failed = assertThrows(SealwayException.class, () -> client.send(wrong), wrong.toString());
                assertEquals(Stage.CONFIGURATION, failed.stage(), failed.getMessage());
                assertEquals("", failed.host());
                assertFalse(failed.retryable());
            }
            assertEquals(0, service.calls.get());
        }
    }

    private static HttpServer answering(int status, String body) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> {
            exchange.getRequestBody().readAllBytes();
            FakeService.plain(exchange, status, body.getBytes());
        });
        server.start();
        return server;
    }

    @Test
    void anHtmlPageInPlaceOfAnAnswerIsNamed() throws IOException {
        HttpServer portal = answering(200, "<!DOCTYPE html><html>Accept our terms</html>");
        try {
            URI url = local("http", portal.getAddress().getPort());
            for (Wire wire : Wire.values()) {
                assertFalse(assertError(builder(url, wire, Trust.pins(service.pin())), Stage.AGREEMENT, "unsealed", url, "captive portal").retryable());
            }
        } finally {
            portal.stop(0);
        }
        service.misbehaviour = (exchange, honest) -> FakeService.plain(exchange, 200, "<html>Accept our terms</html>".getBytes());
        assertError(builder(service.url(), Wire.NATIVE, Trust.pins(service.pin())), Stage.CALL, "unsealed", service.url(), "captive portal");
    }

    @Test
    void aKeyThatIsNotTrustedIsAnErrorOfTheAgreement() {
        String other = StrictBase64.encode(FakeService.identity().publicKey());
        // The service says that none of the pinned keys is its own; or it signs with its key all the same.
        assertFalse(assertError(builder(service.url(), Wire.NATIVE, Trust.pins(other)), Stage.AGREEMENT, "key_retired", service.url(), "(option `trust`)")
                .retryable());
        SecureRandom random = new SecureRandom();
        service.root = SigningKey.of(Curve.P256, Curve.P256.generate(random), random);
        assertFalse(assertError(builder(service.url(), Wire.NATIVE, Trust.root(other)), Stage.AGREEMENT, "key_untrusted", service.url(),
                "another service or an impostor", "(option `trust`)").retryable());
    }

    @Test
    void aProblemOfACallIsNotRetryable() {
        for (List<String> each : List.of(List.of("clock_skew", "400", "outcome of the request is unknown"),
                List.of("session_expired", "401", "outcome of the request is unknown"), List.of("policy", "403", "status 403"),
                List.of("store_unavailable", "503", "status 503"))) {
            service.misbehaviour = (exchange, honest) -> FakeService.plain(exchange, Integer.parseInt(each.get(1)),
                    ("{\"type\":\"urn:sealway:problem:" + each.get(0) + "\",\"code\":\"" + each.get(0) + "\"}").getBytes());
            assertFalse(assertError(builder(service.url(), Wire.NATIVE, Trust.pins(service.pin())), Stage.CALL, each.get(0), service.url(), each.get(2))
                    .retryable());
        }
    }

    @Test
    void aTransientProblemOfTheAgreementIsRetryable() throws IOException {
        for (List<String> each : List.of(List.of("CRYPTO_ERROR", "400"), List.of("SERVICE_UNAVAILABLE", "503"), List.of("RATE_LIMITED", "429"))) {
            HttpServer server = answering(Integer.parseInt(each.get(1)), "{\"error\":\"" + each.get(0) + "\"}");
            try {
                URI url = local("http", server.getAddress().getPort());
                for (Wire wire : List.of(Wire.ONE, Wire.TWO)) {
                    assertEquals(!each.get(1).equals("400"),
                            assertError(builder(url, wire, Trust.pins(service.pin())), Stage.AGREEMENT, each.get(0), url).retryable());
                }
            } finally {
                server.stop(0);
            }
        }
    }
}
