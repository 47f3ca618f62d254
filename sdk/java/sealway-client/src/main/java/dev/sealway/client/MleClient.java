package dev.sealway.client;

import dev.sealway.mle.Message;
import dev.sealway.mle.MleException;
import dev.sealway.mle.OpeningKeys;
import dev.sealway.mle.Plaintext;
import dev.sealway.mle.Profile;
import dev.sealway.mle.SealingKey;
import dev.sealway.mle.Tokens;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.Unreplayed;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.Options;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest.BodyPublishers;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;

/** Sends requests whose bodies are encrypted as a card scheme does, and opens the answers. Method, target and headers are in clear. A request without
 * a body has nothing to seal. It retries nothing. Safe for use by any number of threads. {@code spec/mle.md}. */
public final class MleClient {
    private final URI url;
    private final Builder options;
    private final Profile profile;
    private final Transport transport;
    private final SecureRandom random = new SecureRandom();

    private MleClient(Builder builder) {
        this.url = builder.url;
        this.options = builder;
        this.profile = builder.profile.withReplay(new ReplayPolicy(builder.window.toMillis())).withTokenMaxBytes(builder.answerMaxBytes);
        HttpClient http = builder.httpClient != null ? builder.httpClient : HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
                .followRedirects(HttpClient.Redirect.NEVER).connectTimeout(Duration.ofSeconds(10)).build();
        this.transport = new Transport(http, builder.headTimeout, builder.answerMaxBytes);
    }

    /** Begins to build a client.
     *
     * @param url of the service: scheme, host and port
     * @param profile the form of the messages, such as {@code Profile.mastercardJwe()}
     * @param seal the keys of the service; of those that are valid the newest seals requests
     * @param open the keys that open answers, all of them live */
    public static Builder builder(URI url, Profile profile, List<SealingKey> seal, OpeningKeys open) {
        return new Builder(url, profile, seal, open);
    }

    /** Options of a client. A setter throws a {@link UsageException} that names the option if its value is wrong. */
    public static final class Builder {
        private final URI url;
        private final Profile profile;
        private final List<SealingKey> seal;
        private final OpeningKeys open;
        private boolean plainErrors;
        private Duration window = Duration.ofMinutes(5);
        private Duration headTimeout = Duration.ofSeconds(30);
        private Duration totalTimeout = Duration.ofSeconds(60);
        private int answerMaxBytes = 16 << 20;
        private HttpClient httpClient;
        private InstantSource clock = InstantSource.system();

        private Builder(URI url, Profile profile, List<SealingKey> seal, OpeningKeys open) {
            Options.present(url, "url", "give the address of the service, as https://api.example.com");
            if (url.getHost() == null || !"https".equals(url.getScheme()) && !"http".equals(url.getScheme()) || url.getRawUserInfo() != null) {
                throw new UsageException("url is not https:// or http:// with a host");
            }
            this.url = URI.create(url.getScheme() + "://" + url.getRawAuthority());
            this.profile = Options.present(profile, "profile", "Profile has those of the schemes");
            this.seal = List.copyOf(Options.present(seal, "seal", "give the keys of the service"));
            this.open = Options.present(open, "open", "OpeningKeys.of puts the keys that open together");
            if (this.seal.isEmpty()) {
                throw new UsageException("seal is empty: give the keys of the service");
            }
        }

        /** Returns an answer in clear with a status of 400 and more as it is: schemes report errors so, and any party between client and service can
         * make one. False by default: an answer in clear that has a body is an error. */
        public Builder plainErrors(boolean value) {
            plainErrors = value;
            return this;
        }

        /** Sets the greatest distance between the {@code iat} of an answer and this clock, either way; 5 minutes by default, at most a day. */
        public Builder window(Duration value) {
            window = Options.within(value, Duration.ZERO, Duration.ofDays(1), "window");
            return this;
        }

        /** Sets the time from the last part of a request to the head of its answer; 30 seconds by default. */
        public Builder headTimeout(Duration value) {
            headTimeout = Options.within(value, Duration.ZERO, Duration.ofDays(365), "headTimeout");
            return this;
        }

        /** Sets the time of a whole call; a minute by default, zero for none. {@link SealedRequest#withTotalTimeout} is for one call. */
        public Builder totalTimeout(Duration value) {
            totalTimeout = SealwayClient.totalTimeout(value);
            return this;
        }

        /** Sets the bound on an answer, in bytes; 16 MiB by default. */
        public Builder answerMaxBytes(int value) {
            answerMaxBytes = (int) Options.atLeast(value, 1, "answerMaxBytes");
            return this;
        }

        /** Sets the HTTP client below, for proxies, TLS and client certificates; without redirects. One of its own by default. */
        public Builder httpClient(HttpClient value) {
            httpClient = Options.present(value, "httpClient", "leave it out for one of the client's own");
            if (value.followRedirects() != HttpClient.Redirect.NEVER) {
                throw new UsageException("httpClient follows redirects: give one with Redirect.NEVER");
            }
            return this;
        }

        /** Sets the clock; the system's by default. */
        public Builder clock(InstantSource value) {
            clock = Options.present(value, "clock", "leave it out for the system's");
            return this;
        }

        /** Builds the client. */
        public MleClient build() {
            return new MleClient(this);
        }
    }

    /** Sends a request and returns its answer.
     *
     * @throws dev.sealway.wire.SealwayException as a {@link UsageException} if nothing was sent, a {@link TransportException} if no answer came, a
     *     {@link ProblemException} for an answer in clear, a {@link MleException} for a token that does not open */
    public MleAnswer send(SealedRequest request) {
        Duration total = request.totalTimeout() == null ? options.totalTimeout : request.totalTimeout();
        Transport.WholeAnswer answer = transport.send(Stage.CALL, outgoing(request), Transport.Deadline.in(total));
        boolean isToken = Tokens.isToken(profile, Message.ANSWER, answer.headers(), answer.body());
        if (answer.body().length == 0 || options.plainErrors && answer.status() >= 400 && !isToken) {
            return new MleAnswer(answer.status(), answer.headers(), answer.body(), false);
        }
        String coding = answer.headers().first("content-encoding");
        if (!isToken || coding != null && !coding.equalsIgnoreCase("identity")) {
            throw ProblemException.of(Stage.CALL, Settings.host(url), answer.status(), answer.body());
        }
        byte[] plaintext;
        try {
            Unreplayed<Plaintext> guarded = Tokens.open(answer.body(), answer.headers(), profile, Message.ANSWER, options.open, options.clock.millis(), random);
            // An answer belongs to the connection of its request: there is no claim to reserve.
            plaintext = guarded.release(Fresh.granted(guarded.claim())).bytes();
        } catch (MleException refused) {
            throw refused.at(Settings.host(url));
        }
        return new MleAnswer(answer.status(), plainHeaders(answer.headers()), plaintext, true);
    }

    private Transport.Outgoing outgoing(SealedRequest request) {
        List<Header> headers = new ArrayList<>(request.headers());
        // A compressed answer would not open.
        headers.removeIf(header -> header.name().equalsIgnoreCase("accept-encoding") || request.body().length > 0 && HeaderNames.isOfBody(header.name()));
        headers.add(new Header("Accept-Encoding", "identity"));
        if (request.body().length == 0) {
            return new Transport.Outgoing(url, request.method(), request.target(), new HeaderList(headers), null, BodyPublishers.noBody());
        }
        long nowMs = options.clock.millis();
        SealingKey key = SealingKey.newest(options.seal, nowMs);
        if (key == null) {
            throw new UsageException("no key of the service is valid now: see the times of its certificates");
        }
        byte[] body = Tokens.seal(request.body(), profile, Message.REQUEST, key, nowMs, random);
        return new Transport.Outgoing(url, request.method(), request.target(), new HeaderList(headers), profile.mediaType(Message.REQUEST),
                BodyPublishers.ofByteArray(body));
    }

    private static HeaderList plainHeaders(HeaderList headers) {
        List<Header> out = new ArrayList<>(headers.list());
        out.removeIf(header -> HeaderNames.isOfBody(header.name()));
        out.add(new Header("content-type", "application/json"));
        return new HeaderList(out);
    }
}
