package dev.sealway.server;

import dev.sealway.server.RouteTable.Mode;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.ServerCall;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.session.three.FrameSealer;
import dev.sealway.session.three.InnerHeaders;
import dev.sealway.session.three.Placement;
import dev.sealway.session.three.Proofs;
import dev.sealway.session.three.Reply3;
import dev.sealway.session.three.ServerCall3;
import dev.sealway.wire.Code;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.Options;
import dev.sealway.wire.RefusedException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.StrictBase64;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;

/** Opens and seals around handlers of any framework, in the order of checks of the specs. Its store may block.
 *
 * <p>Everything here that refuses throws {@link RefusalException}, which holds what the peer is told. */
public final class SealGate {
    private static final int ANONYMOUS_BODY_MAX = 4096;
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

    /** How long a body may take to come that is read whole, or the first frame of one that flows. */
    public Duration bodyTime() {
        return bodyTime;
    }

    /** One like it with another bound on the bytes of sealed bodies that have arrived and are not opened yet, of all requests together:
     * whole bodies on wires 1 and 2, frames on wire 3. 64 MiB unless set. One remote address (of IPv6 a /64) has a sixteenth of it, or the
     * longest body if that is more; with {@link #trustForwarded} all of it, since the proxy's address is everybody's. What is over it is
     * refused with 503.
     *
     * @param max at least 1 MiB
     * @throws IllegalArgumentException if it is less */
    public SealGate bufferedBytes(long max) {
        return with(Room.of(Options.atLeast(max, Room.BYTES_MIN, "bufferedBytes"), bodyMax));
    }

    SealGate with(Room other) {
        return new SealGate(store, routes, anonymousPaths, policy, bodyMax, clockMs, isFrontTrusted, bodyTime, other);
    }

    /** Begins to hold what arrives of a request's body.
     *
     * @param remote the address of the connection's other end, as a literal; null where it has none */
    public Held hold(Kind kind, String remote) {
        return new Held(room, isFrontTrusted ? null : Room.taker(remote), kind);
    }

    /** How a request is served. */
    public enum Kind {
        /** As it comes, but for headers that are the middleware's to say. */
        PASS,
        /** Not by a handler: a browser's question, by {@link #question}. */
        QUESTION,
        /** Not at all: the path may be read as one that must be sealed. Refused by {@link #disguised}. */
        DISGUISED,
        /** By wire 1 or 2. */
        OLD,
        /** By wire 3. */
        THREE
    }

    /** How this request is served. */
    public Kind kind(String method, String path, HeaderList headers) {
        Mode mode = routes.mode(path);
        boolean isMarked = headers.has(HeaderNames.X_SEAL) || headers.has(HeaderNames.X_KID)
                || headers.has(HeaderNames.X_IDEMPOTENCY_KEY);
        if (mode == null) {
            return Kind.DISGUISED;
        }
        if (mode == Mode.OFF) {
            return Kind.PASS;
        }
        if (method.equals("OPTIONS")) {
            return Kind.QUESTION;
        }
        if (mode == Mode.OPTIONAL && !isMarked) {
            return Kind.PASS;
        }
        return headers.has(HeaderNames.X_SEAL) ? Kind.THREE : Kind.OLD;
    }

    /** The answer to {@code OPTIONS} where requests are sealed. It is never sealed itself, so no handler sees it: a layer for CORS stands
     * in front of this one and answers it first. */
    public PlainAnswer question() {
        return new PlainAnswer(204, List.of(new Header("Allow", "POST, OPTIONS")), new byte[0]);
    }

    /** The refusal of a path that may be read as one that must be sealed. */
    public RefusalException disguised() {
        return told(Refusals.plain(400, "CRYPTO_ERROR", null));
    }

    /** The longest sealed body, in bytes. */
    public int bodyMax() {
        return bodyMax;
    }

    /** The headers of a request that is passed on as it came. */
    public List<Header> passed(HeaderList headers) {
        return ServiceHeaders.pass(headers, isFrontTrusted);
    }

    private SessionRecord find(String id) {
        SessionRecord session = store.find(id);
        if (session == null) {
            throw new RefusedException(Code.SESSION_UNKNOWN);
        }
        return session;
    }

    private byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }

    private static RefusalException told(RefusalException refusal) {
        LOG.log(System.Logger.Level.DEBUG, "refused: {0}", refusal.code());
        return refusal;
    }

    /** A body over its bound. */
    public RefusalException tooLarge(Kind kind) {
        RefusedException why = new RefusedException(Code.BODY_TOO_LARGE);
        return told(kind == Kind.THREE ? Refusals.three(why, Map.of()) : Refusals.old(why));
    }

    /** A body that broke off or does not open. */
    public RefusalException broken(Kind kind) {
        RefusedException why = new RefusedException(kind == Kind.THREE ? Code.STREAM_TRUNCATED : Code.BODY_TOO_SHORT);
        return told(kind == Kind.THREE ? Refusals.three(why, Map.of()) : Refusals.old(why));
    }

    /** What is told of anything that was thrown while a request was opened. */
    public RefusalException refusal(Kind kind, SealwayException why) {
        return told(kind == Kind.THREE ? Refusals.three(why, Map.of()) : Refusals.old(why));
    }

    /** A handler that failed: on wire 3 and the old ones alike a 502, as a gateway tells of a service behind it. */
    public RefusalException failed(Kind kind) {
        return told(kind == Kind.THREE ? Refusals.problem("upstream_unreachable", Map.of(), null)
                : Refusals.plain(502, "SERVICE_UNAVAILABLE", null));
    }

    /** A sealed call of wires 1 and 2 whose body is still to be read. */
    public final class Old {
        private final ServerCall call;
        private final SessionRecord session;
        private final HeaderList headers;

        private Old(ServerCall call, SessionRecord session, HeaderList headers) {
            this.call = call;
            this.session = session;
            this.headers = headers;
        }

        /** The longest body, in bytes. */
        public int bodyMax() {
            int max = (int) Math.min(bodyMax, room.max());
            return session.isAnonymous() ? Math.min(ANONYMOUS_BODY_MAX, max) : max;
        }

        /** Opens the body and claims the nonce. The body may have taken its time, so the session is looked up again. */
        public ServerCall.Opened open(byte[] body) {
            try {
                Unreplayed<ServerCall.Opened> opened = call.open(find(session.id()), body, clockMs.getAsLong());
                return opened.release(store.reserve(opened.claim()));
            } catch (SealwayException refused) {
                throw told(Refusals.old(refused));
            }
        }

        /** The headers that the handler sees. */
        public List<Header> headers() {
            return ServiceHeaders.old(headers, session, isFrontTrusted);
        }
    }

    /** Begins a sealed call of wires 1 and 2: all checks before its body is read. */
    public Old old(String method, String path, HeaderList headers) {
        if (!method.equals("POST")) {
            throw told(Refusals.plain(405, "METHOD_NOT_ALLOWED", null));
        }
        try {
            ServerCall call = new ServerCall(headers, path, clockMs.getAsLong(), policy);
            SessionRecord session = find(call.sessionId());
            call.check(session);
            if (session.isAnonymous() && !anonymousPaths.contains(path)) {
                throw new RefusedException(Code.POLICY);
            }
            return new Old(call, session, headers);
        } catch (SealwayException refused) {
            throw told(Refusals.old(refused));
        }
    }

    /** Seals a handler's answer on wires 1 and 2; its 400 and 422 become a refusal, and a 304 is none.
     *
     * @param headers the handler's
     */
    public PlainAnswer seal(ServerCall.Reply reply, int status, List<Header> headers, byte[] body) {
        if (status == 400 || status == 422) {
            return Refusals.plain(400, "CRYPTO_ERROR", null).answer();
        }
        if (status == 304 || status < 200 || body.length > bodyMax) {
            return failed(Kind.OLD).answer();
        }
        int sent = status < 300 ? 200 : status;
        SealedMessage message = reply.seal(sent, body, clockMs.getAsLong(), draw(16), draw(12));
        List<Header> out = new ArrayList<>(headers.stream().filter(header -> ServiceHeaders.isBeside(header.name())).toList());
        out.add(new Header("Content-Type", message.contentType()));
        out.addAll(message.headers().list());
        return new PlainAnswer(sent, out, message.body());
    }

    /** A sealed request of wire 3 whose first frame is still to come. */
    public final class Three {
        private final ServerCall3 call;
        private final SessionRecord session;
        private final ServerCall3.Opening opening;
        private final HeaderList headers;

        private Three(ServerCall3 call, SessionRecord session, HeaderList headers) {
            this.call = call;
            this.session = session;
            this.opening = call.opening(session);
            this.headers = headers;
        }

        /** The whole stream where it stands in {@code X-Sealed}; then there may be no body. Null where it is the body. */
        public byte[] inHeader() {
            return call.inHeader();
        }

        /** Takes what came; whether the first frame has opened. */
        public boolean feed(byte[] data, int from, int length) {
            try {
                return opening.feed(data, from, length);
            } catch (SealwayException refused) {
                throw told(Refusals.three(refused, Map.of()));
            }
        }

        /** Whether the last frame has opened: then nothing may follow, and until that is sure nobody may see it. */
        public boolean isDone() {
            return opening.isDone();
        }

        /** Claims the nonce: only now the request may be seen. Its first frame may have taken its time, so the session is looked up
         * again. */
        public ServerCall3.Begun admit() {
            long nowMs = clockMs.getAsLong();
            try {
                Unreplayed<ServerCall3.Begun> first = opening.first(find(session.id()), nowMs);
                return first.release(store.reserve(first.claim()));
            } catch (SealwayException refused) {
                throw refusal(call, session, refused, nowMs);
            }
        }

        /** Watches the session while the request is under way.
         *
         * @param cut called once, by another thread, when the session ended: it stops what the request waits for
         */
        public Life watch(Runnable cut) {
            return new Life(store, session, clockMs, cut);
        }

        /** The headers that the handler sees. */
        public List<Header> headers(ServerCall3.Begun begun) {
            return ServiceHeaders.three(headers, begun.headers(), begun.reply().session(), isFrontTrusted);
        }
    }

    /** Begins a sealed request of wire 3: checks 1 to 6. */
    public Three three(String method, String target, HeaderList headers) {
        if (method.equals("CONNECT") || method.equals("TRACE")) {
            throw told(Refusals.problem("method_not_allowed", Map.of(), null));
        }
        long nowMs = clockMs.getAsLong();
        ServerCall3 call;
        SessionRecord session = null;
        try {
            call = new ServerCall3(method, target, headers, nowMs, policy);
        } catch (SealwayException refused) {
            throw told(Refusals.three(refused, Map.of()));
        }
        try {
            session = find(call.sessionId());
            Three begun = new Three(call, session, headers);
            begun.inHeader();
            return begun;
        } catch (SealwayException refused) {
            throw refusal(call, session, refused, nowMs);
        }
    }

    /** A refusal with its proof, where it has one. */
    private static RefusalException refusal(ServerCall3 call, SessionRecord session, SealwayException why, long nowMs) {
        Map<String, Object> more = Map.of();
        if (session != null && why instanceof RefusedException refused && refused.reason() == Code.TIMESTAMP_OUTSIDE_WINDOW) {
            byte[] mac = Proofs.clockMac(session, call.nonce(), call.stamp(), nowMs);
            more = Map.of("server_time_ms", nowMs, "mac", StrictBase64.encode(mac));
        }
        return told(Refusals.three(why, more));
    }

    /** What is told of a request whose session ended while it was under way. */
    public RefusalException ended() {
        return refusal(Kind.THREE, new RefusedException(Code.SESSION_EXPIRED));
    }

    /** An answer of wire 3 that is sealed frame by frame.
     *
     * @param headers those that stand outside
     * @param innerHeaders encoded; the first frame begins with them
     */
    public record Begun3(List<Header> headers, byte[] innerHeaders, FrameSealer sealer) {
    }

    /** Whether an answer of wire 3 can have no body: then it is sealed as a whole. */
    public static boolean isBodiless(String method, int status) {
        return Placement.isBodilessAnswer(method, status);
    }

    private static List<Header> outside(List<Header> headers) {
        List<Header> out = new ArrayList<>(headers.stream().filter(header -> ServiceHeaders.isOutside(header.name())).toList());
        out.add(new Header("Cache-Control", "no-store, no-transform"));
        return out;
    }

    private static List<Header> inside(List<Header> headers) {
        return headers.stream().filter(header -> InnerHeaders.isAllowed(header.name())).toList();
    }

    /** Begins to seal an answer of wire 3 whose body flows. */
    public Begun3 begin(Reply3 reply, int status, List<Header> headers) {
        try {
            byte[] inner = InnerHeaders.encode(inside(headers));
            Reply3.Begun begun = reply.begin(status, Placement.OCTETS, Long.toString(clockMs.getAsLong()),
                    Forms.ANSWER_PREFIX + HexFormat.of().formatHex(draw(16)));
            List<Header> out = outside(headers);
            out.add(new Header("Content-Type", Placement.OCTETS));
            out.addAll(begun.headers().list());
            return new Begun3(out, inner, begun.sealer());
        } catch (SealwayException refused) {
            throw failed(Kind.THREE);
        }
    }

    /** Seals a whole answer of wire 3. */
    public PlainAnswer seal(Reply3 reply, int status, List<Header> headers, byte[] body) {
        try {
            SealedMessage message = reply.seal(status, inside(headers), body, clockMs.getAsLong(), draw(16));
            List<Header> out = outside(headers);
            if (message.contentType() != null) {
                out.add(new Header("Content-Type", message.contentType()));
            }
            out.addAll(message.headers().list());
            return new PlainAnswer(status, out, message.body());
        } catch (SealwayException refused) {
            return failed(Kind.THREE).answer();
        }
    }
}
