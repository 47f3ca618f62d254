package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Options;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Wire;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/** Seals calls to a service. Safe for use by any number of threads; the session is agreed at the first call, and once.
 *
 * <p>Every method that reaches the network throws {@link SealwayException}: {@link ProblemException} for a refusal,
 * {@link dev.sealway.wire.ProtocolException} for an answer that is not what it should be, {@link TransportException} for none. */
public final class SealwayClient implements AutoCloseable {
    private static final Duration CONNECT_MAX = Duration.ofSeconds(10);
    private final Settings settings;
    private final HttpClient http;
    private final boolean isOwnHttp;
    private final NativeSessions three;
    private final CompatSessions old;

    private SealwayClient(Builder builder) {
        this.settings = builder.settings();
        this.isOwnHttp = builder.http == null;
        this.http = isOwnHttp ? HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).followRedirects(HttpClient.Redirect.NEVER)
                .connectTimeout(settings.timeout().compareTo(CONNECT_MAX) < 0 ? settings.timeout() : CONNECT_MAX).executor(Executors.newVirtualThreadPerTaskExecutor()).build() : builder.http;
        Transport transport = new Transport(http, builder.answerMax);
        this.three = settings.wire() == Wire.NATIVE ? new NativeSessions(settings, transport) : null;
        this.old = three == null ? new CompatSessions(settings, transport) : null;
    }

    /** A session as it may be shown.
     *
     * @param suite of wire 3, else null
     * @param metrics what agreeing it cost
     */
    public record SessionInfo(String id, String suite, CallMetrics metrics) {
    }

    /** Begins to build a client of the service at this URL. */
    public static Builder builder(URI url) {
        return new Builder(url);
    }

    /** Agrees a session if there is none, and says which there is. */
    public SessionInfo session() {
        Deadline deadline = Deadline.in(settings.timeout());
        if (three == null) {
            CompatSessions.Lease agreed = old.session(null, deadline);
            return new SessionInfo(agreed.session().id(), null, agreed.metrics());
        }
        LiveSession live = three.acquire(null, deadline);
        try {
            return new SessionInfo(live.session().id(), live.session().agreed().suite(), live.metrics());
        } finally {
            live.release();
        }
    }

    /** Sends a request and gives its whole answer. An interrupt of the thread cancels the call. */
    public SealedAnswer send(SealedRequest request) {
        Options.present(request, "request", "SealedRequest.get makes one");
        Deadline deadline = Deadline.in(request.timeout() == null ? settings.timeout() : request.timeout());
        return three == null ? old.call(request, deadline) : three.call(request, deadline);
    }

    /** The same on a virtual thread; cancelling the future cancels the call. */
    public CompletableFuture<SealedAnswer> sendAsync(SealedRequest request) {
        CompletableFuture<SealedAnswer> out = new CompletableFuture<>();
        Thread thread = Thread.ofVirtual().start(() -> {
            try {
                out.complete(send(request));
            } catch (RuntimeException failed) {
                out.completeExceptionally(failed);
            }
        });
        out.whenComplete((answer, failed) -> {
            if (out.isCancelled()) {
                thread.interrupt();
            }
        });
        return out;
    }

    /** Sends a request whose answer is opened as it comes; wire 3 alone. The time limit is for the answer's head. */
    public SealedStream stream(SealedRequest request) {
        return stream(request, null);
    }

    /** The same with a body that is sealed as it is read: each read ends a frame. It is closed when it was sent. */
    public SealedStream stream(SealedRequest request, InputStream body) {
        if (three == null) {
            throw new IllegalArgumentException("wire is 1 or 2, which have no streams: call send, or build the client for Wire.NATIVE");
        }
        Options.present(request, "request", "SealedRequest.get makes one");
        return three.stream(request, body, Deadline.in(request.timeout() == null ? settings.timeout() : request.timeout()));
    }

    /** Whether calls go to this URL's origin: scheme, host and port. */
    public boolean isOwnOrigin(URI url) {
        return url.getScheme() != null && url.getHost() != null && Settings.origin(settings.serverUrl()).equals(Settings.origin(url));
    }

    /** Begins an exchange that another HTTP library carries; wire 3 alone. It agrees a session where there is none, so it blocks. */
    public SealedExchange exchange(String method, String target) {
        if (three == null) {
            throw new IllegalArgumentException("wire is 1 or 2, which other libraries do not carry: build the client for Wire.NATIVE");
        }
        return new SealedExchange(three, settings, three.acquire(null, Deadline.in(settings.timeout())), method, target);
    }

    /** Has the service forget the session, and wipes its keys; on wires 1 and 2 it is forgotten here alone. */
    public void end() {
        if (three == null) {
            old.forget();
        } else {
            three.end(Deadline.in(settings.timeout()));
        }
    }

    /** Forgets the session here and wipes its keys; the next call agrees another. */
    public void forget() {
        if (three == null) {
            old.forget();
        } else {
            three.forget();
        }
    }

    /** Wipes the keys; no call may be under way any more. */
    @Override
    public void close() {
        if (three == null) {
            old.close();
        } else {
            three.forget();
        }
        if (isOwnHttp) {
            http.shutdownNow();
        }
    }

    @Override
    public String toString() {
        return "SealwayClient[" + settings.serverUrl() + ", wire " + settings.wire().number() + "]";
    }

    /** Builds a client. */
    public static final class Builder {
        private static final String TRUST_REMEDY = "pin the service's keys (Trust.pins) or its root (Trust.root), or say that the first use is trusted"
                + " (Trust.firstUse)";
        private final URI sessionUrl;
        private URI serverUrl;
        private Wire wire = Wire.NATIVE;
        private String initPath = "/session/init";
        private List<Suite> suites = Suite.ALL;
        private String clientId = "sealway-java";
        private Long ttlSec;
        private Trust trust;
        private Supplier<String> authorization = () -> null;
        private UnaryOperator<InitRequest> prove;
        private Duration timeout = Duration.ofSeconds(30);
        private InstantSource day = InstantSource.system();
        private Duration idleTimeout = Duration.ofSeconds(30);
        private int answerMax = 4 << 20;
        private long streamMax = 1L << 30;
        private HttpClient http;

        private Builder(URI url) {
            this.sessionUrl = base(url, "url");
            this.serverUrl = sessionUrl;
        }

        private static URI base(URI url, String name) {
            Options.present(url, name, "give the service's address, as https://api.example.com");
            boolean isHttp = "http".equalsIgnoreCase(url.getScheme()) || "https".equalsIgnoreCase(url.getScheme());
            if (!isHttp || url.getHost() == null || url.getRawUserInfo() != null || url.getRawQuery() != null || url.getRawFragment() != null) {
                // Not quoted: it may hold a password.
                throw new IllegalArgumentException(name + " is not http:// or https:// and a host, as https://api.example.com:8443: no user, query"
                        + " or fragment may stand in it");
            }
            String text = url.toString();
            return URI.create(text.endsWith("/") ? text.substring(0, text.length() - 1) : text);
        }

        /** Where calls go, if that is not where sessions are agreed. */
        public Builder serverUrl(URI url) {
            serverUrl = base(url, "serverUrl");
            return this;
        }

        /** The wire; 3 unless set. */
        public Builder wire(Wire value) {
            wire = Options.present(value, "wire", "give one of Wire.ONE, TWO and NATIVE");
            return this;
        }

        /** Where sessions of wires 1 and 2 are agreed; {@code /session/init} unless set. */
        public Builder initPath(String path) {
            if (!Options.present(path, "initPath", "give a path, as /session/init").startsWith("/")) {
                throw new IllegalArgumentException("initPath does not begin with a slash: give a path, as /session/init");
            }
            initPath = path;
            return this;
        }

        /** The suites, the one liked most first; all unless set. */
        public Builder suites(Suite... values) {
            String remedy = "give at least one suite, as Suite.P256, or leave it out for all";
            for (Suite each : Options.present(values, "suites", remedy)) {
                Options.present(each, "one of suites", remedy);
            }
            if (values.length == 0) {
                throw new IllegalArgumentException("suites is empty: " + remedy);
            }
            suites = List.of(values);
            return this;
        }

        /** Who the client says it is: 1 to 256 printable ASCII characters without a bar. */
        public Builder clientId(String value) {
            if (!Forms.isClientId(Options.present(value, "clientId", "leave it out for sealway-java"))) {
                throw new IllegalArgumentException("clientId is not 1 to 256 printable ASCII characters without a bar");
            }
            clientId = value;
            return this;
        }

        /** The life that is asked for, in whole seconds; the service has the last word. */
        public Builder ttl(Duration value) {
            ttlSec = Options.atLeast(Options.within(value, Duration.ZERO, Duration.ofDays(365), "ttl").toSeconds(), 1, "ttl in seconds");
            return this;
        }

        /** Whom to trust; on wire 3 it has to be said. */
        public Builder trust(Trust value) {
            trust = Options.present(value, "trust", TRUST_REMEDY);
            return this;
        }

        /** The value of {@code Authorization} at an init, asked for at each. */
        public Builder authorization(Supplier<String> value) {
            authorization = Options.present(value, "authorization", "give a supplier, or leave it out for none");
            return this;
        }

        /** Makes a DPoP proof of each init, by {@link InitRequest#initHash} and {@link InitRequest#withProof}. */
        public Builder proof(UnaryOperator<InitRequest> value) {
            prove = value;
            return this;
        }

        /** For a whole call, retries and the agreement included; 30 seconds unless set. Connecting has 10 of them at most. */
        public Builder timeout(Duration value) {
            timeout = Options.within(value, Duration.ZERO, Duration.ofDays(365), "timeout");
            return this;
        }

        /** Between two parts of a streamed answer; 30 seconds unless set. */
        public Builder idleTimeout(Duration value) {
            idleTimeout = Options.within(value, Duration.ZERO, Duration.ofDays(365), "idleTimeout");
            return this;
        }

        /** The longest sealed answer that is read whole, in bytes; 4 MiB unless set. */
        public Builder answerMax(int bytes) {
            answerMax = (int) Options.atLeast(bytes, 1, "answerMax");
            return this;
        }

        /** The longest body of a streamed answer, in bytes; 1 GiB unless set. */
        public Builder streamMax(long bytes) {
            streamMax = Options.atLeast(bytes, 1, "streamMax");
            return this;
        }

        /** An HTTP client of the caller's, which has to follow no redirects. */
        public Builder httpClient(HttpClient value) {
            if (Options.present(value, "httpClient", "leave it out for one of its own").followRedirects() != HttpClient.Redirect.NEVER) {
                throw new IllegalArgumentException("httpClient follows redirects: build it with HttpClient.Redirect.NEVER");
            }
            http = value;
            return this;
        }

        /** The clock of the day; the system's unless set. */
        Builder day(InstantSource value) {
            day = value;
            return this;
        }

        private Settings settings() {
            if (wire == Wire.NATIVE) {
                Options.present(trust, "trust", TRUST_REMEDY);
            }
            return new Settings(sessionUrl, serverUrl, wire, initPath, suites, clientId, ttlSec, trust, authorization, prove, timeout,
                    idleTimeout, streamMax, new SecureRandom(), day);
        }

        /** Builds it; nothing is sent yet. */
        public SealwayClient build() {
            return new SealwayClient(this);
        }
    }
}
