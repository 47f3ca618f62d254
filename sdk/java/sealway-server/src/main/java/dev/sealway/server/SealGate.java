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
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/** Opens and seals around handlers of any framework, in the order of checks of the specs: drives an {@link Exchange} with a store, which may
 * block, a clock and randomness. What refuses here throws a {@link Rejection}, and {@link #answer} is what its client is told. */
public final class SealGate {
    private static final Duration BODY_TIME = Duration.ofSeconds(30);
    private static final System.Logger LOG = System.getLogger("dev.sealway.server");
    private final SessionStore store;
    private final RouteTable routes;
    private final Set<String> anonymousPaths;
    private final ReplayPolicy policy;
    private final int bodyMax;
    private final LongSupplier clockMs;
    private final boolean isFrontTrusted;
    private final Duration bodyTime;
    private final Room room;
    private final SecureRandom random = new SecureRandom();

    /** @param anonymousPaths where anonymous sessions are usable, byte for byte
     * @param policy how far stamps may be off
     * @param bodyMax the longest sealed body, in bytes; answers of wires 1 and 2 are held to it too
     * @param clockMs this server's clock, milliseconds of the epoch */
    public SealGate(SessionStore store, RouteTable routes, Set<String> anonymousPaths, ReplayPolicy policy, int bodyMax,
            LongSupplier clockMs) {
        this(Options.present(store, "store", "an AuthorityStore or a RedisStore has the sessions"),
                Options.present(routes, "routes", "new RouteTable() seals everything"),
                Set.copyOf(Options.present(anonymousPaths, "anonymousPaths", "Set.of() is none")),
                Options.present(policy, "policy", "ReplayPolicy.DEFAULT is five minutes"), (int) Options.atLeast(bodyMax, 1, "bodyMax"),
                Options.present(clockMs, "clockMs", "give System::currentTimeMillis"), false, BODY_TIME, Room.of(Room.BYTES, bodyMax));
    }

    private SealGate(SessionStore store, RouteTable routes, Set<String> anonymousPaths, ReplayPolicy policy, int bodyMax,
            LongSupplier clockMs, boolean isFrontTrusted, Duration bodyTime, Room room) {
        this.room = room;
        this.isFrontTrusted = isFrontTrusted;
        this.bodyTime = bodyTime;
        this.store = store;
        this.routes = routes;
        this.anonymousPaths = anonymousPaths;
        this.policy = policy;
        this.bodyMax = bodyMax;
        this.clockMs = clockMs;
    }

    /** With the defaults of the specs: a window of five minutes, sealed bodies of 1 MiB, no anonymous sessions. */
    public SealGate(SessionStore store, RouteTable routes) {
        this(store, routes, Set.of(), ReplayPolicy.DEFAULT, 1 << 20, System::currentTimeMillis);
    }

    /** One like it behind a proxy that sets all origin headers of {@code spec/session-3.md} itself ({@code Forwarded},
     * {@code X-Forwarded-…}, {@code X-Real-IP}, {@code Client-Cert}, {@code X-Client-Cert…} and their kin): handlers see them as they
     * stand outside the seal. Without it they are removed, from plain requests too, since anybody on the path could have written them.
     * Inside the seal they are always removed. */
    public SealGate trustForwarded() {
        return new SealGate(store, routes, anonymousPaths, policy, bodyMax, clockMs, true, bodyTime, room);
    }

    /** One like it with another bound on how long a body may take to come that is read whole, or the first frame of one that flows;
     * 30 seconds unless set. */
    public SealGate bodyTime(Duration value) {
        Options.within(value, Duration.ZERO, Duration.ofDays(365), "bodyTime");
        return new SealGate(store, routes, anonymousPaths, policy, bodyMax, clockMs, isFrontTrusted, value, room);
    }

    /** The time for a body that is read whole, or the first frame of one that flows. */
    public Duration bodyTime() {
        return bodyTime;
    }

    /** One like it with another bound on the bytes of sealed bodies that have arrived and are not opened yet, of all requests together:
     * whole bodies on wires 1 and 2, frames on wire 3. 64 MiB unless set. One remote address (of IPv6 a /64) has a sixteenth of it, or the
     * longest body if that is more; with {@link #trustForwarded} all of it, since the proxy's address is everybody's. What is over it is
     * refused with 503.
     *
     * @param max at least 1 MiB
     * @throws UsageException if it is less */
    public SealGate bufferedBytes(long max) {
        return with(Room.of(Options.atLeast(max, Room.BYTES_MIN, "bufferedBytes"), bodyMax));
    }

    SealGate with(Room other) {
        return new SealGate(store, routes, anonymousPaths, policy, bodyMax, clockMs, isFrontTrusted, bodyTime, other);
    }

    Reservation hold(String remote) {
        return new Reservation(room, isFrontTrusted ? null : Room.taker(remote));
    }

    /** The ways to serve a request. */
    public enum Kind {
        /** As it comes, but for headers that are the middleware's to say. */
        PASS,
        /** Not by a handler: a CORS preflight, by {@link #preflight}. */
        PREFLIGHT,
        /** Not at all: the path may be read as one that must be sealed. Answered by {@link #disguised}. */
        DISGUISED,
        /** Sealed, by {@link #begin}. */
        SEALED
    }

    /** The way to serve this request. */
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

    /** The answer to {@code OPTIONS} where requests are sealed. It is never sealed itself, so no handler sees it: a layer for CORS stands
     * in front of this one and answers it first. */
    public Answer preflight() {
        return new Answer(204, List.of(new Header("Allow", "POST, OPTIONS")), new byte[0]);
    }

    /** The answer to a request whose path may be read as one that must be sealed. */
    public Answer disguised() {
        return answer(new Rejection(Refusal.DISGUISED), Form.PLAIN);
    }

    /** The answer to a request that is refused. */
    public Answer answer(Rejection rejection, HeaderList headers) {
        return answer(rejection, Form.of(Exchange.wireOf(headers)));
    }

    private static Answer answer(Rejection rejection, Form form) {
        LOG.log(System.Logger.Level.DEBUG, "refused: {0}", rejection.code());
        return rejection.answer(form);
    }

    /** The longest sealed body, in bytes. */
    public int bodyMax() {
        return bodyMax;
    }

    /** The headers of a request that is passed on as it came. */
    public List<Header> passed(HeaderList headers) {
        return ServiceHeaders.pass(headers, isFrontTrusted);
    }

    /** The headers that a handler sees of a sealed request. */
    List<Header> unsealed(HeaderList outer, PlainRequest request) {
        return ServiceHeaders.unsealed(outer, request.headers(), request.reply().session(), isFrontTrusted);
    }

    /** Begins a sealed request: all checks before its body is read.
     *
     * @param target path and query as sent
     * @param remote the address of the connection's other end, as a literal; null where it has none
     * @param length of its body; negative where that is not known
     * @throws Rejection of the request */
    public RequestReader begin(String method, String target, HeaderList headers, String remote, long length) {
        try {
            Exchange exchange = Exchange.begin(method, target, headers, nowMs(), policy);
            Opening opening = exchange.session(find(exchange.sessionId()));
            if (opening.session().isAnonymous() && !anonymousPaths.contains(target.split("\\?", 2)[0])) {
                throw new Rejection(Refusal.FORBIDDEN);
            }
            long max = opening.bodyMax(opening.stream().isWhole() ? Math.min(bodyMax, room.max()) : bodyMax);
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

    private static <T> T ask(Supplier<T> question) {
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

    /** Seals an answer whose body is all there. Where it cannot be sealed, or the request's body broke off, it is an error.
     *
     * @param headers the handler's */
    public Answer seal(RequestReader reader, int status, List<Header> headers, byte[] body) {
        try {
            reader.check();
            return switch (reader.request().reply().answer(status)) {
                case AnswerSeal.Plain plain -> plain.answer();
                case AnswerSeal.Frames frames -> sealed(status, ServiceHeaders.outside(headers),
                        frames.seal(ServiceHeaders.inside(headers), body, nowMs(), draw(16)));
                case AnswerSeal.Whole whole when body.length > bodyMax -> throw new Rejection(Refusal.UNANSWERED);
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

    /** The head of an answer whose body flows: the headers outside, and what seals the body. */
    public record SealedHead(List<Header> headers, FrameSealer sealer) {
    }

    /** Begins to seal an answer whose body flows.
     *
     * @param headers the handler's
     * @throws Rejection where it cannot be sealed, or the request's body broke off */
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
