package dev.sealway.server;

import dev.sealway.exchange.Answer;
import dev.sealway.exchange.AnswerSeal;
import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.Form;
import dev.sealway.exchange.Opening;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import dev.sealway.server.RouteTable.Mode;
import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.nativeprotocol.FrameSealer;
import dev.sealway.session.nativeprotocol.NativeReply;
import dev.sealway.session.nativeprotocol.Placement;
import dev.sealway.wire.Code;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Options;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.UsageException;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/** Opens sealed requests and seals answers around handlers of any framework, in the order of checks of the specs. Drives an
 * {@link Exchange} with a store, which may block, a clock and randomness. A request that is rejected throws a {@link Rejection};
 * {@link #answer} is its answer. */
public final class SealGate {
    private static final System.Logger LOG = System.getLogger("dev.sealway.server");
    private final SessionStore store;
    private final RouteTable routes;
    private final Set<String> anonymousPaths;
    private final ReplayPolicy policy;
    private final int bodyMaxBytes;
    private final LongSupplier clockMs;
    private final boolean trustForwarded;
    private final Duration bodyTimeout;
    private final Consumer<Rejection> onRefusal;
    private final Room room;
    private final SecureRandom random = new SecureRandom();

    private SealGate(Builder builder) {
        this.store = builder.store;
        this.routes = builder.routes;
        this.anonymousPaths = builder.anonymousPaths;
        this.policy = new ReplayPolicy(builder.window.toMillis());
        this.bodyMaxBytes = builder.bodyMaxBytes;
        this.clockMs = builder.clockMs;
        this.trustForwarded = builder.trustForwarded;
        this.bodyTimeout = builder.bodyTimeout;
        this.onRefusal = builder.onRefusal;
        this.room = builder.room == null ? Room.of(builder.bufferedMaxBytes, bodyMaxBytes) : builder.room;
    }

    /** Begins to build a gate.
     *
     * @param store of sessions and nonces, such as an {@link AuthorityStore}
     * @param routes the paths that are sealed
     */
    public static Builder builder(SessionStore store, RouteTable routes) {
        return new Builder(store, routes);
    }

    /** Options of a gate. A setter throws a {@link dev.sealway.wire.UsageException} that names the option if its value is wrong. */
    public static final class Builder {
        private final SessionStore store;
        private final RouteTable routes;
        private Set<String> anonymousPaths = Set.of();
        private Duration window = Duration.ofMinutes(5);
        private int bodyMaxBytes = 1 << 20;
        private long bufferedMaxBytes = Room.BYTES;
        private boolean trustForwarded;
        private Duration bodyTimeout = Duration.ofSeconds(30);
        private Consumer<Rejection> onRefusal = rejection -> { };
        private LongSupplier clockMs = System::currentTimeMillis;
        private Room room;

        private Builder(SessionStore store, RouteTable routes) {
            this.store = Options.present(store, "store", "an AuthorityStore or a RedisStore has the sessions");
            this.routes = Options.present(routes, "routes", "new RouteTable() seals everything");
        }

        /** Sets the paths, byte for byte, at which anonymous sessions are usable; none by default. */
        public Builder anonymousPaths(Set<String> value) {
            anonymousPaths = Set.copyOf(Options.present(value, "anonymousPaths", "Set.of() is none"));
            return this;
        }

        /** Sets the greatest distance between a request's timestamp and this clock; 5 minutes by default, at most a day. On wire 3 it is 5 minutes
         * at most. */
        public Builder window(Duration value) {
            window = Options.within(value, Duration.ZERO, Duration.ofDays(1), "window");
            return this;
        }

        /** Sets the bound on a sealed body, in bytes, and on an answer of wires 1 and 2; 1 MiB by default. */
        public Builder bodyMaxBytes(int value) {
            bodyMaxBytes = (int) Options.atLeast(value, 1, "bodyMaxBytes");
            return this;
        }

        /** Sets the bound on sealed bytes that have arrived and are not opened yet, of all requests together: whole bodies on wires 1 and 2, frames
         * on wire 3. 64 MiB by default, at least 1 MiB. One remote address (of IPv6 a /64) may hold a sixteenth of it, or the longest body if
         * that is more; with {@link #trustForwarded} all of it, since all clients have the proxy's address. Requests beyond it are rejected
         * with 503. */
        public Builder bufferedMaxBytes(long value) {
            bufferedMaxBytes = Options.atLeast(value, Room.BYTES_MIN, "bufferedMaxBytes");
            return this;
        }

        /** Passes on the origin headers of {@code spec/session-3.md} ({@code Forwarded}, {@code X-Forwarded-…}, {@code X-Real-IP},
         * {@code Client-Cert}, {@code X-Client-Cert…} and their kin) from outside the seal, for a proxy in front that sets all of them itself.
         * False by default: they are removed, from plain requests too, since any party on the path could have written them. Inside the seal they
         * are always removed. */
        public Builder trustForwarded(boolean value) {
            trustForwarded = value;
            return this;
        }

        /** Sets the time within which a body that is read whole must arrive, or the first frame of a streamed one; 30 seconds by default. */
        public Builder bodyTimeout(Duration value) {
            bodyTimeout = Options.within(value, Duration.ZERO, Duration.ofDays(365), "bodyTimeout");
            return this;
        }

        /** Sets the function that receives each rejected request, for logs and metrics. It must not block. */
        public Builder onRefusal(Consumer<Rejection> value) {
            onRefusal = Options.present(value, "onRefusal", "give a function, or leave it out for none");
            return this;
        }

        /** Sets this server's clock, in milliseconds of the epoch; the system's by default. */
        public Builder clockMs(LongSupplier value) {
            clockMs = Options.present(value, "clockMs", "leave it out for the system's");
            return this;
        }

        Builder room(Room value) {
            room = value;
            return this;
        }

        /** Builds the gate. */
        public SealGate build() {
            return new SealGate(this);
        }
    }

    /** Returns the time within which a body that is read whole must arrive, or the first frame of a streamed one. */
    public Duration bodyTimeout() {
        return bodyTimeout;
    }

    Reservation hold(String remote) {
        return new Reservation(room, trustForwarded ? null : Room.taker(remote));
    }

    /** Ways to serve a request. */
    public enum Kind {
        /** In plain, without the headers that only the middleware sets. */
        PASS,
        /** A CORS preflight: answered by {@link #preflight}, never by a handler. */
        PREFLIGHT,
        /** Rejected by {@link #disguised}: the path may be read as one that must be sealed. */
        DISGUISED,
        /** Opened and sealed, from {@link #begin} on. */
        SEALED
    }

    /** Returns the way to serve a request. */
    public Kind kind(String method, String path, HeaderList headers) {
        Mode mode = routes.mode(path);
        if (mode == null) {
            return Kind.DISGUISED;
        }
        if (mode == Mode.OFF) {
            return Kind.PASS;
        }
        if (method.equals("OPTIONS")) {
            return Kind.PREFLIGHT;
        }
        return mode == Mode.OPTIONAL && !Exchange.looksSealed(headers) ? Kind.PASS : Kind.SEALED;
    }

    /** Returns the answer to {@code OPTIONS} where requests are sealed. A preflight is never sealed, so no handler sees it: a filter for CORS
     * stands in front of this one and answers it first. */
    public Answer preflight() {
        return new Answer(204, List.of(new Header("Allow", "POST, OPTIONS")), new byte[0]);
    }

    /** Returns the answer to a request whose path may be read as one that must be sealed. */
    public Answer disguised() {
        return answer(new Rejection(Refusal.DISGUISED), Form.PLAIN);
    }

    /** Returns the answer to a rejected request. */
    public Answer answer(Rejection rejection, HeaderList headers) {
        return answer(rejection, Form.of(Exchange.wireOf(headers)));
    }

    private Answer answer(Rejection rejection, Form form) {
        LOG.log(System.Logger.Level.DEBUG, "rejected: {0}", rejection.code());
        onRefusal.accept(rejection);
        return rejection.answer(form);
    }

    /** Returns the bound on a sealed body, in bytes. */
    public int bodyMaxBytes() {
        return bodyMaxBytes;
    }

    /** Returns the headers of a plain request that is passed on. */
    public List<Header> passed(HeaderList headers) {
        return ServiceHeaders.pass(headers, trustForwarded);
    }

    /** Returns the headers that a handler sees of a sealed request. */
    List<Header> unsealed(HeaderList outer, PlainRequest request) {
        return ServiceHeaders.unsealed(outer, request.headers(), request.reply().session(), trustForwarded);
    }

    /** Begins a sealed request: makes all checks that need no body.
     *
     * @param target path and query as sent
     * @param remote the client's address as a literal; null if it has none
     * @param length of the body; negative if it is unknown
     * @throws Rejection of the request */
    public RequestReader begin(String method, String target, HeaderList headers, String remote, long length) {
        try {
            Exchange exchange = Exchange.begin(method, target, headers, nowMs(), policy);
            Opening opening = exchange.session(find(exchange.sessionId()));
            if (opening.session().isAnonymous() && !anonymousPaths.contains(target.split("\\?", 2)[0])) {
                throw new Rejection(Refusal.FORBIDDEN);
            }
            long max = opening.bodyMax(opening.stream().isWhole() ? Math.min(bodyMaxBytes, room.max()) : bodyMaxBytes);
            if (length > max) {
                throw new Rejection(Refusal.BODY_TOO_LARGE);
            }
            return new RequestReader(this, opening, headers, hold(remote), max);
        } catch (SealwayException refused) {
            throw Rejection.of(refused);
        }
    }

    long nowMs() {
        return clockMs.getAsLong();
    }

    SessionRecord find(String id) {
        SessionRecord session = ask(() -> store.find(id));
        if (session == null) {
            throw new ProtocolException(Code.SESSION_UNKNOWN);
        }
        return session;
    }

    Fresh reserve(Claim claim) {
        return ask(() -> store.reserve(claim));
    }

    static <T> T ask(Supplier<T> question) {
        try {
            return question.get();
        } catch (StoreException away) {
            throw new Rejection(away.isFull() ? Refusal.NONCES_FULL : Refusal.STORE_UNAVAILABLE, away, Map.of());
        } catch (SealwayException refused) {
            throw refused;
        } catch (Exception unknown) {
            // Also a checked one of a store in another language. The message may hold a credential of the store's.
            LOG.log(System.Logger.Level.ERROR, "a session store failed: {0}", unknown.getClass().getName());
            throw new Rejection(Refusal.STORE_UNAVAILABLE, unknown, Map.of());
        }
    }

    Life watch(SessionRecord session, Runnable cut) {
        return new Life(store, session, clockMs, cut);
    }

    private byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }

    /** Seals a whole answer. If it cannot be sealed, or the request's body broke off, returns an error in its place.
     *
     * @param headers the handler's */
    public Answer seal(RequestReader reader, int status, List<Header> headers, byte[] body) {
        try {
            reader.check();
            return switch (reader.request().reply().answer(status)) {
                case AnswerSeal.Plain plain -> plain.answer();
                case AnswerSeal.Frames frames -> sealed(status, ServiceHeaders.outside(headers),
                        frames.seal(ServiceHeaders.inside(headers), body, nowMs(), draw(16)));
                case AnswerSeal.Whole whole when body.length > bodyMaxBytes -> throw new Rejection(Refusal.UNANSWERED);
                case AnswerSeal.Whole whole -> sealed(whole.status(), ServiceHeaders.beside(headers),
                        whole.seal(body, nowMs(), draw(16), draw(12)));
            };
        } catch (SealwayException unsealable) {
            return answer(unanswered(unsealable), Form.of(reader.request().reply().session().wire()));
        }
    }

    private static Answer sealed(int status, List<Header> headers, SealedMessage message) {
        if (message.contentType() != null) {
            headers.add(new Header("Content-Type", message.contentType()));
        }
        headers.addAll(message.headers().list());
        return new Answer(status, headers, message.body());
    }

    private static Rejection unanswered(SealwayException why) {
        return why instanceof Rejection made ? made : new Rejection(Refusal.UNANSWERED, why, Map.of());
    }

    /** The head of a streamed answer: the headers outside the seal, and the sealer of the body. */
    public record SealedHead(List<Header> headers, FrameSealer sealer) {
    }

    /** Begins to seal a streamed answer.
     *
     * @param headers the handler's
     * @throws Rejection if it cannot be sealed, or the request's body broke off */
    public SealedHead begin(RequestReader reader, AnswerSeal.Frames frames, List<Header> headers) {
        try {
            reader.check();
            NativeReply.Head head = frames.begin(ServiceHeaders.inside(headers), nowMs(), draw(16));
            List<Header> outside = ServiceHeaders.outside(headers);
            outside.add(new Header("Content-Type", Placement.OCTETS));
            outside.addAll(head.headers().list());
            return new SealedHead(outside, head.sealer());
        } catch (SealwayException unsealable) {
            throw unanswered(unsealable);
        }
    }
}
