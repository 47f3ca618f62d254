package dev.sealway.client;

import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.RefusedException;
import dev.sealway.wire.SealwayException;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** HTTP with bounds: on time, on the length of answers, and no redirects. */
final class Transport {
    private final HttpClient http;
    private final int answerMax;

    Transport(HttpClient http, int answerMax) {
        this.http = http;
        this.answerMax = answerMax;
    }

    /** An answer that is all there. */
    record Whole(int status, HeaderList headers, byte[] body) {
    }

    /** An answer whose body still comes. */
    record Streaming(int status, HeaderList headers, InputStream body) {
    }

    static HttpRequest request(URI base, String method, String target, HeaderList headers, String contentType,
            HttpRequest.BodyPublisher body) {
        HttpRequest.Builder out = HttpRequest.newBuilder(URI.create(base + target)).method(method, body);
        headers.forEach(header -> out.header(header.name(), header.value()));
        if (contentType != null) {
            out.header("Content-Type", contentType);
        }
        return out.build();
    }

    Whole send(HttpRequest request, Deadline deadline) {
        HttpResponse<byte[]> response = wait(http.sendAsync(request, head -> new Bounded(answerMax)), deadline);
        return new Whole(response.statusCode(), checked(response), response.body());
    }

    Streaming open(HttpRequest request, Deadline deadline) {
        HttpResponse<InputStream> response = wait(http.sendAsync(request, HttpResponse.BodyHandlers.ofInputStream()), deadline);
        try {
            return new Streaming(response.statusCode(), checked(response), response.body());
        } catch (SealwayException refused) {
            giveUp(response.body());
            throw refused;
        }
    }

    /** Of a body that nobody will read: else its connection stays open for as long as the other end likes. */
    static void giveUp(InputStream body) {
        try {
            body.close();
        } catch (IOException ignored) {
            // It is given up either way.
            return;
        }
    }

    private static HeaderList checked(HttpResponse<?> response) {
        List<Header> headers = new ArrayList<>();
        response.headers().map().forEach((name, values) -> values.forEach(value -> headers.add(new Header(name, value))));
        HeaderList list = new HeaderList(headers);
        // A sealed redirect is the service's own word; it is the caller's, and not followed either.
        if (response.statusCode() / 100 == 3 && !list.has(HeaderNames.X_SEAL)) {
            throw new TransportException("redirected", "the answer is a redirect (" + response.statusCode()
                    + "), which a sealed call does not follow", null);
        }
        return list;
    }

    private static <T> T wait(CompletableFuture<T> future, Deadline deadline) {
        try {
            return future.get(deadline.leftNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            future.cancel(true);
            throw new TransportException("deadline", "no whole answer within " + deadline.length().toMillis() + " ms", null);
        } catch (InterruptedException interrupted) {
            future.cancel(true);
            Thread.currentThread().interrupt();
            throw new TransportException("cancelled", "the call was cancelled", interrupted);
        } catch (ExecutionException failed) {
            throw refusal(failed);
        }
    }

    static SealwayException refusal(Throwable failed) {
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            if (cause instanceof SealwayException own) {
                return own;
            }
        }
        Throwable cause = failed instanceof ExecutionException || failed instanceof CompletionException ? failed.getCause() : failed;
        return new TransportException("unreachable", "no answer (" + cause.getClass().getSimpleName() + ")", cause);
    }

    /** Until when a call may last, by a clock that never jumps. */
    record Deadline(long atNanos, Duration length) {
        static Deadline in(Duration length) {
            return new Deadline(System.nanoTime() + length.toNanos(), length);
        }

        long leftNanos() {
            return Math.max(0, atNanos - System.nanoTime());
        }
    }

    /** A body of at most so many bytes. */
    private static final class Bounded implements HttpResponse.BodySubscriber<byte[]> {
        private final CompletableFuture<byte[]> result = new CompletableFuture<>();
        private final List<ByteBuffer> parts = new ArrayList<>();
        private final int max;
        private int length;
        private Flow.Subscription subscription;

        Bounded(int max) {
            this.max = max;
        }

        @Override
        public CompletionStage<byte[]> getBody() {
            return result;
        }

        @Override
        public void onSubscribe(Flow.Subscription given) {
            subscription = given;
            given.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(List<ByteBuffer> buffers) {
            for (ByteBuffer buffer : buffers) {
                if (buffer.remaining() > max - length) {
                    subscription.cancel();
                    parts.clear();
                    result.completeExceptionally(new RefusedException(Code.BODY_TOO_LARGE, "answer"));
                    return;
                }
                length += buffer.remaining();
                parts.add(buffer);
            }
        }

        @Override
        public void onError(Throwable failed) {
            result.completeExceptionally(failed);
        }

        @Override
        public void onComplete() {
            ByteBuffer out = ByteBuffer.allocate(length);
            parts.forEach(out::put);
            result.complete(out.array());
        }
    }
}
