package dev.sealway.client;

import dev.sealway.session.SealedMessage;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import java.io.IOException;
import java.io.InputStream;
import java.net.ConnectException;
import java.net.URI;
import java.net.UnknownHostException;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.channels.UnresolvedAddressException;
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
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLHandshakeException;

/** HTTP with bounds on time and on the length of answers, and without redirects. */
final class Transport {
    private final HttpClient http;
    private final Duration headTimeout;
    private final int answerMaxBytes;

    Transport(HttpClient http, Duration headTimeout, int answerMaxBytes) {
        this.http = http;
        this.headTimeout = headTimeout;
        this.answerMaxBytes = answerMaxBytes;
    }

    /** An answer with its whole body. */
    record WholeAnswer(int status, HeaderList headers, byte[] body) {
    }

    /** An answer whose body is still to be read. */
    record StreamAnswer(int status, HeaderList headers, InputStream body, Progress progress) {
    }

    /** A request as it goes out.
     *
     * @param contentType or null */
    record Outgoing(URI base, String method, String target, HeaderList headers, String contentType, BodyPublisher body) {
        static Outgoing of(URI base, String method, String target, SealedMessage message) {
            BodyPublisher body = message.body().length == 0 ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(message.body());
            return new Outgoing(base, method, target, message.headers(), message.contentType(), body);
        }

        String host() {
            return Settings.host(base);
        }

        private HttpRequest request(Progress progress) {
            try {
                HttpRequest.Builder out = HttpRequest.newBuilder(URI.create(base + target)).method(method, progress.watch(body));
                headers.forEach(header -> out.header(header.name(), header.value()));
                if (contentType != null) {
                    out.header("Content-Type", contentType);
                }
                return out.build();
            } catch (IllegalArgumentException malformed) {
                throw new UsageException("method or target is malformed: give a token of HTTP, and path and query with their escapes", malformed);
            }
        }
    }

    WholeAnswer send(Stage stage, Outgoing request, Deadline deadline) {
        Progress progress = new Progress(headTimeout);
        HttpResponse<byte[]> response = exchange(stage, request, progress, deadline, head -> {
            progress.hasHead = true;
            return new BoundedBody(answerMaxBytes);
        });
        return new WholeAnswer(response.statusCode(), checked(stage, request, response), response.body());
    }

    StreamAnswer open(Outgoing request, Deadline deadline) {
        Progress progress = new Progress(headTimeout);
        HttpResponse<InputStream> response = exchange(Stage.CALL, request, progress, deadline, HttpResponse.BodyHandlers.ofInputStream());
        try {
            return new StreamAnswer(response.statusCode(), checked(Stage.CALL, request, response), response.body(), progress);
        } catch (SealwayException redirected) {
            discard(response.body());
            throw redirected;
        }
    }

    /** Closes a body that nobody reads: else its connection stays open for as long as the other end likes. */
    static void discard(InputStream body) {
        try {
            body.close();
        } catch (IOException ignored) {
            // Its connection ends either way.
            return;
        }
    }

    private static HeaderList checked(Stage stage, Outgoing request, HttpResponse<?> response) {
        List<Header> headers = new ArrayList<>();
        response.headers().map().forEach((name, values) -> values.forEach(value -> headers.add(new Header(name, value))));
        HeaderList list = new HeaderList(headers);
        // A sealed redirect comes from the service itself; the caller sees it, and it is not followed either.
        if (response.statusCode() / 100 == 3 && !list.has(HeaderNames.X_SEAL)) {
            throw new TransportException("redirected", stage, request.host(), "the answer is a redirect (status " + response.statusCode() + ").", null);
        }
        return list;
    }

    private <T> HttpResponse<T> exchange(Stage stage, Outgoing request, Progress progress, Deadline deadline, BodyHandler<T> handler) {
        CompletableFuture<HttpResponse<T>> future = http.sendAsync(request.request(progress), handler);
        try {
            while (true) {
                long left = Math.min(deadline.leftNanos(), progress.headLeftNanos());
                if (left <= 0) {
                    throw late(stage, request.host(), deadline, "headTimeout", headTimeout);
                }
                try {
                    return future.get(left, TimeUnit.NANOSECONDS);
                } catch (TimeoutException again) {
                    // The last part of the request may have left since.
                    continue;
                }
            }
        } catch (InterruptedException interrupted) {
            throw cancelled(stage, request.host(), interrupted);
        } catch (ExecutionException failed) {
            throw failure(stage, request.host(), failed);
        } finally {
            future.cancel(true);
        }
    }

    /** Returns the error of a wait that met its limit: that of the whole call, else the one that is named. */
    static TransportException late(Stage stage, String host, Deadline deadline, String option, Duration limit) {
        boolean isTotal = deadline.leftNanos() <= 0;
        Duration passed = isTotal ? deadline.length() : limit;
        return new TransportException("timeout", stage, host, "no answer within " + passed.toMillis() + " ms (option `" + (isTotal ? "totalTimeout" : option)
                + "`)" + unknown(stage), null);
    }

    static TransportException cancelled(Stage stage, String host, InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        return new TransportException("cancelled", stage, host, "the caller interrupted the call" + unknown(stage), interrupted);
    }

    private static String unknown(Stage stage) {
        return stage == Stage.CALL ? "; the outcome of the request is unknown." : ".";
    }

    /** Returns the error for a failed exchange. */
    static SealwayException failure(Stage stage, String host, Throwable failed) {
        String event = null;
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            if (cause instanceof SealwayException own) {
                return own instanceof ProtocolException broken ? broken.at(stage, host) : own;
            }
            event = event == null ? unconnected(stage, cause) : event;
        }
        Throwable cause = failed instanceof ExecutionException || failed instanceof CompletionException ? failed.getCause() : failed;
        if (event != null) {
            return new TransportException("unreachable", stage, host, event, cause);
        }
        boolean isRefused = failed instanceof ConnectException || cause instanceof ConnectException;
        return isRefused ? new TransportException("unreachable", stage, host, "the connection was refused.", cause)
                : new TransportException("network", stage, host, "the connection broke (" + cause.getClass().getSimpleName() + ")" + unknown(stage), cause);
    }

    /** Returns the reason for which there is no connection, or null. */
    private static String unconnected(Stage stage, Throwable cause) {
        if (cause instanceof HttpConnectTimeoutException) {
            return "no connection, TLS included, within its time (option `connectTimeout`).";
        }
        // Behind the handshake a failure of TLS leaves it open how far the request came.
        if (cause instanceof SSLHandshakeException || cause instanceof SSLException && stage != Stage.CALL) {
            return "TLS failed (" + oneLine(cause.getMessage()) + ").";
        }
        return cause instanceof UnresolvedAddressException || cause instanceof UnknownHostException ? "the host name was not found." : null;
    }

    /** Returns a foreign text made fit to show: printable, of at most 200 characters. */
    private static String oneLine(String text) {
        String printable = String.valueOf(text).replaceAll("[^\\p{Print}]", "?");
        return printable.substring(0, Math.min(200, printable.length()));
    }

    /** The end of a call's time, by a clock that never jumps; a length of zero never ends. */
    record Deadline(long atNanos, Duration length) {
        static Deadline in(Duration length) {
            return new Deadline(System.nanoTime() + length.toNanos(), length);
        }

        long leftNanos() {
            return length.isZero() ? Long.MAX_VALUE : Math.max(0, atNanos - System.nanoTime());
        }

        /** Waits for the lock under which another call agrees a session with this host. */
        void lock(ReentrantLock lock, String host) {
            try {
                if (!lock.tryLock(leftNanos(), TimeUnit.NANOSECONDS)) {
                    throw late(Stage.AGREEMENT, host, this, "totalTimeout", length);
                }
            } catch (InterruptedException interrupted) {
                throw cancelled(Stage.AGREEMENT, host, interrupted);
            }
        }
    }

    /** The progress of one exchange, from which the time for its head counts: from the last part of the request on. */
    static final class Progress {
        private final Duration headTimeout;
        private volatile long sentNanos;
        private volatile boolean isSent;
        private volatile boolean hasHead;

        Progress(Duration headTimeout) {
            this.headTimeout = headTimeout;
        }

        Duration headTimeout() {
            return headTimeout;
        }

        /** Returns the time left for the head; all of it while the request is being sent. */
        long headLeftNanos() {
            long passed = isSent ? System.nanoTime() - sentNanos : 0;
            return hasHead ? Long.MAX_VALUE : Math.max(0, headTimeout.toNanos() - passed);
        }

        private void sent() {
            sentNanos = System.nanoTime();
            isSent = true;
        }

        BodyPublisher watch(BodyPublisher body) {
            // The platform does not subscribe to a body of no length.
            if (body.contentLength() == 0) {
                sent();
                return body;
            }
            return new BodyPublisher() {
                @Override
                public long contentLength() {
                    return body.contentLength();
                }

                @Override
                public void subscribe(Flow.Subscriber<? super ByteBuffer> subscriber) {
                    body.subscribe(new Flow.Subscriber<>() {
                        @Override
                        public void onSubscribe(Flow.Subscription subscription) {
                            subscriber.onSubscribe(subscription);
                        }

                        @Override
                        public void onNext(ByteBuffer part) {
                            subscriber.onNext(part);
                        }

                        @Override
                        public void onError(Throwable failed) {
                            subscriber.onError(failed);
                        }

                        @Override
                        public void onComplete() {
                            sent();
                            subscriber.onComplete();
                        }
                    });
                }
            };
        }
    }

    /** A body of bounded length, read whole. */
    private static final class BoundedBody implements HttpResponse.BodySubscriber<byte[]> {
        private final CompletableFuture<byte[]> result = new CompletableFuture<>();
        private final List<ByteBuffer> parts = new ArrayList<>();
        private final int max;
        private int length;
        private Flow.Subscription subscription;

        BoundedBody(int max) {
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
                    result.completeExceptionally(new ProtocolException(Code.BODY_TOO_LARGE, "answer"));
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
