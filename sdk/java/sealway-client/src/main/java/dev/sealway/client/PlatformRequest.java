package dev.sealway.client;

import dev.sealway.wire.Header;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;

/** Requests of {@code java.net.http}, as those to be sealed. */
final class PlatformRequest {
    private PlatformRequest() {
    }

    /** Returns a request to this service.
     *
     * @throws UsageException if it is for another one, or its body cannot be read */
    static SealedRequest sealed(HttpRequest request, URI service) {
        String base = service.getRawPath();
        String path = request.uri().getRawPath().isEmpty() ? "/" : request.uri().getRawPath();
        if (!Settings.origin(service).equals(Settings.origin(request.uri())) || !path.startsWith(base + "/")) {
            throw new UsageException("the URI of request is not below the client's url, " + service);
        }
        String query = request.uri().getRawQuery();
        List<Header> headers = new ArrayList<>();
        request.headers().map().forEach((name, values) -> values.forEach(value -> headers.add(new Header(name, value))));
        byte[] body = request.bodyPublisher().map(publisher -> whole(publisher, service)).orElse(new byte[0]);
        return new SealedRequest(request.method(), path.substring(base.length()) + (query == null ? "" : "?" + query), headers, body,
                request.timeout().orElse(null));
    }

    private static byte[] whole(HttpRequest.BodyPublisher publisher, URI service) {
        HttpResponse.BodySubscriber<byte[]> whole = HttpResponse.BodySubscribers.ofByteArray();
        publisher.subscribe(new Flow.Subscriber<>() {
            @Override
            public void onSubscribe(Flow.Subscription subscription) {
                whole.onSubscribe(subscription);
            }

            @Override
            public void onNext(ByteBuffer part) {
                whole.onNext(List.of(part));
            }

            @Override
            public void onError(Throwable failed) {
                whole.onError(failed);
            }

            @Override
            public void onComplete() {
                whole.onComplete();
            }
        });
        try {
            return whole.getBody().toCompletableFuture().get();
        } catch (ExecutionException failed) {
            throw new UsageException("the body of request cannot be read: see the cause", failed.getCause());
        } catch (InterruptedException interrupted) {
            throw Transport.cancelled(Stage.CONFIGURATION, Settings.host(service), interrupted);
        }
    }
}
