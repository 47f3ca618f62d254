package dev.sealway.client;

import dev.sealway.wire.Header;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.SSLSession;

/** An answer that opened, as one of {@code java.net.http}. Its headers are those inside the seal. */
record PlatformResponse<T>(HttpRequest request, int statusCode, HttpHeaders headers, T body) implements HttpResponse<T> {
    /** A body that is there as a whole, given at the first demand. */
    private record WholeBody(byte[] body, BodySubscriber<?> subscriber, AtomicBoolean isGiven) implements Flow.Subscription {
        @Override
        public void request(long count) {
            if (!isGiven.getAndSet(true)) {
                subscriber.onNext(List.of(ByteBuffer.wrap(body)));
                subscriber.onComplete();
            }
        }

        @Override
        public void cancel() {
            isGiven.set(true);
        }
    }

    /** Head of an answer, for a handler. */
    private record Head(int statusCode, HttpHeaders headers) implements ResponseInfo {
        @Override
        public HttpClient.Version version() {
            return HttpClient.Version.HTTP_1_1;
        }
    }

    static <T> HttpResponse<T> of(HttpRequest request, SealedAnswer answer, BodyHandler<T> handler) {
        Map<String, List<String>> values = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        for (Header header : answer.headers()) {
            values.computeIfAbsent(header.name(), name -> new ArrayList<>()).add(header.value());
        }
        Head head = new Head(answer.status(), HttpHeaders.of(values, (name, value) -> true));
        BodySubscriber<T> body = handler.apply(head);
        body.onSubscribe(new WholeBody(answer.body(), body, new AtomicBoolean()));
        return new PlatformResponse<>(request, head.statusCode(), head.headers(), body.getBody().toCompletableFuture().join());
    }

    @Override
    public Optional<HttpResponse<T>> previousResponse() {
        return Optional.empty();
    }

    @Override
    public Optional<SSLSession> sslSession() {
        return Optional.empty();
    }

    @Override
    public URI uri() {
        return request.uri();
    }

    @Override
    public HttpClient.Version version() {
        return HttpClient.Version.HTTP_1_1;
    }
}
