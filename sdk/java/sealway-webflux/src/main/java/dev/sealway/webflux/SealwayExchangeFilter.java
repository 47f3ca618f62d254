package dev.sealway.webflux;

import dev.sealway.client.SealedExchange;
import dev.sealway.client.SealwayClient;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.Options;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;
import java.net.URI;
import java.util.List;
import org.reactivestreams.Publisher;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.core.io.buffer.DefaultDataBufferFactory;
import org.springframework.http.HttpHeaders;
import org.springframework.http.client.reactive.ClientHttpRequest;
import org.springframework.http.client.reactive.ClientHttpRequestDecorator;
import org.springframework.web.reactive.function.client.ClientRequest;
import org.springframework.web.reactive.function.client.ClientResponse;
import org.springframework.web.reactive.function.client.ExchangeFilterFunction;
import org.springframework.web.reactive.function.client.ExchangeFunction;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Seals the requests of a {@code WebClient} on wire 3, and opens their answers as they arrive.
 *
 * <p>Put this filter last, so that other filters see plain requests. Headers, cookies and body go inside the seal. A request to another
 * origin than the client's is a {@link UsageException}. The client's {@code totalTimeout} bounds the agreement; bound the call by
 * {@code Mono.timeout}. Cancelling the subscription cancels the exchange. A request without a body is retried once if the service
 * has certainly not served it. Errors are {@link dev.sealway.wire.SealwayException}s, and those of the {@code WebClient}'s own connector. */
public final class SealwayExchangeFilter implements ExchangeFilterFunction {
    private static final int PROBLEM_MAX = 65_536;
    private final SealwayClient client;

    /** Creates a filter over the sessions of this client, which has to use wire 3. */
    public SealwayExchangeFilter(SealwayClient client) {
        this.client = Options.present(client, "client", "SealwayClient.builder makes one");
    }

    @Override
    public Mono<ClientResponse> filter(ClientRequest request, ExchangeFunction next) {
        return attempt(request, next, true);
    }

    private Mono<ClientResponse> attempt(ClientRequest request, ExchangeFunction next, boolean mayRepeat) {
        URI url = request.url();
        if (!client.isOwnOrigin(url)) {
            // Neither sealed for another's keys nor sent in plain: a relative link or a redirect could lead anywhere.
            return Mono.error(new UsageException("url is of another origin than the client: build a client for that service"));
        }
        String path = url.getRawPath().isEmpty() ? "/" : url.getRawPath();
        String target = url.getRawQuery() == null ? path : path + "?" + url.getRawQuery();
        // Agreeing a session blocks.
        return Mono.fromCallable(() -> client.exchange(request.method().name(), target)).subscribeOn(Schedulers.boundedElastic())
                .flatMap(exchange -> next.exchange(sealed(request, exchange))
                        .flatMap(response -> opened(response, exchange, request, next, mayRepeat))
                        .doOnError(failed -> exchange.close()).doOnCancel(exchange::close));
    }

    private static ClientRequest sealed(ClientRequest request, SealedExchange exchange) {
        HttpHeaders inner = new HttpHeaders();
        inner.addAll(request.headers());
        request.cookies().forEach((name, values) -> values.forEach(value -> inner.add(HttpHeaders.COOKIE, name + "=" + value)));
        return ClientRequest.from(request).headers(HttpHeaders::clear).cookies(cookies -> cookies.clear())
                .body((output, context) -> request.body().insert(new SealingRequest(output, inner, exchange), context)).build();
    }

    /** Takes what the body inserter writes, and writes it sealed. */
    private static final class SealingRequest extends ClientHttpRequestDecorator {
        private final HttpHeaders inner;
        private final SealedExchange exchange;

        SealingRequest(ClientHttpRequest outer, HttpHeaders inner, SealedExchange exchange) {
            super(outer);
            this.inner = inner;
            this.exchange = exchange;
        }

        @Override
        public HttpHeaders getHeaders() {
            return inner;
        }

        private List<Header> within() {
            return Buffers.headers(inner).list().stream().filter(header -> InnerHeaders.isAllowed(header.name())
                    || HeaderNames.isSealing(header.name())).toList();
        }

        private void head(HeaderList headers, String contentType) {
            headers.forEach(header -> getDelegate().getHeaders().set(header.name(), header.value()));
            if (contentType != null) {
                getDelegate().getHeaders().set(HttpHeaders.CONTENT_TYPE, contentType);
            }
        }

        @Override
        public Mono<Void> writeWith(Publisher<? extends DataBuffer> body) {
            return Mono.defer(() -> {
                SealedExchange.StreamRequest begun = exchange.begin(within());
                head(begun.headers(), begun.contentType());
                return getDelegate().writeWith(Buffers.seal(body, begun.sealer().begin(begun.innerHeaders()), bufferFactory()));
            });
        }

        @Override
        public Mono<Void> writeAndFlushWith(Publisher<? extends Publisher<? extends DataBuffer>> body) {
            return Mono.defer(() -> {
                SealedExchange.StreamRequest begun = exchange.begin(within());
                head(begun.headers(), begun.contentType());
                Flux<DataBuffer> sealed = Buffers.seal(Flux.from(body).concatMap(part -> part),
                        begun.sealer().begin(begun.innerHeaders()), bufferFactory());
                return getDelegate().writeAndFlushWith(sealed.map(Mono::just));
            });
        }

        @Override
        public Mono<Void> setComplete() {
            return Mono.defer(() -> {
                SealedMessage message = exchange.empty(within());
                head(message.headers(), message.contentType());
                return message.body().length == 0 ? getDelegate().setComplete()
                        : getDelegate().writeWith(Mono.just(bufferFactory().wrap(message.body())));
            });
        }
    }

    private Mono<ClientResponse> opened(ClientResponse response, SealedExchange exchange, ClientRequest request, ExchangeFunction next,
            boolean mayRepeat) {
        HeaderList headers = Buffers.headers(response.headers().asHttpHeaders());
        int status = response.statusCode().value();
        Flux<DataBuffer> body = response.body((message, context) -> message.getBody());
        if (!headers.has(HeaderNames.X_SEAL)) {
            Mono<byte[]> plain = DataBufferUtils.join(body, PROBLEM_MAX).map(Buffers::take).defaultIfEmpty(new byte[0]);
            return plain.publishOn(Schedulers.boundedElastic()).flatMap(bytes -> {
                SealedExchange.Rejection rejection = exchange.rejection(status, bytes);
                exchange.close();
                return mayRepeat && rejection.isSentAgain() ? attempt(request, next, false) : Mono.error(rejection.error());
            });
        }
        NativeCall.Opening opening;
        try {
            opening = exchange.opening(status, headers);
        } catch (RuntimeException refused) {
            return response.releaseBody().then(Mono.error(refused));
        }
        Flux<DataBuffer> sealed = opening.inHeader() == null ? body
                : Flux.just(DefaultDataBufferFactory.sharedInstance.wrap(opening.inHeader())).cast(DataBuffer.class).concatWith(body);
        // The headers are known with the first frame; the rest of the body is its reader's.
        return Buffers.open(sealed, opening.opener()).onErrorMap(ProtocolException.class, exchange::located).doFinally(signal -> exchange.close()).switchOnFirst((first, plain) -> {
            if (!first.hasValue()) {
                return plain.cast(ClientResponse.class);
            }
            // Not a mutation of the sealed one: that would release its body.
            return Flux.just(ClientResponse.create(response.statusCode(), response.strategies())
                    .headers(all -> opening.opener().headers().forEach(header -> all.add(header.name(), header.value()))).body(plain.filter(part -> part.length > 0).map(DefaultDataBufferFactory.sharedInstance::wrap)).build());
        }, false).single();
    }
}
