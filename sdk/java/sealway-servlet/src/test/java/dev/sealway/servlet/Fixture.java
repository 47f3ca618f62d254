package dev.sealway.servlet;

import dev.sealway.crypto.Curve;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.server.MemoryStore;
import dev.sealway.server.RouteTable.Mode;
import dev.sealway.server.RouteTable;
import dev.sealway.server.SealGate;
import dev.sealway.server.SessionStore;
import dev.sealway.session.CompatInit;
import dev.sealway.session.CompatSession;
import dev.sealway.session.Family;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.ServerInit;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.session.nativeprotocol.Acceptance;
import dev.sealway.session.nativeprotocol.Agreement;
import dev.sealway.session.nativeprotocol.ClientShare;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.ServerShare;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Wire;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.eclipse.jetty.ee11.servlet.FilterHolder;
import org.eclipse.jetty.ee11.servlet.ServletContextHandler;
import org.eclipse.jetty.ee11.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** Jetty with the filter before one servlet and behind another filter, which sets {@code X-Front}. Sessions are agreed without an authority. */
final class Fixture implements AutoCloseable {
    static final int BODY_MAX = 400_000;
    static final int IDLE_MS = 2_000;
    final MemoryStore store = new MemoryStore(1000, this::nowMs);
    /** How far the clocks of gate and store are ahead. */
    volatile long aheadMs;
    final SecureRandom random = new SecureRandom();
    private final Server server = new Server();
    private final HttpClient http = HttpClient.newHttpClient();
    private final URI url;

    Fixture(HttpServlet servlet, UnaryOperator<SessionStore> stores) throws Exception {
        this(servlet, stores, new RouteTable().prefix("/maybe/", Mode.OPTIONAL).prefix("/plain/", Mode.OFF), gate -> gate);
    }

    Fixture(HttpServlet servlet, UnaryOperator<SessionStore> stores, RouteTable routes, UnaryOperator<SealGate.Builder> settings) throws Exception {
        this(servlet, stores, routes, settings, IDLE_MS);
    }

    Fixture(HttpServlet servlet, UnaryOperator<SessionStore> stores, RouteTable routes, UnaryOperator<SealGate.Builder> settings, int idleMs)
            throws Exception {
        SealGate gate = settings.apply(SealGate.builder(stores.apply(store), routes).anonymousPaths(Set.of("/sealed/anonymous"))
                .bodyMaxBytes(BODY_MAX).clockMs(this::nowMs)).build();
        ServerConnector connector = new ServerConnector(server);
        connector.setIdleTimeout(idleMs);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler(ServletContextHandler.SESSIONS);
        context.addFilter(new FilterHolder((request, response, chain) -> {
            ((HttpServletResponse) response).addHeader("X-Front", "a");
            ((HttpServletResponse) response).addHeader("X-Front", "b");
            chain.doFilter(request, response);
        }), "/*", EnumSet.of(DispatcherType.REQUEST));
        context.addFilter(new FilterHolder(new SealwayFilter(gate)), "/*", EnumSet.of(DispatcherType.REQUEST));
        context.addServlet(new ServletHolder(servlet), "/*");
        server.setHandler(context);
        server.start();
        url = URI.create("http://127.0.0.1:" + connector.getLocalPort());
    }

    long nowMs() {
        return System.currentTimeMillis() + aheadMs;
    }

    int port() {
        return url.getPort();
    }

    byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }

    /** A session of wire 3 whose client is who {@code subject} says. */
    NativeSession nativeSession(String subject) {
        KeyPair pair = Curve.P256.generate(random);
        Identity identity = new Identity(Curve.P256.encode((ECPublicKey) pair.getPublic()), 0, Long.MAX_VALUE,
                message -> Curve.P256.sign(pair.getPrivate(), message, random));
        Agreement agreement = new Agreement(new Agreement.Offer(List.of("P256"), "client-1", null, List.of(), null),
                ClientShare.generate(Suite.P256, random), (UnaryOperator<InitRequest>) null);
        Acceptance.Grant accepted = Acceptance.accept(agreement.request(), null,
                new Acceptance.Decision(draw(16), 3600, nowMs(), "bearer", subject, null), List.of("P256"),
                List.of(identity), suite -> ServerShare.generate(suite, random), null);
        store.put(accepted.session());
        return agreement.finish(201, accepted.body(), id -> identity.publicKey());
    }

    CompatSession compatSession(Wire wire, Family family) {
        long nowMs = nowMs();
        CompatInit init = new CompatInit(wire, family == Family.ANONYMOUS, "client-1", null, Curve.P256.generate(random), draw(16), nowMs);
        Unreplayed<ServerInit> read = ServerInit.read(family, init.request().headers(), init.request().body(), nowMs,
                ReplayPolicy.DEFAULT);
        ServerInit.Grant accepted = read.release(Fresh.granted(read.claim())).accept(false, null, draw(16), Curve.P256.generate(random));
        store.put(accepted.session());
        return init.finish(accepted.answer().getBytes(), nowMs);
    }

    /** Another record of a session that is over. */
    void expire(String id) {
        SessionRecord session = store.find(id);
        store.put(new SessionRecord(id, session.wire(), session.clientId(), null, 0, 1,
                SecretBytes.owning(session.key().copy()), null, "none"));
    }

    /** What came back. */
    record Reply(int status, HeaderList headers, byte[] body) {
        String text() {
            return new String(body);
        }
    }

    HttpRequest.Builder request(String target, HeaderList headers, String contentType) {
        HttpRequest.Builder out = HttpRequest.newBuilder(URI.create(url + target)).timeout(Duration.ofSeconds(10));
        headers.forEach(header -> out.header(header.name(), header.value()));
        if (contentType != null) {
            out.header("Content-Type", contentType);
        }
        return out;
    }

    Reply send(String method, String target, SealedMessage message) throws IOException, InterruptedException {
        return send(request(target, message.headers(), message.contentType()).method(method, message.body().length == 0
                ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofByteArray(message.body())).build());
    }

    Reply send(HttpRequest request) throws IOException, InterruptedException {
        HttpResponse<byte[]> response = http.send(request, HttpResponse.BodyHandlers.ofByteArray());
        return new Reply(response.statusCode(), headers(response), response.body());
    }

    HttpResponse<java.io.InputStream> open(HttpRequest request) throws IOException, InterruptedException {
        return http.send(request, HttpResponse.BodyHandlers.ofInputStream());
    }

    static HeaderList headers(HttpResponse<?> response) {
        List<Header> out = new ArrayList<>();
        response.headers().map().forEach((name, values) -> values.forEach(value -> out.add(new Header(name, value))));
        return new HeaderList(out);
    }

    @Override
    public void close() {
        http.shutdownNow();
        try {
            server.stop();
        } catch (Exception failed) {
            throw new IllegalStateException(failed);
        }
    }
}
