package dev.sealway.webflux;

import dev.sealway.server.PlainAnswer;
import dev.sealway.server.SealGate;
import dev.sealway.session.ServerCall;
import dev.sealway.session.three.Reply3;
import dev.sealway.wire.Header;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.reactivestreams.Publisher;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.http.server.reactive.ServerHttpResponseDecorator;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The answer of a handler, sealed as it is written. */
final class SealedResponse extends ServerHttpResponseDecorator {
    private final SealGate gate;
    private final ServerCall.Reply old;
    private final Reply3 three;
    private final String method;
    private final AtomicBoolean isWritten = new AtomicBoolean();

    SealedResponse(ServerHttpResponse outer, SealGate gate, ServerCall.Reply reply) {
        this(outer, gate, reply, null, "POST");
    }

    SealedResponse(ServerHttpResponse outer, SealGate gate, Reply3 reply, String method) {
        this(outer, gate, null, reply, method);
    }

    private SealedResponse(ServerHttpResponse outer, SealGate gate, ServerCall.Reply old, Reply3 three, String method) {
        super(outer);
        this.gate = gate;
        this.old = old;
        this.three = three;
        this.method = method;
    }

    private int status() {
        HttpStatusCode status = getStatusCode();
        return status == null ? 200 : status.value();
    }

    /** The handler's headers, taken from the answer that goes out. */
    private List<Header> taken() {
        getCookies().forEach((name, cookies) -> cookies.forEach(cookie -> getHeaders().add(HttpHeaders.SET_COOKIE, cookie.toString())));
        List<Header> all = Buffers.headers(getHeaders()).list();
        getCookies().clear();
        getHeaders().clear();
        return all;
    }

    private Mono<Void> whole(byte[] body) {
        int status = status();
        PlainAnswer answer = old != null ? gate.seal(old, status, taken(), body) : gate.seal(three, status, taken(), body);
        getDelegate().setStatusCode(HttpStatusCode.valueOf(answer.status()));
        answer.headers().forEach(header -> getDelegate().getHeaders().add(header.name(), header.value()));
        if (answer.body().length == 0) {
            return getDelegate().setComplete();
        }
        getDelegate().getHeaders().setContentLength(answer.body().length);
        return getDelegate().writeWith(Mono.just(bufferFactory().wrap(answer.body())));
    }

    private Mono<Void> collected(Publisher<? extends DataBuffer> body) {
        return DataBufferUtils.join(Flux.from(body), gate.bodyMax()).map(Buffers::take).defaultIfEmpty(new byte[0])
                .onErrorMap(org.springframework.core.io.buffer.DataBufferLimitException.class, large -> gate.failed(SealGate.Kind.OLD))
                .flatMap(this::whole);
    }

    private SealGate.Begun3 begin() {
        SealGate.Begun3 begun = gate.begin(three, status(), taken());
        begun.headers().forEach(header -> getDelegate().getHeaders().add(header.name(), header.value()));
        return begun;
    }

    @Override
    public Mono<Void> writeWith(Publisher<? extends DataBuffer> body) {
        isWritten.set(true);
        if (old != null || body instanceof Mono || SealGate.isBodiless(method, status())) {
            return collected(body);
        }
        return Mono.defer(() -> {
            SealGate.Begun3 begun = begin();
            return getDelegate().writeWith(Buffers.seal(body, begun.innerHeaders(), begun.sealer(), bufferFactory()));
        });
    }

    @Override
    public Mono<Void> writeAndFlushWith(Publisher<? extends Publisher<? extends DataBuffer>> body) {
        isWritten.set(true);
        if (old != null || SealGate.isBodiless(method, status())) {
            return collected(Flux.from(body).concatMap(part -> part));
        }
        return Mono.defer(() -> {
            SealGate.Begun3 begun = begin();
            Flux<DataBuffer> sealed = Buffers.seal(Flux.from(body).concatMap(part -> part), begun.innerHeaders(), begun.sealer(),
                    bufferFactory());
            return getDelegate().writeAndFlushWith(sealed.map(Mono::just));
        });
    }

    @Override
    public Mono<Void> setComplete() {
        return isWritten.getAndSet(true) ? Mono.empty() : Mono.defer(() -> whole(new byte[0]));
    }
}
