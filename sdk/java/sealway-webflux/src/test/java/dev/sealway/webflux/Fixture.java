package dev.sealway.webflux;

import dev.sealway.client.SealwayClient;
import dev.sealway.client.Trust;
import dev.sealway.crypto.Curve;
import dev.sealway.server.MemoryStore;
import dev.sealway.server.RouteTable.Mode;
import dev.sealway.server.RouteTable;
import dev.sealway.server.SealGate;
import dev.sealway.session.CompatInit;
import dev.sealway.session.CompatSession;
import dev.sealway.session.Family;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.ServerInit;
import dev.sealway.session.Unreplayed;
import dev.sealway.session.nativeprotocol.Acceptance;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.ServerShare;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseCookie;
import org.springframework.http.server.reactive.ReactorHttpHandlerAdapter;
import org.springframework.web.reactive.function.client.WebClient;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.adapter.WebHttpHandlerBuilder;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

/** Reactor-netty with the web filter before a handler that does what the path says, and a WebClient with the exchange filter. */
abstract class Fixture {
    static final Duration LIMIT = Duration.ofSeconds(20);
    static final List<String> ORIGINS = List.of("X-Forwarded-For", "Forwarded", "X-Real-IP", "Client-Cert", "Client-Cert-Chain", "X-Client-Cert");
    final SecureRandom random = new SecureRandom();
    final KeyPair pair = Curve.P256.generate(random);
    final Identity identity = new Identity(Curve.P256.encode((ECPublicKey) pair.getPublic()), 0, Long.MAX_VALUE,
            message -> Curve.P256.sign(pair.getPrivate(), message, random));
    final MemoryStore store = new MemoryStore(1000, System::currentTimeMillis);
    final AtomicInteger served = new AtomicInteger();
    final AtomicInteger inits = new AtomicInteger();
    final AtomicInteger collected = new AtomicInteger();
    final CountDownLatch begun = new CountDownLatch(1);
    final CountDownLatch cancelled = new CountDownLatch(1);
    final Sinks.Many<String> pieces = Sinks.many().unicast().onBackpressureBuffer();
    DisposableServer server;
    SealwayClient client;
    WebClient web;

    @BeforeEach
    void start() {
        start(SealGate.builder(store, new RouteTable().path("/v3/sessions", Mode.OFF).prefix("/maybe/", Mode.OPTIONAL))
                .bodyMaxBytes(400_000).bodyTimeout(Duration.ofMillis(700)).build());
    }

    void start(SealGate gate) {
        var handler = WebHttpHandlerBuilder.webHandler(this::handle).filter(new SealwayWebFilter(gate)).build();
        server = HttpServer.create().host("127.0.0.1").port(0).handle(new ReactorHttpHandlerAdapter(handler)).bindNow();
        URI url = URI.create("http://127.0.0.1:" + server.port());
        client = SealwayClient.builder(url).suites(Suite.P256).trust(Trust.pins(List.of(StrictBase64.encode(identity.publicKey())))).build();
        web = WebClient.builder().codecs(codecs -> codecs.defaultCodecs().maxInMemorySize(1 << 20)).baseUrl(url.toString()).filter(new SealwayExchangeFilter(client)).build();
    }

    @AfterEach
    void stop() {
        client.close();
        server.disposeNow();
    }

    byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }

    Mono<Void> handle(ServerWebExchange exchange) {
        String path = exchange.getRequest().getURI().getPath();
        var response = exchange.getResponse();
        if (path.equals("/v3/sessions")) {
            inits.incrementAndGet();
            return DataBufferUtils.join(exchange.getRequest().getBody()).flatMap(body -> {
                Acceptance.Grant accepted = Acceptance.accept(InitRequest.read(Buffers.take(body)), null,
                        new Acceptance.Decision(draw(16), 3600, System.currentTimeMillis(), "bearer", "ann", null), List.of("P256"),
                        List.of(identity), suite -> ServerShare.generate(suite, random), null);
                store.put(accepted.session());
                response.setStatusCode(HttpStatusCode.valueOf(201));
                return response.writeWith(Mono.just(response.bufferFactory().wrap(accepted.body())));
            });
        }
        served.incrementAndGet();
        response.getHeaders().set("Seen-Subject", String.valueOf(exchange.getRequest().getHeaders().getFirst("X-Sealway-Subject")));
        response.getHeaders().set("Seen-Kid", String.valueOf(exchange.getRequest().getHeaders().getFirst("X-Kid")));
        for (String name : ORIGINS) {
            response.getHeaders().set("Seen-" + name, String.valueOf(exchange.getRequest().getHeaders().getFirst(name)));
        }
        response.getHeaders().set("Seen-Cookies", exchange.getRequest().getCookies().toSingleValueMap().values().toString());
        if (path.endsWith("/fails")) {
            return Mono.error(new IllegalStateException("secret of the handler"));
        }
        if (path.endsWith("/never")) {
            begun.countDown();
            return Mono.<Void>never().doOnCancel(cancelled::countDown);
        }
        if (path.endsWith("/collect")) {
            return DataBufferUtils.join(exchange.getRequest().getBody()).flatMap(all -> {
                collected.incrementAndGet();
                return response.writeWith(Mono.just(all));
            });
        }
        if (path.endsWith("/ignores")) {
            return exchange.getRequest().getBody().doOnNext(DataBufferUtils::release).then().onErrorComplete()
                    .then(response.writeWith(Mono.fromSupplier(() -> response.bufferFactory().wrap("done".getBytes()))));
        }
        if (path.endsWith("/late")) {
            response.beforeCommit(() -> Mono.fromRunnable(() -> response.getHeaders().set("Seen-Late", "1")));
            return response.setComplete();
        }
        if (path.contains("/breaks")) {
            response.addCookie(ResponseCookie.from("who", "ann").build());
            Throwable failed = new IllegalStateException("secret of the handler");
            return response.writeWith(path.endsWith("whole") ? Mono.error(failed) : Flux.error(failed));
        }
        if (path.endsWith("/long")) {
            return response.writeWith(Mono.fromSupplier(() -> response.bufferFactory().wrap(new byte[500_000])));
        }
        if (path.endsWith("/session")) {
            return exchange.getSession().doOnNext(session -> {
                response.getHeaders().set("Seen-Who", String.valueOf(session.getAttributes().get("who")));
                session.getAttributes().put("who", "ann");
            }).then(Mono.defer(response::setComplete));
        }
        if (path.endsWith("/first")) {
            return response.writeWith(exchange.getRequest().getBody().doOnNext(part -> begun.countDown()));
        }
        if (path.endsWith("/pieces")) {
            return response.writeAndFlushWith(pieces.asFlux().map(text -> Mono.just(response.bufferFactory().wrap(text.getBytes()))));
        }
        if (path.endsWith("/none")) {
            response.setStatusCode(HttpStatusCode.valueOf(204));
            return response.setComplete();
        }
        if (path.endsWith("/events")) {
            response.getHeaders().setContentType(MediaType.TEXT_PLAIN);
            Flux<DataBuffer> parts = Flux.interval(Duration.ofMillis(50)).take(4).map(n -> response.bufferFactory().wrap(("part " + n).getBytes()));
            return response.writeAndFlushWith(parts.map(Mono::just));
        }
        MediaType type = exchange.getRequest().getHeaders().getContentType();
        response.getHeaders().setContentType(type == null ? MediaType.TEXT_PLAIN : type);
        return response.writeWith(exchange.getRequest().getBody());
    }

    HttpResponse<byte[]> send(String target, dev.sealway.session.SealedMessage message) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.port() + target));
        message.headers().forEach(header -> request.header(header.name(), header.value()));
        request.header("Content-Type", message.contentType()).POST(HttpRequest.BodyPublishers.ofByteArray(message.body()));
        try (HttpClient http = HttpClient.newHttpClient()) {
            return http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
        }
    }

    CompatSession compatSession(Wire wire) {
        long nowMs = System.currentTimeMillis();
        CompatInit init = new CompatInit(wire, false, "c", null, Curve.P256.generate(random), draw(16), nowMs);
        Unreplayed<ServerInit> read = ServerInit.read(Family.SESSION, init.request().headers(), init.request().body(), nowMs,
                ReplayPolicy.DEFAULT);
        ServerInit.Grant accepted = read.release(Fresh.granted(read.claim())).accept(false, null, draw(16), Curve.P256.generate(random));
        store.put(accepted.session());
        return init.finish(accepted.answer().getBytes(), nowMs);
    }
}
