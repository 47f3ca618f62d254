package dev.sealway.webflux;

import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import dev.sealway.server.RequestReader;
import dev.sealway.server.SealGate;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Options;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.List;
import org.springframework.core.Ordered;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.core.io.buffer.DefaultDataBufferFactory;
import org.springframework.http.HttpCookie;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.ResponseCookie;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.util.LinkedMultiValueMap;
import org.springframework.util.MultiValueMap;
import org.springframework.web.ErrorResponse;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.ServerWebExchangeDecorator;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import org.springframework.web.server.WebSession;
import org.springframework.web.server.session.InMemoryWebSessionStore;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/** Opens sealed requests and seals their answers around the handlers behind, before all other filters.
 *
 * <p>Handlers see a plain request with {@code X-Sealway-Client-Id}, {@code -Auth}, {@code -Subject} and {@code -Tenant}. Bodies of
 * wire 3 flow both ways, those of wires 1 and 2 are whole, all within the gate's bound. A {@code WebSession} ends with its request. Stores
 * are asked on the bounded elastic scheduler. */
public final class SealwayWebFilter implements WebFilter, Ordered {
    private static final System.Logger LOG = System.getLogger("dev.sealway.webflux");
    private static final int PREFETCH = 4;
    private final SealGate gate;

    /** Creates a filter for a gate. */
    public SealwayWebFilter(SealGate gate) {
        this.gate = Options.present(gate, "gate", "new SealGate makes one of a store and routes");
    }

    @Override
    public int getOrder() {
        return HIGHEST_PRECEDENCE;
    }

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
        ServerHttpRequest request = exchange.getRequest();
        HeaderList headers = Buffers.headers(request.getHeaders());
        return switch (gate.kind(request.getMethod().name(), request.getURI().getRawPath(), headers)) {
            case PASS -> chain.filter(exchange.mutate().request(new Plain(request, gate.passed(headers), -1, null)).build());
            case PREFLIGHT -> SealedResponse.write(exchange.getResponse(), gate.preflight());
            case DISGUISED -> SealedResponse.write(exchange.getResponse(), gate.disguised());
            case SEALED -> serve(exchange, headers, chain);
        };
    }

    private Mono<Void> serve(ServerWebExchange exchange, HeaderList headers, WebFilterChain chain) {
        ServerHttpRequest request = exchange.getRequest();
        ServerHttpResponse response = exchange.getResponse();
        URI url = request.getURI();
        String target = url.getRawQuery() == null ? url.getRawPath() : url.getRawPath() + "?" + url.getRawQuery();
        InetSocketAddress peer = request.getRemoteAddress();
        String remote = peer == null || peer.getAddress() == null ? null : peer.getAddress().getHostAddress();
        // Those of filters in front: what a handler has set goes out within the seal, or not at all.
        HttpHeaders outside = HttpHeaders.copyOf(response.getHeaders());
        MultiValueMap<String, ResponseCookie> cookies = new LinkedMultiValueMap<>(response.getCookies());
        return Mono.using(() -> gate.begin(request.getMethod().name(), target, headers, remote, request.getHeaders().getContentLength()),
                        reader -> serve(exchange, reader, chain))
                .subscribeOn(Schedulers.boundedElastic()).onErrorResume(Rejection.class, refused -> {
                    if (response.isCommitted()) {
                        return Mono.error(new IllegalStateException("the request broke off"));
                    }
                    response.getHeaders().clear();
                    response.getHeaders().addAll(outside);
                    response.getCookies().clear();
                    response.getCookies().addAll(cookies);
                    return SealedResponse.write(response, gate.answer(refused, headers));
                });
    }

    /** The handler begins with the first part of the body, and reads the others as they come and open. */
    private Mono<Void> serve(ServerWebExchange exchange, RequestReader reader, WebFilterChain chain) {
        // Claims are asked for there, and a store may block.
        Flux<byte[]> parts = exchange.getRequest().getBody().publishOn(Schedulers.boundedElastic(), PREFETCH)
                // As in Buffers.open: in a step of its own.
                .map(Buffers::take).concatMapIterable(data -> reader.feed(data, 0, data.length), 1)
                .doOnDiscard(DataBuffer.class, DataBufferUtils::release)
                .concatWith(Flux.defer(() -> Flux.fromIterable(reader.finish())))
                .timeout(Mono.delay(gate.bodyTimeout()), part -> Mono.never(), Mono.error(() -> reader.fail(Refusal.BODY_TOO_SLOW)));
        return parts.switchOnFirst((first, rest) -> {
            if (!first.hasValue()) {
                return rest.then();
            }
            SealedResponse answer = new SealedResponse(exchange.getResponse(), gate, reader);
            Plain plain = new Plain(exchange.getRequest(), reader.headers(), reader.length(),
                    rest.filter(part -> part.length > 0).map(DefaultDataBufferFactory.sharedInstance::wrap));
            return whileItLives(reader, run(chain, new Inside(exchange.mutate().request(plain).response(answer).build()), answer))
                    .onErrorMap(failed -> reader.fault() != null, failed -> reader.fault());
        }).then();
    }

    /** Until it is done or the session ends, whichever comes first: then the handler, what it reads and what it writes are cancelled. */
    private static Mono<Void> whileItLives(RequestReader reader, Mono<Void> work) {
        Sinks.Empty<Void> over = Sinks.empty();
        reader.watch(() -> over.tryEmitError(reader.ended()));
        return Mono.firstWithSignal(work, over.asMono());
    }

    /** Runs the handler. If it throws, its client gets a sealed status that says nothing more. */
    private static Mono<Void> run(WebFilterChain chain, ServerWebExchange exchange, SealedResponse answer) {
        return chain.filter(exchange).then(Mono.defer(answer::setComplete)).onErrorResume(failed -> {
            if (isRefusal(failed) || answer.isCommitted()) {
                return Mono.error(failed);
            }
            // Its message may quote what was sealed.
            LOG.log(System.Logger.Level.ERROR, "a handler failed on a sealed request: {0}", failed.getClass().getName());
            HttpStatusCode status = failed instanceof ErrorResponse known ? known.getStatusCode() : HttpStatusCode.valueOf(500);
            return answer.fail(status);
        });
    }

    /** True if a body turned out not to be what it should be; what reads it may tell that in an error of its own. */
    private static boolean isRefusal(Throwable failed) {
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            if (cause instanceof Rejection) {
                return true;
            }
        }
        return false;
    }

    /** The exchange inside a seal. A session of the server is found by a cookie outside it, which anybody on the path could have written: here
     * it is a new one, which ends with the request. */
    private static final class Inside extends ServerWebExchangeDecorator {
        private final Mono<WebSession> session = new InMemoryWebSessionStore().createWebSession().cache();

        Inside(ServerWebExchange delegate) {
            super(delegate);
        }

        @Override
        public Mono<WebSession> getSession() {
            return session;
        }
    }

    /** The request inside a seal; or one that is passed on, without the headers that a client may not say. */
    private static final class Plain extends ServerHttpRequestDecorator {
        private final HttpHeaders headers = new HttpHeaders();
        private final Flux<DataBuffer> body;

        /** @param length of the body, or -1 where that is not known yet
         * @param body null where it is passed on as it comes */
        Plain(ServerHttpRequest outer, List<Header> headers, long length, Flux<DataBuffer> body) {
            super(outer);
            headers.forEach(header -> this.headers.add(header.name(), header.value()));
            if (length >= 0) {
                this.headers.setContentLength(length);
            }
            this.body = body;
        }

        @Override
        public HttpHeaders getHeaders() {
            return headers;
        }

        /** Those within the seal: the server has read the ones outside, which anybody on the path could have written. */
        @Override
        public MultiValueMap<String, HttpCookie> getCookies() {
            if (body == null) {
                return super.getCookies();
            }
            MultiValueMap<String, HttpCookie> out = new LinkedMultiValueMap<>();
            for (String value : headers.getOrEmpty(HttpHeaders.COOKIE)) {
                for (String pair : value.split(";")) {
                    int at = pair.indexOf('=');
                    String name = at < 0 ? "" : pair.substring(0, at).strip();
                    if (!name.isEmpty()) {
                        out.add(name, new HttpCookie(name, pair.substring(at + 1).strip()));
                    }
                }
            }
            return out;
        }

        @Override
        public Flux<DataBuffer> getBody() {
            return body == null ? super.getBody() : body;
        }
    }
}
