package dev.sealway.server;

import dev.sealway.exchange.Answer;
import dev.sealway.exchange.Form;
import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
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
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Options;
import dev.sealway.wire.SealwayException;
import java.io.ByteArrayOutputStream;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** Opens requests that are encrypted as card schemes do, and seals their answers, around handlers of any framework. Every request with a body has
 * to be a token of the profile; GET, HEAD and DELETE may be without one. Whatever is wrong with a token, the answer is the same: 400 and
 * {@code {"error":"CRYPTO_ERROR"}}. {@code spec/mle.md}.
 *
 * <p>Any holder of the public key can make a token, so the sender has to be authenticated in front. */
public final class MleGate {
    private static final System.Logger LOG = System.getLogger("dev.sealway.server");
    private static final Set<String> BODILESS = Set.of("GET", "HEAD", "DELETE");
    private final Builder options;
    private final Profile profile;
    private final Room room;
    private final Semaphore openings;
    private final SecureRandom random = new SecureRandom();

    private MleGate(Builder builder) {
        this.options = builder;
        this.profile = builder.profile.withReplay(new ReplayPolicy(builder.window.toMillis())).withTokenMaxBytes(builder.bodyMaxBytes);
        this.room = Room.of(builder.bufferedMaxBytes, builder.bodyMaxBytes);
        this.openings = new Semaphore(builder.openingsMax);
    }

    /** Begins to build a gate.
     *
     * @param profile the form of the messages, such as {@code Profile.visa()}
     * @param keys that open requests, all of them live
     * @param store claims each token once, such as an {@link AuthorityStore}. A {@link MemoryStore} forgets with its process, so that a token can be
     *     replayed after a restart within its window. A token without a time is claimed ahead of the clock by half of the window, which a
     *     store in Redis alone does not grant. */
    public static Builder builder(Profile profile, OpeningKeys keys, SessionStore store) {
        return new Builder(profile, keys, Options.present(store, "store", "an AuthorityStore claims tokens; builderAllowingReplays is without one"));
    }

    /** Begins to build a gate that opens a token as often as it comes: for services that check an id in the payload. */
    public static Builder builderAllowingReplays(Profile profile, OpeningKeys keys) {
        return new Builder(profile, keys, null);
    }

    /** Options of a gate. A setter throws a {@link dev.sealway.wire.UsageException} that names the option if its value is wrong. */
    public static final class Builder {
        private final Profile profile;
        private final OpeningKeys keys;
        private final SessionStore store;
        private Duration window = Duration.ofMinutes(5);
        private int bodyMaxBytes = 1 << 20;
        private int answerMaxBytes = 16 << 20;
        private long bufferedMaxBytes = Room.BYTES;
        private int openingsMax = 64 * Runtime.getRuntime().availableProcessors();
        private boolean plainErrors;
        private boolean trustForwarded;
        private Duration bodyTimeout = Duration.ofSeconds(30);
        private Consumer<Rejection> onRefusal = rejection -> { };
        private LongSupplier clockMs = System::currentTimeMillis;

        private Builder(Profile profile, OpeningKeys keys, SessionStore store) {
            this.profile = Options.present(profile, "profile", "Profile has those of the schemes");
            this.keys = Options.present(keys, "keys", "OpeningKeys.of puts the keys that open together");
            this.store = store;
        }

        /** Sets the greatest distance between {@code iat} and this clock, either way; 5 minutes by default, at most a day. */
        public Builder window(Duration value) {
            window = Options.within(value, Duration.ZERO, Duration.ofDays(1), "window");
            return this;
        }

        /** Sets the bound on the body of a request, in bytes; 1 MiB by default. */
        public Builder bodyMaxBytes(int value) {
            bodyMaxBytes = (int) Options.atLeast(value, 1, "bodyMaxBytes");
            return this;
        }

        /** Sets the bound on an answer, in bytes; 16 MiB by default. */
        public Builder answerMaxBytes(int value) {
            answerMaxBytes = (int) Options.atLeast(value, 1, "answerMaxBytes");
            return this;
        }

        /** Sets the bound on bodies in memory, of all requests together; 64 MiB by default, at least 1 MiB. One remote address (of IPv6 a /64) may hold
         * a sixteenth of it, or the longest body if that is more; with {@link #trustForwarded} all of it. Requests beyond it get 503. */
        public Builder bufferedMaxBytes(long value) {
            bufferedMaxBytes = Options.atLeast(value, Room.BYTES_MIN, "bufferedMaxBytes");
            return this;
        }

        /** Sets the bound on private operations that run at a time; 64 a processor by default. Requests beyond it get 503. */
        public Builder openingsMax(int value) {
            openingsMax = (int) Options.atLeast(value, 1, "openingsMax");
            return this;
        }

        /** Leaves answers with a status of 400 and more in clear; false by default. */
        public Builder plainErrors(boolean value) {
            plainErrors = value;
            return this;
        }

        /** Passes on origin headers, as {@link SealGate.Builder#trustForwarded} does; false by default. */
        public Builder trustForwarded(boolean value) {
            trustForwarded = value;
            return this;
        }

        /** Sets the time within which a body must arrive; 30 seconds by default. */
        public Builder bodyTimeout(Duration value) {
            bodyTimeout = Options.within(value, Duration.ZERO, Duration.ofDays(365), "bodyTimeout");
            return this;
        }

        /** Sets the function that receives each rejected request, whose code is the class of the refusal. It must not block. */
        public Builder onRefusal(Consumer<Rejection> value) {
            onRefusal = Options.present(value, "onRefusal", "give a function, or leave it out for none");
            return this;
        }

        /** Sets this server's clock, in milliseconds of the epoch; the system's by default. */
        public Builder clockMs(LongSupplier value) {
            clockMs = Options.present(value, "clockMs", "leave it out for the system's");
            return this;
        }

        /** Builds the gate. */
        public MleGate build() {
            return new MleGate(this);
        }
    }

    /** A request under way. Close it once its answer is written. */
    public final class Call implements AutoCloseable {
        private final List<SealingKey> recipients;
        private final HeaderList headers;
        private final Reservation held;
        private ByteArrayOutputStream arrived = new ByteArrayOutputStream(512);

        private Call(List<SealingKey> recipients, HeaderList headers, String remote) {
            this.recipients = recipients;
            this.headers = headers;
            this.held = new Reservation(room, options.trustForwarded ? null : Room.taker(remote));
        }

        /** Takes a part of the body as it arrives.
         *
         * @throws Rejection of a body over a bound */
        public void feed(byte[] part, int length) {
            if (length > options.bodyMaxBytes - arrived.size()) {
                throw new Rejection(Refusal.BODY_TOO_LARGE);
            }
            held.grow(length);
            arrived.write(part, 0, length);
        }

        /** Opens the body that has arrived, and claims its token.
         *
         * @throws Rejection of the request */
        public OpenRequest open(String method) {
            byte[] body = arrived.toByteArray();
            arrived = null;
            boolean isOpened = body.length > 0 || !BODILESS.contains(method);
            byte[] plaintext = isOpened ? MleGate.this.open(headers, body) : body;
            return new OpenRequest(ServiceHeaders.opened(headers, options.trustForwarded, isOpened ? profile.name() : null), plaintext);
        }

        /** Seals an answer. If that fails, returns an error in its place.
         *
         * @param answered the handler's headers */
        public Answer seal(int status, List<Header> answered, byte[] body) {
            try {
                if (body.length == 0 || options.plainErrors && status >= 400) {
                    return new Answer(status, ServiceHeaders.unframed(answered), body);
                }
                if (body.length > options.answerMaxBytes || isCompressed(new HeaderList(answered))) {
                    throw new Rejection(Refusal.UNANSWERED);
                }
                byte[] sealed = Tokens.seal(body, profile, Message.ANSWER, newest(recipients), options.clockMs.getAsLong(), random);
                List<Header> out = ServiceHeaders.ofNoBody(answered);
                out.add(new Header("Content-Type", profile.mediaType(Message.ANSWER)));
                return new Answer(status, out, sealed);
            } catch (SealwayException unsealable) {
                return answer(unsealable instanceof Rejection made ? made : new Rejection(Refusal.UNANSWERED, unsealable, Map.of()));
            }
        }

        @Override
        public void close() {
            held.close();
        }
    }

    /** A request as its handler sees it.
     *
     * @param body empty for none */
    public record OpenRequest(List<Header> headers, byte[] body) {
        /** Shows no body. */
        @Override
        public String toString() {
            return "OpenRequest[" + body.length + " bytes]";
        }
    }

    /** Begins a request: makes all checks that need no body.
     *
     * @param recipients the keys of the caller; none for a caller that may not use the route. Of those that are valid the newest seals the answer
     * @param remote the client's address as a literal; null if it has none
     * @param length of the body; negative if it is unknown
     * @throws Rejection of the request */
    public Call begin(List<SealingKey> recipients, HeaderList headers, String remote, long length) {
        if (recipients.isEmpty()) {
            throw new Rejection(Refusal.of(Code.POLICY));
        }
        // Before the handler acts: an answer that cannot be sealed would be lost after it.
        newest(recipients);
        if (isCompressed(headers)) {
            throw new Rejection(Refusal.COMPRESSED);
        }
        if (length > options.bodyMaxBytes) {
            throw new Rejection(Refusal.BODY_TOO_LARGE);
        }
        return new Call(recipients, headers, remote);
    }

    private SealingKey newest(List<SealingKey> recipients) {
        SealingKey key = SealingKey.newest(recipients, options.clockMs.getAsLong());
        if (key == null) {
            LOG.log(System.Logger.Level.ERROR, "no key of the recipient is valid now: see the times of its certificates");
            throw new Rejection(Refusal.UNANSWERED);
        }
        return key;
    }

    private byte[] open(HeaderList headers, byte[] body) {
        if (!openings.tryAcquire()) {
            throw new Rejection(Refusal.BODY_NO_ROOM);
        }
        Unreplayed<Plaintext> guarded;
        try {
            guarded = Tokens.open(body, headers, profile, Message.REQUEST, options.keys, options.clockMs.getAsLong(), random);
        } catch (MleException refused) {
            throw new Rejection(Refusal.unsealable(refused.reason().text()), refused, Map.of());
        } finally {
            openings.release();
        }
        try {
            Fresh fresh = options.store == null ? Fresh.granted(guarded.claim()) : SealGate.ask(() -> options.store.reserve(guarded.claim()));
            return guarded.release(fresh).bytes();
        } catch (SealwayException refused) {
            throw Rejection.of(refused);
        }
    }

    /** Returns the answer to a rejected request. */
    public Answer answer(Rejection rejection) {
        LOG.log(System.Logger.Level.DEBUG, "rejected: {0}", rejection.code());
        options.onRefusal.accept(rejection);
        return rejection.answer(Form.PLAIN);
    }

    /** Returns the time within which a body must arrive. */
    public Duration bodyTimeout() {
        return options.bodyTimeout;
    }

    /** Returns the bound on an answer, in bytes. */
    public int answerMaxBytes() {
        return options.answerMaxBytes;
    }

    private static boolean isCompressed(HeaderList headers) {
        return headers.list().stream().anyMatch(header -> header.name().equalsIgnoreCase("content-encoding") && !header.value().equalsIgnoreCase("identity"));
    }
}
