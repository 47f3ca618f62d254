package dev.sealway.webflux;

import dev.sealway.exchange.Answer;
import dev.sealway.exchange.AnswerSeal;
import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import dev.sealway.server.RequestReader;
import dev.sealway.server.SealGate;
import dev.sealway.wire.Header;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.Supplier;
import org.reactivestreams.Publisher;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferLimitException;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.http.server.reactive.ServerHttpResponseDecorator;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The answer of a handler, sealed as it is written. */
final class SealedResponse extends ServerHttpResponseDecorator {
    private static final int UNBOUNDED = -1;
    private final SealGate gate;
    private final RequestReader reader;
    private final AtomicBoolean isWritten = new AtomicBoolean();
    private final Queue<Supplier<? extends Mono<Void>>> actions = new ConcurrentLinkedQueue<>();

    SealedResponse(ServerHttpResponse outer, SealGate gate, RequestReader reader) {
        super(outer);
        this.gate = gate;
        this.reader = reader;
    }

    /** Writes a whole answer. */
    static Mono<Void> write(ServerHttpResponse response, Answer answer) {
        response.setStatusCode(HttpStatusCode.valueOf(answer.status()));
        answer.headers().forEach(header -> response.getHeaders().remove(header.name()));
        answer.headers().forEach(header -> response.getHeaders().add(header.name(), header.value()));
        if (answer.body().length == 0) {
            return response.setComplete();
        }
        response.getHeaders().setContentLength(answer.body().length);
        return response.writeWith(Mono.just(response.bufferFactory().wrap(answer.body())));
    }

    private int status() {
        HttpStatusCode status = getStatusCode();
        return status == null ? 200 : status.value();
    }

    /** The handler's headers, taken from the answer that goes out. */
    private List<Header> taken() {
        isWritten.set(true);
        getCookies().forEach((name, cookies) -> cookies.forEach(cookie -> getHeaders().add(HttpHeaders.SET_COOKIE, cookie.toString())));
        List<Header> all = Buffers.headers(getHeaders()).list();
        getCookies().clear();
        getHeaders().clear();
        return all;
    }

    /** Headers that these set go out within the seal. */
    @Override
    public void beforeCommit(Supplier<? extends Mono<Void>> action) {
        actions.add(action);
    }

    /** Seals when nothing more is to be done before. */
    private Mono<Void> committed(Supplier<Mono<Void>> sealed) {
        Flux<Supplier<? extends Mono<Void>>> all = Flux.generate(next -> Optional.ofNullable(actions.poll()).ifPresentOrElse(next::next, next::complete));
        return all.concatMap(Supplier::get).then(Mono.defer(sealed));
    }

    private Mono<Void> whole(byte[] body) {
        return committed(() -> write(getDelegate(), gate.seal(reader, status(), taken(), body)));
    }

    /** Says this status and nothing more. */
    Mono<Void> fail(HttpStatusCode status) {
        getCookies().clear();
        getHeaders().clear();
        setStatusCode(status);
        return whole(new byte[0]);
    }

    /** @param isWhole true if a body that may flow is sealed as a whole
     * @param sink takes one that flows */
    private Mono<Void> sealed(Publisher<? extends DataBuffer> body, boolean isWhole, Function<Flux<DataBuffer>, Mono<Void>> sink) {
        if (reader.request().reply().answer(status()) instanceof AnswerSeal.Frames frames) {
            if (frames.isBodyless()) {
                return Flux.from(body).doOnNext(DataBufferUtils::release).then(Mono.defer(() -> whole(new byte[0])));
            }
            return isWhole ? joined(body, UNBOUNDED) : committed(() -> {
                SealGate.SealedHead head = gate.begin(reader, frames, taken());
                head.headers().forEach(header -> getDelegate().getHeaders().add(header.name(), header.value()));
                return sink.apply(Buffers.seal(body, head.sealer(), bufferFactory()));
            });
        }
        return joined(body, gate.bodyMaxBytes());
    }

    private Mono<Void> joined(Publisher<? extends DataBuffer> body, int max) {
        return DataBufferUtils.join(body, max).map(Buffers::take).defaultIfEmpty(new byte[0])
                .onErrorMap(DataBufferLimitException.class, large -> new Rejection(Refusal.UNANSWERED)).flatMap(this::whole);
    }

    @Override
    public Mono<Void> writeWith(Publisher<? extends DataBuffer> body) {
        return sealed(body, body instanceof Mono, getDelegate()::writeWith);
    }

    @Override
    public Mono<Void> writeAndFlushWith(Publisher<? extends Publisher<? extends DataBuffer>> body) {
        return sealed(Flux.from(body).concatMap(part -> part), false, sealed -> getDelegate().writeAndFlushWith(sealed.map(Mono::just)));
    }

    @Override
    public Mono<Void> setComplete() {
        return isWritten.get() ? Mono.empty() : whole(new byte[0]);
    }
}
