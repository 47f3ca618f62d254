package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import dev.sealway.crypto.P256;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Header;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpConnectTimeoutException;
import java.nio.channels.UnresolvedAddressException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What an error says: what happened, of which host, and what to do; and never a secret. */
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

    private void assertTold(URI url, String code, Wire wire, Duration timeout, Trust trust, String... wants) {
        try (SealwayClient client = SealwayClient.builder(url).suites(Suite.P256).wire(wire).trust(trust).timeout(timeout)
                .authorization(() -> "Bearer hunter2").build()) {
            SealwayException failed = assertThrows(SealwayException.class, () -> client.send(post()));
            String told = failed.getMessage();
            assertEquals(code, failed.code(), told);
            assertTrue(told.contains(url.getAuthority()), told);
            assertFalse(told.contains("hunter2"), told);
            for (String want : wants) {
                assertTrue(told.contains(want), told);
            }
        }
    }

    private void assertTold(URI url, String code, Duration timeout, String... wants) {
        for (Wire wire : Wire.values()) {
            assertTold(url, code, wire, timeout, Trust.pins(List.of(service.pin())), wants);
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
    void ofAServiceThatDoesNotAnswer(@TempDir Path folder) throws Exception {
        Duration patient = Duration.ofSeconds(30);
        int port;
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            port = socket.getLocalPort();
        }
        assertTold(local("http", port), "unreachable", patient, "the connection was refused", "check the address and port");
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            assertTold(local("http", silent.getLocalPort()), "deadline", Duration.ofMillis(300), "within 300 ms (timeout)", "wait longer");
        }
        try (ServerSocket hangsUp = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            answerAll(hangsUp, "");
            assertTold(local("http", hangsUp.getLocalPort()), "unreachable", patient, "the connection broke");
        }
        HttpsServer tls = tls(folder);
        try {
            assertTold(local("https", tls.getAddress().getPort()), "unreachable", patient, "TLS failed", "certificat", "trusts");
        } finally {
            tls.stop(0);
        }
        try (ServerSocket plain = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            answerAll(plain, "HTTP/1.1 400 Bad Request\r\n\r\n");
            assertTold(local("https", plain.getLocalPort()), "unreachable", patient, "TLS failed", "check that the port speaks TLS");
        }
        URI url = URI.create("https://a.example:8443");
        assertTrue(Transport.refusal(url, new HttpConnectTimeoutException("hunter2")).getMessage().contains("a.example:8443: it took too long to connect"));
        assertTrue(Transport.refusal(url, new IOException(new UnresolvedAddressException())).getMessage().contains("its name was not found"));
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
    void ofAPageInPlaceOfAnAnswer() throws IOException {
        HttpServer portal = answering(200, "<!DOCTYPE html><html>Accept our terms</html>");
        try {
            assertTold(local("http", portal.getAddress().getPort()), "status", Duration.ofSeconds(30), "captive portal", "open the address in a browser");
        } finally {
            portal.stop(0);
        }
        service.misbehaviour = (exchange, honest) -> FakeService.plain(exchange, 200, "<html>Accept our terms</html>".getBytes());
        assertTold(service.url(), "status", Wire.NATIVE, Duration.ofSeconds(30), Trust.pins(List.of(service.pin())), "captive portal");
    }

    @Test
    void ofAKeyThatIsNotTrusted() {
        Duration patient = Duration.ofSeconds(30);
        String other = StrictBase64.encode(FakeService.identity().publicKey());
        // The service says itself that none of the pinned keys is its own; or it signs with its key all the same.
        assertTold(service.url(), "key_retired", Wire.NATIVE, patient, Trust.pins(List.of(other)), "another service or an impostor", "pin those");
        service.root = P256.generate(new SecureRandom());
        assertTold(service.url(), "key_untrusted", Wire.NATIVE, patient, Trust.root(other, TrustStore.inMemory()), "another service or an impostor",
                "Ask its operator");
    }

    @Test
    void ofARefusal() throws IOException {
        Duration patient = Duration.ofSeconds(30);
        Trust trust = Trust.pins(List.of(service.pin()));
        for (List<String> each : List.of(List.of("clock_skew", "400", "too far from the service's"), List.of("session_expired", "401", "its session is gone"),
                List.of("policy", "403", "ask its operator"))) {
            service.misbehaviour = (exchange, honest) -> FakeService.plain(exchange, Integer.parseInt(each.get(1)),
                    ("{\"type\":\"urn:sealway:problem:" + each.get(0) + "\",\"code\":\"" + each.get(0) + "\"}").getBytes());
            assertTold(service.url(), each.get(0), Wire.NATIVE, patient, trust, each.get(2));
        }
        HttpServer compat = answering(400, "{\"error\":\"CRYPTO_ERROR\"}");
        try {
            for (Wire wire : List.of(Wire.ONE, Wire.TWO)) {
                assertTold(local("http", compat.getAddress().getPort()), "CRYPTO_ERROR", wire, patient, trust, "check this machine's clock");
            }
        } finally {
            compat.stop(0);
        }
    }
}
