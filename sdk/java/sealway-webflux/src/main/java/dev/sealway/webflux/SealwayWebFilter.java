package dev.sealway.webflux;

import dev.sealway.server.Held;
import dev.sealway.server.Life;
import dev.sealway.server.PlainAnswer;
import dev.sealway.server.RefusalException;
import dev.sealway.server.SealGate;
import dev.sealway.server.SealGate.Kind;
import dev.sealway.session.ServerCall;
import dev.sealway.session.three.ServerCall3;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Options;
import dev.sealway.wire.RefusedException;
import java.net.InetSocketAddress;
import java.util.List;
import org.springframework.core.Ordered;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferLimitException;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.core.io.buffer.DefaultDataBufferFactory;
import org.springframework.http.HttpCookie;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.util.LinkedMultiValueMap;
import org.springframework.util.MultiValueMap;
import org.springframework.web.ErrorResponse;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/** Opens sealed requests and seals their answers around the handlers behind, before all other filters.
 *
 * <p>Handlers see a plain request with {@code X-Sealway-Client-Id}, {@code -Auth}, {@code -Subject} and {@code -Tenant}. Bodies of
 * wire 3 flow both ways, those of wires 1 and 2 are whole, all within the gate's bound. Stores are asked on the bounded elastic scheduler.
 */
public final class SealwayWebFilter implements WebFilter, Ordered {
    private static final System.Logger LOG = System.getLogger("dev.sealway.webflux");
    private static final int PREFETCH = 4;
    private final SealGate gate;

    /** By this gate. */
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
        String path = request.getURI().getRawPath();
        Kind kind = gate.kind(request.getMethod().name(), path, headers);
        Mono<Void> done = switch (kind) {
            case PASS -> chain.filter(exchange.mutate().request(new Plain(request, gate.passed(headers), null)).build());
            case QUESTION -> write(exchange.getResponse(), gate.question());
            case DISGUISED -> Mono.error(gate.disguised());
            case OLD -> old(exchange, headers, path, chain);
            case THREE -> three(exchange, headers, path, chain);
        };
        return done.onErrorResume(RefusalException.class, refused -> write(exchange.getResponse(), refused.answer()));
    }

    private static Mono<Void> write(ServerHttpResponse response, PlainAnswer answer) {
        if (response.isCommitted()) {
            return Mono.error(new IllegalStateException("the request broke off"));
        }
        response.setStatusCode(HttpStatusCode.valueOf(answer.status()));
        answer.headers().forEach(header -> response.getHeaders().set(header.name(), header.value()));
        if (answer.status() == 204) {
            return response.setComplete();
        }
        response.getHeaders().setContentLength(answer.body().length);
        return response.writeWith(Mono.just(response.bufferFactory().wrap(answer.body())));
    }

    private Mono<byte[]> body(ServerHttpRequest request, int max, Kind kind) {
        if (request.getHeaders().getContentLength() > max) {
            return Mono.error(gate.tooLarge(kind));
        }
        return Mono.using(() -> hold(request, kind), held -> body(request, max, kind, held));
    }

    private Held hold(ServerHttpRequest request, Kind kind) {
        InetSocketAddress remote = request.getRemoteAddress();
        return gate.hold(kind, remote == null || remote.getAddress() == null ? null : remote.getAddress().getHostAddress());
    }

    private Mono<byte[]> body(ServerHttpRequest request, int max, Kind kind, Held held) {
        return DataBufferUtils.join(request.getBody().map(buffer -> counted(buffer, held)), max).map(Buffers::take).defaultIfEmpty(new byte[0])
                .onErrorMap(DataBufferLimitException.class, large -> gate.tooLarge(kind))
                .timeout(gate.bodyTime(), Mono.error(() -> gate.broken(kind))).publishOn(Schedulers.boundedElastic());
    }

    private static DataBuffer counted(DataBuffer buffer, Held held) {
        try {
            held.grow(buffer.readableByteCount());
            return buffer;
        } catch (RefusalException full) {
            DataBufferUtils.release(buffer);
            throw full;
        }
    }

    private Mono<Void> old(ServerWebExchange exchange, HeaderList headers, String path, WebFilterChain chain) {
        ServerHttpRequest request = exchange.getRequest();
        return Mono.fromCallable(() -> gate.old(request.getMethod().name(), path, headers)).subscribeOn(Schedulers.boundedElastic())
                .flatMap(begun -> body(request, begun.bodyMax(), Kind.OLD).flatMap(body -> {
                    ServerCall.Opened opened = begun.open(body);
                    SealedResponse answer = new SealedResponse(exchange.getResponse(), gate, opened.reply());
                    Plain plain = new Plain(request, begun.headers(), opened.plaintext());
                    return run(chain, exchange.mutate().request(plain).response(answer).build(), answer);
                }));
    }

    private Mono<Void> three(ServerWebExchange exchange, HeaderList headers, String path, WebFilterChain chain) {
        ServerHttpRequest request = exchange.getRequest();
        String query = request.getURI().getRawQuery();
        String method = request.getMethod().name();
        return Mono.fromCallable(() -> gate.three(method, query == null ? path : path + "?" + query, headers))
                .subscribeOn(Schedulers.boundedElastic())
                .flatMap(begun -> begun.inHeader() == null ? flowing(exchange, begun, method, chain) : bodiless(exchange, begun, method, chain));
    }

    private Mono<Void> bodiless(ServerWebExchange exchange, SealGate.Three begun, String method, WebFilterChain chain) {
        return body(exchange.getRequest(), gate.bodyMax(), Kind.THREE).flatMap(body -> {
            if (body.length > 0 || !begun.feed(begun.inHeader(), 0, begun.inHeader().length)) {
                throw gate.broken(Kind.THREE);
            }
            ServerCall3.Begun opened = begun.admit();
            try {
                opened.rest().finish();
            } catch (RefusedException truncated) {
                throw gate.refusal(Kind.THREE, truncated);
            }
            byte[] plaintext = dev.sealway.crypto.Bytes.join(opened.parts().toArray(byte[][]::new));
            SealedResponse answer = new SealedResponse(exchange.getResponse(), gate, opened.reply(), method);
            Plain plain = new Plain(exchange.getRequest(), begun.headers(opened), plaintext);
            return whileItLives(begun, run(chain, exchange.mutate().request(plain).response(answer).build(), answer));
        });
    }

    /** The handler begins with the first frame, and reads the others as they come and open. */
    private Mono<Void> flowing(ServerWebExchange exchange, SealGate.Three begun, String method, WebFilterChain chain) {
        ServerHttpRequest request = exchange.getRequest();
        if (request.getHeaders().getContentLength() > gate.bodyMax()) {
            return Mono.error(gate.tooLarge(Kind.THREE));
        }
        Held held = hold(request, Kind.THREE);
        OpeningBody opening = new OpeningBody(gate, begun, held);
        // Claims are asked for there, and a store may block.
        Flux<byte[]> parts = request.getBody().publishOn(Schedulers.boundedElastic(), PREFETCH)
                // As in Buffers.open: in a step of its own.
                .map(Buffers::take).concatMapIterable(opening::feed, 1)
                .doOnDiscard(DataBuffer.class, DataBufferUtils::release)
                .concatWith(Flux.defer(() -> Flux.fromIterable(opening.finish())))
                .timeout(Mono.delay(gate.bodyTime()), part -> Mono.never(), Mono.error(() -> gate.broken(Kind.THREE)))
                .doFinally(end -> held.close());
        return parts.switchOnFirst((first, rest) -> {
            if (!first.hasValue()) {
                return rest.then();
            }
            ServerCall3.Begun opened = opening.opened();
            SealedResponse answer = new SealedResponse(exchange.getResponse(), gate, opened.reply(), method);
            Plain plain = new Plain(request, begun.headers(opened), opening.length(), rest.doOnError(opening::fail)
                    .filter(part -> part.length > 0).map(DefaultDataBufferFactory.sharedInstance::wrap));
            return whileItLives(begun, run(chain, exchange.mutate().request(plain).response(answer).build(), answer))
                    .onErrorMap(failed -> opening.fault() != null, failed -> opening.fault());
        }).then();
    }

    /** Until it is done or the session ends, whichever comes first: then the handler, what it reads and what it writes are cancelled. */
    private Mono<Void> whileItLives(SealGate.Three begun, Mono<Void> work) {
        return Mono.defer(() -> {
            Sinks.Empty<Void> over = Sinks.empty();
            Life life = begun.watch(() -> over.tryEmitError(gate.ended()));
            return Mono.firstWithSignal(work, over.asMono()).doFinally(end -> life.close());
        });
    }

    /** Whatever a handler throws, its peer gets a sealed status that says nothing more. */
    private static Mono<Void> run(WebFilterChain chain, ServerWebExchange exchange, SealedResponse answer) {
        return chain.filter(exchange).then(Mono.defer(answer::setComplete)).onErrorResume(failed -> {
            if (isRefusal(failed) || answer.isCommitted()) {
                return Mono.error(failed);
            }
            // Its message may quote what was sealed.
            LOG.log(System.Logger.Level.ERROR, "a handler failed on a sealed request: {0}", failed.getClass().getName());
            HttpStatusCode status = failed instanceof ErrorResponse known ? known.getStatusCode() : HttpStatusCode.valueOf(500);
            answer.getHeaders().clear();
            answer.setStatusCode(status);
            return answer.setComplete();
        });
    }

    /** Whether a body turned out not to be what it should be; what reads it may tell that in an error of its own. */
    private static boolean isRefusal(Throwable failed) {
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            if (cause instanceof RefusalException) {
                return true;
            }
        }
        return false;
    }

    /** The request inside a seal; or one that is passed on, without the headers that a client may not say. */
    private static final class Plain extends ServerHttpRequestDecorator {
        private final HttpHeaders headers = new HttpHeaders();
        private final Flux<DataBuffer> body;

        /** @param body null where it is passed on as it comes */
        Plain(ServerHttpRequest outer, List<Header> headers, byte[] body) {
            this(outer, headers, body == null ? -1 : body.length, body == null ? null : body.length == 0 ? Flux.empty()
                    : Flux.defer(() -> Flux.just(DefaultDataBufferFactory.sharedInstance.wrap(body))));
        }

        /** @param length of the body, or -1 where that is not known yet */
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
