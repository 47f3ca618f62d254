package dev.sealway.redis;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.client.SealedExchange;
import dev.sealway.client.SealedRequest;
import dev.sealway.client.SealwayClient;
import dev.sealway.client.Trust;
import dev.sealway.client.TrustStore;
import dev.sealway.crypto.Bytes;
import dev.sealway.server.RouteTable;
import dev.sealway.server.SealGate;
import dev.sealway.server.StoreException;
import dev.sealway.servlet.SealwayFilter;
import dev.sealway.session.Claim;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.Header;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.Wire;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jetty.ee11.servlet.FilterHolder;
import org.eclipse.jetty.ee11.servlet.ServletContextHandler;
import org.eclipse.jetty.ee11.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A servlet filter whose store is the Redis of a real gateway. */
@Timeout(90)
class RedisStoreTest {
    private static final String TARGET = "/transaction/purchase";
    private static final String PURCHASE = "{\"schemeCode\":\"AEF\",\"amount\":5000}";
    @TempDir
    private Path folder;
    private final AtomicInteger served = new AtomicInteger();
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private Servers servers;
    private RedisStore store;
    private Server jetty;
    private URI here;
    private SealwayClient client;

    @BeforeEach
    void start() throws Exception {
        servers = new Servers(folder);
        store = RedisStore.builder(uri(), KeyEncryptionKeys.inFile(folder.resolve("kek"))).build();
        jetty = new Server();
        ServerConnector connector = new ServerConnector(jetty);
        connector.setHost("127.0.0.1");
        jetty.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler();
        context.addFilter(new FilterHolder(new SealwayFilter(SealGate.builder(store, new RouteTable()).build())), "/*", EnumSet.of(DispatcherType.REQUEST));
        context.addServlet(new ServletHolder(new Echo()), "/*");
        jetty.setHandler(context);
        jetty.start();
        here = URI.create("http://127.0.0.1:" + connector.getLocalPort());
        client = builder().build();
        awaitFloor();
    }

    /** The floor of a new epoch lies a little ahead of the clock, and nothing is granted below it. */
    private void awaitFloor() throws Exception {
        long until = System.nanoTime() + 30_000_000_000L;
        try (RedisStore other = RedisStore.builder(uri(), KeyEncryptionKeys.of(Servers.KEK)).build()) {
            while (true) {
                try {
                    other.reserve(claim(System.currentTimeMillis()));
                    return;
                } catch (StoreException early) {
                    assertTrue(System.nanoTime() < until, early.getMessage());
                    Thread.sleep(50);
                }
            }
        }
    }

    @AfterEach
    void stop() throws Exception {
        if (client != null) {
            client.close();
        }
        if (jetty != null) {
            jetty.stop();
        }
        if (store != null) {
            store.close();
        }
        http.shutdownNow();
        if (servers != null) {
            servers.close();
        }
    }

    private final class Echo extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            served.incrementAndGet();
            response.setHeader("Seen-Client", request.getHeader("X-Sealway-Client-Id"));
            request.getInputStream().transferTo(response.getOutputStream());
        }
    }

    private RedisURI uri() {
        return RedisURI.create("redis://127.0.0.1:" + servers.redisPort);
    }

    private SealwayClient.Builder builder() {
        return SealwayClient.builder(here).authorityUrl(URI.create(servers.url)).clientId("shop-1").trust(Trust.firstUse(TrustStore.inMemory()));
    }

    /** A sealed request as it can be sent again and again. */
    private HttpRequest.Builder sealed() {
        try (SealedExchange exchange = client.exchange("POST", TARGET)) {
            SealedExchange.StreamRequest begun = exchange.begin(List.of(new Header("content-type", "application/json")));
            byte[] plain = Bytes.join(begun.innerHeaders(), PURCHASE.getBytes());
            HttpRequest.Builder out = HttpRequest.newBuilder().header("Content-Type", begun.contentType())
                    .POST(HttpRequest.BodyPublishers.ofByteArray(begun.sealer().seal(plain, 0, plain.length, true)));
            begun.headers().forEach(header -> out.header(header.name(), header.value()));
            return out;
        }
    }

    private String send(URI to, HttpRequest.Builder request) throws Exception {
        HttpResponse<byte[]> answer = http.send(request.uri(URI.create(to + TARGET)).build(), HttpResponse.BodyHandlers.ofByteArray());
        Problem problem = Problem.parse(answer.statusCode(), answer.body());
        return answer.statusCode() + (problem == null ? "" : " " + problem.code());
    }

    private void redis(java.util.function.Consumer<StatefulRedisConnection<String, String>> does) {
        try (RedisClient admin = RedisClient.create(uri()); StatefulRedisConnection<String, String> connection = admin.connect()) {
            does.accept(connection);
        }
    }

    @Test
    void aSessionOfTheGatewayIsServedOnEveryWire() {
        var answer = client.send(SealedRequest.postJson(TARGET, PURCHASE));
        assertEquals("200 " + PURCHASE, answer.status() + " " + answer.text());
        assertEquals("shop-1", answer.headers().first("seen-client"));
        for (Wire wire : new Wire[] {Wire.ONE, Wire.TWO}) {
            try (SealwayClient compat = builder().wire(wire).build()) {
                assertEquals(PURCHASE, compat.send(SealedRequest.postJson(TARGET, PURCHASE)).text());
            }
        }
        assertEquals(3, served.get());
    }

    @Test
    void theGatewayAndTheMiddlewareServeARequestOnceBetweenThem() throws Exception {
        HttpRequest.Builder first = sealed();
        assertEquals("200", send(here, first));
        assertEquals("409 replayed", send(here, first));
        assertEquals("409 replayed", send(URI.create(servers.url), first));
        HttpRequest.Builder second = sealed();
        assertEquals("200", send(URI.create(servers.url), second));
        assertEquals("409 replayed", send(here, second));
        assertEquals(1, served.get());
    }

    @Test
    void aSessionEndedAtTheGatewayIsOverInTheMiddlewareWithinASecond() throws Exception {
        assertEquals("200", send(here, sealed()));
        HttpRequest.Builder late = sealed();
        try (SealwayClient same = builder().build()) {
            String id = same.session().id();
            assertEquals("shop-1", store.find(id).clientId());
            same.end();
            Thread.sleep(1_000);
            assertNull(store.find(id));
        }
        assertEquals("200", send(here, late));
        client.end();
    }

    @Test
    void neitherRequestNorReplayIsServedAfterRedisLostItsMemory() throws Exception {
        HttpRequest.Builder first = sealed();
        HttpRequest.Builder second = sealed();
        assertEquals("200", send(here, first));
        redis(connection -> connection.sync().flushall());
        // The session may be remembered here for a moment yet; claims are not granted.
        assertTrue(Set.of("503 store_unavailable", "401 session_expired").contains(send(here, second)));
        for (int tries = 0; tries < 20; tries++) {
            String told = send(here, first);
            assertTrue(told.equals("503 store_unavailable") || told.equals("401 session_expired") || told.equals("409 replayed"), told);
            Thread.sleep(200);
        }
        assertEquals(1, served.get());
    }

    @Test
    void aMissingScriptGrantsNoClaim() throws Exception {
        HttpRequest.Builder first = sealed();
        assertEquals("200", send(here, first));
        redis(connection -> connection.sync().scriptFlush());
        assertTrue(send(here, sealed()).matches("503 store_unavailable"));
        assertEquals(1, served.get());
    }

    @Test
    void anUnavailableRedisIsReportedInTime() throws Exception {
        assertEquals("200", send(here, sealed()));
        HttpRequest.Builder next = sealed();
        servers.stopRedis();
        long began = System.nanoTime();
        assertEquals("503 store_unavailable", send(here, next));
        assertEquals("503 store_unavailable", send(here, next));
        assertTrue(System.nanoTime() - began < 3_000_000_000L);
        assertEquals(1, served.get());
    }

    @Test
    void aSilentRedisIsReportedInTimeAndUsedAgainLater() throws Exception {
        assertEquals("200", send(here, sealed()));
        HttpRequest.Builder next = sealed();
        redis(connection -> connection.sync().clientPause(2_500));
        long began = System.nanoTime();
        assertEquals("503 store_unavailable", send(here, next));
        assertTrue(System.nanoTime() - began < 1_500_000_000L);
        Thread.sleep(3_500);
        // Perhaps it was reserved after all: another one is served.
        String told = send(here, sealed());
        assertEquals("200", told);
    }

    private Claim claim(long stampMs) {
        long nowMs = System.currentTimeMillis();
        return Claim.of(Claim.Scope.SESSION, "S-" + "0".repeat(32), UUID.randomUUID().toString(), stampMs, nowMs, ReplayPolicy.DEFAULT);
    }

    @Test
    void aStampAheadOfTheClockWaitsAndOneTooFarAheadIsRejected() {
        long nowMs = System.currentTimeMillis();
        store.reserve(claim(nowMs + 400));
        store.reserve(claim(nowMs + 1_500));
        assertTrue(System.currentTimeMillis() >= nowMs + 1_000);
        assertThrows(StoreException.class, () -> store.reserve(claim(System.currentTimeMillis() + 10_000)));
        Claim early = claim(nowMs - 400_000);
        assertEquals("replayed", assertThrows(ProtocolException.class, () -> store.reserve(early)).code());
    }

    /** Under a prefix of its own: the gateway raises the floor of a new epoch by the window, which is minutes. */
    @Test
    void aNewEpochGrantsNoClaimOfAStampThatMayBeOlder() {
        String epoch = "{apart:0}:epoch";
        redis(connection -> {
            connection.sync().hset(epoch, connection.sync().hgetall("{sealway:0}:epoch"));
            connection.sync().set("{apart:0}:canary", "1");
        });
        try (RedisStore known = apart().build(); RedisStore durable = apart().postgresBehind(true).build(); RedisStore fresh = apart().build()) {
            known.reserve(claim(System.currentTimeMillis()));
            durable.reserve(claim(System.currentTimeMillis()));
            String next = "0123456789abcdef".repeat(2);
            redis(connection -> {
                connection.sync().scriptLoad(Script.TEXT.replace("GENERATION", next));
                connection.sync().hset(epoch, java.util.Map.of("gen", next, "made", Long.toString(System.currentTimeMillis())));
            });
            // The first one finds out; then it is known.
            assertThrows(StoreException.class, () -> known.reserve(claim(System.currentTimeMillis())));
            assertThrows(StoreException.class, () -> known.reserve(claim(System.currentTimeMillis())));
            assertThrows(StoreException.class, () -> durable.reserve(claim(System.currentTimeMillis())));
            durable.reserve(claim(System.currentTimeMillis()));
            fresh.reserve(claim(System.currentTimeMillis()));
        }
    }

    private RedisStore.Builder apart() {
        return RedisStore.builder(uri(), KeyEncryptionKeys.of(Servers.KEK)).prefix("apart");
    }

    @Test
    void anEpochOfAnotherServerIsNotUsed() {
        redis(connection -> connection.sync().hset("{sealway:0}:epoch", "node", "0".repeat(40)));
        assertThrows(StoreException.class, () -> store.reserve(claim(System.currentTimeMillis())));
    }

    @Test
    void aMalformedSessionIsAFaultAndNotAnEndedSession() {
        String id = client.session().id();
        String key = "sealway:s:" + id;
        redis(connection -> connection.sync().set(key, "something"));
        assertThrows(StoreException.class, () -> store.find(id));
        redis(connection -> connection.sync().set(key, "x"));
        assertNull(store.find(id));
        redis(connection -> connection.sync().del(key));
        assertNull(store.find(id));
        SealwayClient other = builder().build();
        String second = other.session().id();
        try (RedisStore stranger = RedisStore.builder(uri(), KeyEncryptionKeys.of(Servers.KEK.replace("kek-1", "kek-2"))).build()) {
            assertThrows(StoreException.class, () -> stranger.find(second));
        }
        String wrong = "kek-1 " + java.util.Base64.getEncoder().encodeToString(new byte[32]);
        try (RedisStore stranger = RedisStore.builder(uri(), KeyEncryptionKeys.of(wrong)).build()) {
            assertThrows(StoreException.class, () -> stranger.find(second));
        }
        assertEquals(second, store.find(second).id());
        other.close();
    }
}
