package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.crypto.Hpke;
import dev.sealway.crypto.Kem;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.session.nativeprotocol.OneShotKeys;
import dev.sealway.wire.Options;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.UsageException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.InstantSource;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** Seals single requests to a public key of a service, without a session: wire 4, {@code spec/one-shot.md}. Safe for use by any number of threads.
 *
 * <p>For more than one call in a minute use a {@link SealwayClient}: a session is cheaper, and has forward secrecy.
 *
 * <p>Errors are those of {@link SealwayClient}, and {@link KeyRetiredException}, {@link ReplayedException}, {@link ClockSkewException} and
 * {@link dev.sealway.wire.TruncatedException} among them. */
public final class OneShot implements AutoCloseable {
    private final CallSettings settings;
    private final HttpClient http;
    private final boolean isOwnHttp;
    private final Hpke.Psk psk;
    private final SealedCalls<OneShotSource.Use> calls;

    private OneShot(Builder builder) {
        this.settings = builder.below.calls();
        this.isOwnHttp = builder.below.isOwnHttp();
        this.psk = builder.pskId == null ? null : new Hpke.Psk(builder.pskId, SecretBytes.owning(builder.pskKey.clone()));
        this.http = builder.below.http();
        Transport transport = builder.below.transport(http);
        this.calls = new SealedCalls<>(settings, transport, new OneShotSource(settings, transport, builder.trust,
                builder.below.signatureAlgorithms(), builder.kems, psk));
    }

    /** Begins to build a client.
     *
     * @param url the service: {@code https://} or {@code http://}, a host, and a path if there is one
     * @param trust source of the service's keys: pins or a root */
    public static Builder to(URI url, OneShotTrust trust) {
        return new Builder(url, trust);
    }

    /** Sends a request and returns its whole answer. An interrupt of the thread cancels the call.
     *
     * @throws SealwayException if there is no answer that opens */
    public SealedAnswer send(SealedRequest request) {
        return calls.call(request, deadline(request));
    }

    /** Sends a request of the platform's HTTP client, and returns its whole answer by one of the platform's handlers, as
     * {@code BodyHandlers.ofString()}. Bodies are held whole; the request's {@code timeout} is that of the call.
     *
     * @param request to this service, under its URL
     * @throws SealwayException if there is no answer that opens */
    public <T> HttpResponse<T> send(HttpRequest request, HttpResponse.BodyHandler<T> handler) {
        Options.present(request, "request", "HttpRequest.newBuilder makes one");
        Options.present(handler, "handler", "give one, as BodyHandlers.ofString()");
        return PlatformResponse.of(request, send(PlatformRequest.sealed(request, settings.url())), handler);
    }

    private Deadline deadline(SealedRequest request) {
        return SealwayClient.deadline(request, settings.totalTimeout());
    }

    /** Sends a request on a virtual thread; see {@link #send(SealedRequest)}. Cancelling the future cancels the call. */
    public CompletableFuture<SealedAnswer> sendAsync(SealedRequest request) {
        return SealwayClient.async(() -> send(request));
    }

    /** Sends a request and returns its answer as a stream, once its first frame has opened.
     *
     * @throws SealwayException if there is no answer that opens */
    public SealedStream stream(SealedRequest request) {
        return stream(request, null);
    }

    /** Sends a request whose body is sealed as it is read, and returns its answer as a stream.
     *
     * @param body each read of it is sent before the next one; it is closed after the last
     * @throws SealwayException if there is no answer that opens */
    public SealedStream stream(SealedRequest request, InputStream body) {
        return calls.stream(request, body, deadline(request));
    }

    /** Wipes the pre-shared key. No call may be under way. */
    @Override
    public void close() {
        if (psk != null) {
            psk.key().close();
        }
        if (isOwnHttp) {
            http.shutdownNow();
        }
    }

    @Override
    public String toString() {
        return "OneShot[" + settings.url() + "]";
    }

    /** Options of a client. A setter throws a {@link UsageException} that names the option if its value is wrong. */
    public static final class Builder {
        private static final String KEMS = "give at least one, as Kem.X_WING, or leave it out for all";
        private final SealwayClient.Builder below;
        private final OneShotTrust trust;
        private Set<Kem> kems = EnumSet.allOf(Kem.class);
        private byte[] pskId;
        private byte[] pskKey;

        private Builder(URI url, OneShotTrust trust) {
            this.below = SealwayClient.builder(url);
            this.trust = Options.present(trust, "trust", "pin the service's keys (OneShotTrust.pins) or their root (OneShotTrust.root)");
        }

        /** Sets the pre-shared key, which says who the client is; none by default.
         *
         * @param id its public name, 1 to 64 characters of visible ASCII
         * @param key 32 random bytes, never a password */
        public Builder psk(String id, byte[] key) {
            if (!OneShotKeys.isPskId(Options.present(id, "id of psk", "give its public name"))) {
                throw new UsageException("id of psk is not 1 to 64 characters of visible ASCII");
            }
            if (!OneShotKeys.isPskLength(Options.present(key, "key of psk", "give its 32 bytes").length)) {
                throw new UsageException("key of psk has " + key.length + " bytes: give 32");
            }
            pskId = id.getBytes(StandardCharsets.US_ASCII);
            pskKey = key.clone();
            return this;
        }

        /** Sets the KEMs that the client allows; all that the platform has by default. The order of keys is the service's, or that of the pins. */
        public Builder kems(Kem... values) {
            for (Kem each : Options.present(values, "kems", KEMS)) {
                Options.present(each, "one of kems", KEMS);
            }
            if (values.length == 0) {
                throw new UsageException("kems is empty: " + KEMS);
            }
            kems = EnumSet.copyOf(List.of(values));
            return this;
        }

        /** Sets the signature algorithms that the root may have; see {@link SealwayClient.Builder#signatureAlgorithms}. */
        public Builder signatureAlgorithms(SignatureAlgorithm... values) {
            below.signatureAlgorithms(values);
            return this;
        }

        /** Sets the time to connect; see {@link SealwayClient.Builder#connectTimeout}. */
        public Builder connectTimeout(Duration value) {
            below.connectTimeout(value);
            return this;
        }

        /** Sets the time to the head of an answer; see {@link SealwayClient.Builder#headTimeout}. */
        public Builder headTimeout(Duration value) {
            below.headTimeout(value);
            return this;
        }

        /** Sets the time of a whole call; see {@link SealwayClient.Builder#totalTimeout}. */
        public Builder totalTimeout(Duration value) {
            below.totalTimeout(value);
            return this;
        }

        /** Sets the time between two parts of a streamed answer; see {@link SealwayClient.Builder#idleTimeout}. */
        public Builder idleTimeout(Duration value) {
            below.idleTimeout(value);
            return this;
        }

        /** Sets the bound on an answer that is opened whole; see {@link SealwayClient.Builder#answerMaxBytes}. */
        public Builder answerMaxBytes(int bytes) {
            below.answerMaxBytes(bytes);
            return this;
        }

        /** Sets the function that receives measurements; see {@link SealwayClient.Builder#onMetrics}. */
        public Builder onMetrics(Consumer<CallMetrics> value) {
            below.onMetrics(value);
            return this;
        }

        /** Sets the HTTP client; see {@link SealwayClient.Builder#httpClient}. */
        public Builder httpClient(HttpClient value) {
            below.httpClient(value);
            return this;
        }

        /** Sets the clock of the day; the system's by default. */
        Builder day(InstantSource value) {
            below.day(value);
            return this;
        }

        /** Builds the client. Nothing is sent yet.
         *
         * @throws UsageException if no pinned key has a KEM that the client allows and the platform has */
        public OneShot build() {
            return new OneShot(this);
        }
    }
}
