package dev.sealway.client;

import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import java.io.IOException;
import java.io.InputStream;
import java.net.ConnectException;
import java.net.URI;
import java.net.UnknownHostException;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
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
import javax.net.ssl.SSLException;

/** HTTP with bounds: on time, on the length of answers, and no redirects. */
final class Transport {
    private final HttpClient http;
    private final int answerMax;

    Transport(HttpClient http, int answerMax) {
        this.http = http;
        this.answerMax = answerMax;
    }

    /** An answer that is all there. */
    record WholeAnswer(int status, HeaderList headers, byte[] body) {
    }

    /** An answer whose body still comes. */
    record StreamAnswer(int status, HeaderList headers, InputStream body) {
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

    WholeAnswer send(HttpRequest request, Deadline deadline) {
        HttpResponse<byte[]> response = wait(request.uri(), http.sendAsync(request, head -> new BoundedBody(answerMax)), "whole answer", deadline);
        return new WholeAnswer(response.statusCode(), checked(response), response.body());
    }

    StreamAnswer open(HttpRequest request, Deadline deadline) {
        HttpResponse<InputStream> response = wait(request.uri(), http.sendAsync(request, HttpResponse.BodyHandlers.ofInputStream()), "head of an answer", deadline);
        try {
            return new StreamAnswer(response.statusCode(), checked(response), response.body());
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
            throw new TransportException("redirected", "the answer of " + response.uri().getAuthority() + " is a redirect ("
                    + response.statusCode() + "), which a sealed call does not follow: use the address that it leads to", null);
        }
        return list;
    }

    private static <T> T wait(URI service, CompletableFuture<T> future, String what, Deadline deadline) {
        try {
            return future.get(deadline.leftNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            future.cancel(true);
            throw new TransportException("deadline", "no " + what + " of " + service.getAuthority() + " within " + deadline.length().toMillis()
                    + " ms (timeout): check that the service is there and not overloaded, or wait longer", null);
        } catch (InterruptedException interrupted) {
            future.cancel(true);
            Thread.currentThread().interrupt();
            throw new TransportException("cancelled", "the call was cancelled", interrupted);
        } catch (ExecutionException failed) {
            throw refusal(service, failed);
        }
    }

    /** Who did not answer, why, and what to do. */
    static SealwayException refusal(URI service, Throwable failed) {
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            if (cause instanceof SealwayException own) {
                return own;
            }
        }
        Throwable cause = failed instanceof ExecutionException || failed instanceof CompletionException ? failed.getCause() : failed;
        return new TransportException("unreachable", "no answer of " + service.getAuthority() + ": " + why(cause), cause);
    }

    private static String why(Throwable failed) {
        boolean isConnecting = false;
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            if (cause instanceof HttpConnectTimeoutException) {
                return "it took too long to connect, TLS included: check the address and port, whether TLS is spoken there, and the firewalls in between";
            }
            if (cause instanceof SSLException) {
                return "TLS failed (" + oneLine(cause.getMessage()) + "): check that the port speaks TLS, that the certificate is for this name and of"
                        + " an authority that the JVM or httpClient trusts, whether the service asks for a client certificate, and this"
                        + " machine's clock";
            }
            if (cause instanceof UnresolvedAddressException || cause instanceof UnknownHostException) {
                return "its name was not found: check the address, and this machine's name servers";
            }
            isConnecting |= cause instanceof ConnectException;
        }
        return isConnecting ? "the connection was refused: check the address and port, and that the service runs there"
                : "the connection broke (" + failed.getClass().getSimpleName() + "), and whether the service had the request is unknown: check that"
                        + " the service runs, and what is in between";
    }

    /** A text of another's, to be shown: printable, of at most 200 characters. */
    private static String oneLine(String text) {
        String printable = String.valueOf(text).replaceAll("[^\\p{Print}]", "?");
        return printable.substring(0, Math.min(200, printable.length()));
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
