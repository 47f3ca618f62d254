package dev.sealway.client;

import dev.sealway.client.Transport.Deadline;
import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Options;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.UsageException;
import dev.sealway.wire.Wire;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/** Seals calls to a service. Safe for use by any number of threads, which share one session; it is agreed at the first call.
 *
 * <p>Errors are {@link SealwayException}s: {@link dev.sealway.wire.UsageException} for a wrong option or request,
 * {@link TransportException} for no answer, {@link ProblemException} for an answer that is not sealed, and
 * {@link dev.sealway.wire.ProtocolException} for one that does not open or does not verify. */
public final class SealwayClient implements AutoCloseable {
    private static final Duration LONGEST = Duration.ofDays(365);
    private final Settings settings;
    private final HttpClient http;
    private final boolean isOwnHttp;
    private final NativeSessions sessions;
    private final CompatSessions compat;

    private SealwayClient(Builder builder) {
        this.settings = builder.settings();
        this.isOwnHttp = builder.isOwnHttp();
        this.http = builder.http();
        Transport transport = builder.transport(http);
        this.sessions = settings.wire() == Wire.NATIVE ? new NativeSessions(settings, transport) : null;
        this.compat = sessions == null ? new CompatSessions(settings, transport) : null;
    }

    /** Public facts about a session.
     *
     * @param suite null on wires 1 and 2
     * @param metrics measurements of its agreement
     */
    public record SessionInfo(String id, String suite, CallMetrics metrics) {
    }

    /** Begins to build a client.
     *
     * @param url the service, to which sealed requests go: {@code https://} or {@code http://}, a host, and a path if there is one
     */
    public static Builder builder(URI url) {
        return new Builder(url);
    }

    /** Returns the session in use; agrees one if there is none.
     *
     * @throws SealwayException of the stage {@code agreement}
     */
    public SessionInfo session() {
        Deadline deadline = Deadline.in(settings.totalTimeout());
        if (sessions == null) {
            CompatSessions.Lease agreed = compat.session(null, deadline);
            return new SessionInfo(agreed.session().id(), null, agreed.metrics());
        }
        LiveSession live = sessions.acquire(deadline);
        try {
            return new SessionInfo(live.session().id(), live.session().agreed().suite(), live.metrics());
        } finally {
            live.release();
        }
    }

    /** Sends a request and returns its whole answer. An interrupt of the thread cancels the call.
     *
     * @throws SealwayException if there is no answer that opens
     */
    public SealedAnswer send(SealedRequest request) {
        Deadline deadline = deadline(request, settings.totalTimeout());
        return sessions == null ? compat.call(request, deadline) : sessions.calls().call(request, deadline);
    }

    /** Returns the end of a call's time: its own, or that of the client. */
    static Deadline deadline(SealedRequest request, Duration total) {
        Options.present(request, "request", "SealedRequest.get makes one");
        return Deadline.in(request.totalTimeout() == null ? total : request.totalTimeout());
    }

    /** Sends a request on a virtual thread; see {@link #send}. Cancelling the future cancels the call. */
    public CompletableFuture<SealedAnswer> sendAsync(SealedRequest request) {
        return async(() -> send(request));
    }

    /** Makes a call on a virtual thread, which a cancelled future interrupts. */
    static CompletableFuture<SealedAnswer> async(Supplier<SealedAnswer> call) {
        CompletableFuture<SealedAnswer> out = new CompletableFuture<>();
        Thread thread = Thread.ofVirtual().start(() -> {
            try {
                out.complete(call.get());
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

    /** Sends a request and returns its answer as a stream, once its first frame has opened. Wire 3 alone.
     *
     * @throws SealwayException if there is no answer that opens
     */
    public SealedStream stream(SealedRequest request) {
        return stream(request, null);
    }

    /** Sends a request whose body is sealed as it is read, and returns its answer as a stream. Wire 3 alone.
     *
     * @param body each read of it is sent before the next one; it is closed after the last
     * @throws SealwayException if there is no answer that opens
     */
    public SealedStream stream(SealedRequest request, InputStream body) {
        if (sessions == null) {
            throw new UsageException("wire is 1 or 2, which have no streams: call send, or build the client for Wire.NATIVE");
        }
        return sessions.calls().stream(request, body, deadline(request, settings.totalTimeout()));
    }

    /** Returns true if a URL is of the service's origin: scheme, host and port. */
    public boolean isOwnOrigin(URI url) {
        return url.getScheme() != null && url.getHost() != null && Settings.origin(settings.url()).equals(Settings.origin(url));
    }

    /** Begins an exchange whose bytes another HTTP library carries. Wire 3 alone. Blocks while a session is agreed.
     *
     * @throws SealwayException of the stages {@code configuration} and {@code agreement}
     */
    public SealedExchange exchange(String method, String target) {
        if (sessions == null) {
            throw new UsageException("wire is 1 or 2, which other libraries do not carry: build the client for Wire.NATIVE");
        }
        return new SealedExchange(sessions, settings, sessions.acquire(Deadline.in(settings.totalTimeout())), method, target);
    }

    /** Ends the session at the service and wipes its keys. On wires 1 and 2 the client alone forgets it.
     *
     * @throws SealwayException if the service cannot be told
     */
    public void end() {
        if (sessions == null) {
            compat.forget();
        } else {
            sessions.end(Deadline.in(settings.totalTimeout()));
        }
    }

    /** Forgets the session and wipes its keys, without asking the service. The next call agrees another one. */
    public void forget() {
        if (sessions == null) {
            compat.forget();
        } else {
            sessions.forget();
        }
    }

    /** Wipes the keys. No call may be under way. */
    @Override
    public void close() {
        if (sessions == null) {
            compat.close();
        } else {
            sessions.forget();
        }
        if (isOwnHttp) {
            http.shutdownNow();
        }
    }

    @Override
    public String toString() {
        return "SealwayClient[" + settings.url() + ", wire " + settings.wire().number() + "]";
    }

    /** Checks a total timeout, which alone may be zero. */
    static Duration totalTimeout(Duration value) {
        return Duration.ZERO.equals(value) ? value : timeout(value, "totalTimeout");
    }

    private static Duration timeout(Duration value, String name) {
        return Options.within(value, Duration.ZERO, LONGEST, name);
    }

    /** Options of a client. A setter throws a {@link UsageException} that names the option if its value is wrong. */
    public static final class Builder {
        private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);
        private static final String INIT_PATHS = "give /session/init, /session/init/anon (wire 1) or /v1/session/init (wire 2)";
        private static final String TRUST = "pin the service's keys (Trust.pins) or their root (Trust.root), or trust the first use (Trust.firstUse)";
        private static final String URL = "give an address such as https://api.example.com:8443";
        private final URI url;
        private URI authorityUrl;
        private Wire wire = Wire.NATIVE;
        private String initPath = "/session/init";
        private List<Suite> suites = Suite.DEFAULT;
        private List<String> signatureAlgorithms = List.of();
        private String clientId = "sealway-java";
        private Long ttlSec;
        private Trust trust;
        private Supplier<String> authorization = () -> null;
        private UnaryOperator<InitRequest> proof;
        private Duration connectTimeout;
        private Duration headTimeout = Duration.ofSeconds(30);
        private Duration totalTimeout = Duration.ofSeconds(60);
        private Duration idleTimeout = Duration.ofSeconds(60);
        private int answerMaxBytes = 16 << 20;
        private Consumer<CallMetrics> onMetrics = metrics -> { };
        private InstantSource day = InstantSource.system();
        private HttpClient http;

        private Builder(URI url) {
            this.url = base(url, "url");
            this.authorityUrl = this.url;
        }

        private static URI base(URI url, String name) {
            Options.present(url, name, URL);
            boolean isHttp = "http".equalsIgnoreCase(url.getScheme()) || "https".equalsIgnoreCase(url.getScheme());
            if (!isHttp || url.getHost() == null || url.getRawUserInfo() != null || url.getRawQuery() != null || url.getRawFragment() != null) {
                // Not quoted: it may hold a password.
                throw new UsageException(name + " is not http:// or https:// and a host without user, query and fragment: " + URL);
            }
            String text = url.toString();
            return URI.create(text.endsWith("/") ? text.substring(0, text.length() - 1) : text);
        }

        /** Sets the address at which sessions are agreed and identity keys published; the service's by default. */
        public Builder authorityUrl(URI value) {
            authorityUrl = base(value, "authorityUrl");
            return this;
        }

        /** Sets the wire; the native protocol, wire 3, by default. */
        public Builder wire(Wire value) {
            wire = Options.present(value, "wire", "give one of Wire.ONE, TWO and NATIVE");
            return this;
        }

        /** Sets the path of inits: {@code /session/init} (the default), {@code /session/init/anon} (wire 1) or {@code /v1/session/init}
         * (wire 2). {@link #build} checks it. */
        public Builder initPath(String path) {
            initPath = Options.present(path, "initPath", INIT_PATHS);
            return this;
        }

        /** Sets the suites, in order of preference; {@link Suite#DEFAULT} by default, which has none with ML-KEM-1024. */
        public Builder suites(Suite... values) {
            String remedy = "give at least one suite, as Suite.P256, or leave it out for those by default";
            for (Suite each : Options.present(values, "suites", remedy)) {
                Options.present(each, "one of suites", remedy);
            }
            if (values.length == 0) {
                throw new UsageException("suites is empty: " + remedy);
            }
            suites = List.of(values);
            return this;
        }

        /** Sets the signature algorithms that identity keys and roots may have; the service signs with a key of one of them. By default
         * {@code ES256}, and of pinned keys and a pinned root all. Those with ML-DSA need Bouncy Castle. */
        public Builder signatureAlgorithms(SignatureAlgorithm... values) {
            String remedy = "give 1 to 6, as SignatureAlgorithm.ES384_ML_DSA_87, or leave it out for no restriction";
            for (SignatureAlgorithm each : Options.present(values, "signatureAlgorithms", remedy)) {
                if (!Options.present(each, "one of signatureAlgorithms", remedy).isAvailable()) {
                    throw new UsageException("signatureAlgorithms has " + each.text() + ", which needs Bouncy Castle: do not exclude bcprov-jdk18on");
                }
            }
            List<String> names = Arrays.stream(values).map(SignatureAlgorithm::text).distinct().toList();
            if (names.isEmpty() || names.size() != values.length) {
                throw new UsageException("signatureAlgorithms is empty, or has one twice: " + remedy);
            }
            signatureAlgorithms = names;
            return this;
        }

        List<String> signatureAlgorithms() {
            return signatureAlgorithms;
        }

        /** Sets the name of the client: 1 to 256 printable ASCII characters without a bar; {@code sealway-java} by default. */
        public Builder clientId(String value) {
            if (!Forms.isClientId(Options.present(value, "clientId", "leave it out for sealway-java"))) {
                throw new UsageException("clientId is not 1 to 256 printable ASCII characters without a bar");
            }
            clientId = value;
            return this;
        }

        /** Sets the life to ask for, in whole seconds; the service decides. Its default applies by default. */
        public Builder ttl(Duration value) {
            ttlSec = Options.atLeast(timeout(value, "ttl").toSeconds(), 1, "ttl in seconds");
            return this;
        }

        /** Sets the verification of the service's identity. Wire 3 requires it. */
        public Builder trust(Trust value) {
            trust = Options.present(value, "trust", TRUST);
            return this;
        }

        /** Sets the function that returns the value of {@code Authorization}, such as {@code Bearer …}, at each init; it may block. None by
         * default, and where it returns null. */
        public Builder authorization(Supplier<String> value) {
            authorization = Options.present(value, "authorization", "give a supplier, or leave it out for none");
            return this;
        }

        /** Sets the function that adds a DPoP proof to each init, by {@link InitRequest#initHash} and {@link InitRequest#withProof}. None by
         * default. */
        public Builder proof(UnaryOperator<InitRequest> value) {
            proof = Options.present(value, "proof", "give a function, or leave it out for none");
            return this;
        }

        /** Sets the time to connect, TCP and TLS; 10 seconds by default. An {@link #httpClient} has its own. */
        public Builder connectTimeout(Duration value) {
            connectTimeout = timeout(value, "connectTimeout");
            return this;
        }

        /** Sets the time from the last part of a request to the head of its answer, and to the first frame of a streamed one; 30 seconds by
         * default. It includes the time to connect for a request without a body. */
        public Builder headTimeout(Duration value) {
            headTimeout = timeout(value, "headTimeout");
            return this;
        }

        /** Sets the time of a whole call: agreement, retries, request and the body of the answer; 60 seconds by default. Zero sets no limit, for
         * streams without an end. */
        public Builder totalTimeout(Duration value) {
            totalTimeout = SealwayClient.totalTimeout(value);
            return this;
        }

        /** Sets the time between two parts of a streamed answer; 60 seconds by default. */
        public Builder idleTimeout(Duration value) {
            idleTimeout = timeout(value, "idleTimeout");
            return this;
        }

        /** Sets the bound on an answer that is opened whole, in sealed bytes; 16 MiB by default. */
        public Builder answerMaxBytes(int bytes) {
            answerMaxBytes = (int) Options.atLeast(bytes, 1, "answerMaxBytes");
            return this;
        }

        /** Sets the function that receives the measurements of each exchange, on the thread of its call. It must not block. */
        public Builder onMetrics(Consumer<CallMetrics> value) {
            onMetrics = Options.present(value, "onMetrics", "give a function, or leave it out for none");
            return this;
        }

        /** Sets the HTTP client, for proxies, TLS and client certificates. It must follow no redirects. */
        public Builder httpClient(HttpClient value) {
            if (Options.present(value, "httpClient", "leave it out for one of its own").followRedirects() != HttpClient.Redirect.NEVER) {
                throw new UsageException("httpClient follows redirects: build it with HttpClient.Redirect.NEVER");
            }
            http = value;
            return this;
        }

        /** Sets the clock of the day; the system's by default. */
        Builder day(InstantSource value) {
            day = value;
            return this;
        }

        private Settings settings() {
            if (wire == Wire.NATIVE) {
                Options.present(trust, "trust", TRUST);
            }
            Trust.check(trust, signatureAlgorithms);
            boolean hasPath = switch (initPath) {
                case "/session/init" -> true;
                case "/session/init/anon" -> wire == Wire.ONE;
                case "/v1/session/init" -> wire == Wire.TWO;
                default -> false;
            };
            if (!hasPath) {
                throw new UsageException("initPath is " + initPath + ": " + INIT_PATHS);
            }
            return new Settings(calls(), authorityUrl, wire, initPath, suites, signatureAlgorithms, clientId, ttlSec, trust, authorization, proof);
        }

        CallSettings calls() {
            return new CallSettings(url, totalTimeout, idleTimeout, onMetrics, new SecureRandom(), day);
        }

        boolean isOwnHttp() {
            return http == null;
        }

        /** Returns the HTTP client of the options, or one of its own, which the caller closes. */
        HttpClient http() {
            if (http != null && connectTimeout != null) {
                throw new UsageException("connectTimeout has no effect on an httpClient: set it there");
            }
            return http != null ? http : HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).followRedirects(HttpClient.Redirect.NEVER)
                    .connectTimeout(connectTimeout == null ? CONNECT_TIMEOUT : connectTimeout)
                    .executor(Executors.newVirtualThreadPerTaskExecutor()).build();
        }

        Transport transport(HttpClient below) {
            return new Transport(below, headTimeout, answerMaxBytes);
        }

        /** Builds the client. Nothing is sent yet. */
        public SealwayClient build() {
            return new SealwayClient(this);
        }
    }
}
