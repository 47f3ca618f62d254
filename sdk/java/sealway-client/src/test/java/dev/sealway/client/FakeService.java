package dev.sealway.client;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Curve;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.crypto.SigningKey;
import dev.sealway.exchange.AnswerSeal;
import dev.sealway.exchange.Exchange;
import dev.sealway.exchange.Opening;
import dev.sealway.exchange.Piece;
import dev.sealway.exchange.PlainRequest;
import dev.sealway.exchange.Reply;
import dev.sealway.session.Fresh;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.Unreplayed;
import dev.sealway.session.nativeprotocol.Acceptance;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.NativeReply;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.session.nativeprotocol.Proofs;
import dev.sealway.session.nativeprotocol.ServerShare;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Json;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.StrictBase64;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;

/** A service of wire 3 on a real socket, of the same core, that can be told to misbehave. */
final class FakeService implements AutoCloseable {
    /** What is done with an answer that was sealed honestly. */
    interface Misbehaviour {
        void answer(HttpExchange exchange, SealedMessage honest) throws IOException;
    }

    final AtomicInteger inits = new AtomicInteger();
    final AtomicInteger renewals = new AtomicInteger();
    final AtomicInteger served = new AtomicInteger();
    final Map<String, SessionRecord> sessions = new ConcurrentHashMap<>();
    volatile Misbehaviour misbehaviour = FakeService::send;
    volatile List<String> suites = List.of("X25519MLKEM768", "SecP256r1MLKEM768", "P256");
    volatile long clockAheadMs;
    volatile long ttlSec = 3600;
    volatile boolean isProving = true;
    /** Whether the next call is served, and its session lost before anything of its answer left. */
    volatile boolean isLostOnceServed;
    /** Whether every call is of a session that is not known. */
    volatile boolean isForgetting;
    volatile int status = 200;
    volatile long keysLateMs;
    /** Sealed requests that came, served or not. */
    final AtomicInteger calls = new AtomicInteger();
    /** If set, the next call is refused for a stamp that is so much older than the clock, by a genuine problem. */
    final AtomicReference<Long> skewMs = new AtomicReference<>();
    /** How long a refusal is kept back. */
    volatile long refusalLateMs;
    /** The status of the key set. */
    volatile int keysStatus = 200;
    /** The root that signs the key set, and when it says that it was issued; null for none. */
    volatile SigningKey root;
    /** Changes inits on their way, as a man in the middle does. */
    volatile UnaryOperator<InitRequest> onTheWay = UnaryOperator.identity();
    volatile long issuedMs = 1;
    /** {@code Authorization} and {@code proof} of each init. */
    final List<String> authorizations = new CopyOnWriteArrayList<>();
    final List<String> proofs = new CopyOnWriteArrayList<>();
    /** If set, the init is taken as if it had come with this token. */
    volatile String tokenInstead;
    /** At {@code /flow}: counted down when the first piece of a request is here, and when the answer may go on. */
    final CountDownLatch firstPiece = new CountDownLatch(1);
    final CountDownLatch goOn = new CountDownLatch(1);
    private static final SecureRandom RANDOM = new SecureRandom();
    private final SecureRandom random = RANDOM;
    final Identity identity = identity();
    /** Those that are published and sign, the first one before others. */
    volatile List<Identity> identities = List.of(identity);
    private final HttpServer http;

    FakeService() throws IOException {
        http = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        http.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
        http.createContext("/", this::handle);
        http.start();
    }

    static Identity identity() {
        return Identity.of(SigningKey.of(Curve.P256, Curve.P256.generate(RANDOM), RANDOM), 0, Long.MAX_VALUE);
    }

    URI url() {
        return URI.create("http://127.0.0.1:" + http.getAddress().getPort());
    }

    String pin() {
        return StrictBase64.encode(identity.publicKey());
    }

    private byte[] draw(int length) {
        byte[] out = new byte[length];
        random.nextBytes(out);
        return out;
    }

    private long nowMs() {
        return System.currentTimeMillis() + clockAheadMs;
    }

    static HeaderList headers(HttpExchange exchange) {
        List<Header> out = new ArrayList<>();
        exchange.getRequestHeaders().forEach((name, values) -> values.forEach(value -> out.add(new Header(name, value))));
        return new HeaderList(out);
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange) {
            if (exchange.getRequestURI().getRawPath().equals("/flow")) {
                flow(exchange);
                return;
            }
            byte[] body = exchange.getRequestBody().readAllBytes();
            String path = exchange.getRequestURI().getRawPath();
            if (path.equals("/.well-known/sealway-keys")) {
                sleep(keysLateMs);
                plain(exchange, keysStatus, keySet());
            } else if (path.equals("/v3/sessions")) {
                init(exchange, onTheWay.apply(InitRequest.read(body)));
            } else {
                call(exchange, path, body);
            }
        } catch (SealwayException refused) {
            plain(exchange, 400, Problem.of("unsealable", Map.of()).write());
        }
    }

    private byte[] keySet() {
        long endMs = 9_999_999_999_999L;
        List<Object> keys = new ArrayList<>();
        byte[] listed = {};
        for (Identity each : identities) {
            Map<String, Object> key = new LinkedHashMap<>();
            key.put("key_id", each.keyId());
            key.put("alg", SignatureAlgorithm.of(each.publicKey()).text());
            key.put("public_key", StrictBase64.encode(each.publicKey()));
            key.put("not_before_ms", 0);
            key.put("not_after_ms", endMs);
            keys.add(key);
            listed = Bytes.join(listed, field(Bytes.join(field(each.keyId().getBytes()), field(each.publicKey()), number(0), number(endMs))));
        }
        Map<String, Object> set = new LinkedHashMap<>(Map.of("issued_ms", issuedMs, "expires_ms", endMs, "keys", keys));
        if (root != null) {
            byte[] hash = Hashes.sha256(number(issuedMs), number(endMs), field(listed));
            set.put("root_key_id", Identity.keyId(root.publicKey()));
            set.put("root_signature", StrictBase64.encode(root.sign(Bytes.join("sealway/3 keys".getBytes(), hash))));
        }
        return Json.write(set).getBytes();
    }

    private static byte[] field(byte[] value) {
        return Bytes.join(java.nio.ByteBuffer.allocate(4).putInt(value.length).array(), value);
    }

    private static byte[] number(long value) {
        return field(java.nio.ByteBuffer.allocate(8).putLong(value).array());
    }

    /** Opens a request as it comes and seals the answer in two pieces. */
    private void flow(HttpExchange exchange) throws IOException {
        Exchange call = read(exchange);
        Opening opening = call.session(sessions.get(call.sessionId()));
        byte[] buffer = new byte[70_000];
        List<Piece> pieces = List.of();
        while (pieces.isEmpty()) {
            pieces = opening.stream().read(buffer, 0, exchange.getRequestBody().read(buffer));
        }
        Unreplayed<PlainRequest> first = opening.open(pieces.getFirst(), opening.session(), nowMs());
        NativeReply reply = (NativeReply) first.release(Fresh.granted(first.claim())).reply();
        firstPiece.countDown();
        for (int read = exchange.getRequestBody().read(buffer); read >= 0; read = exchange.getRequestBody().read(buffer)) {
            opening.stream().read(buffer, 0, read);
        }
        opening.stream().end();
        NativeReply.Head answer = reply.begin(200, "application/octet-stream", Long.toString(nowMs()), "r-0123456789abcdef");
        answer.headers().forEach(header -> exchange.getResponseHeaders().set(header.name(), header.value()));
        exchange.getResponseHeaders().set("Content-Type", "application/octet-stream");
        exchange.sendResponseHeaders(200, 0);
        byte[] head = Bytes.join(InnerHeaders.encode(List.of()), "one".getBytes());
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(answer.sealer().seal(head, 0, head.length, false));
            out.flush();
            goOn.await();
            out.write(answer.sealer().seal("two".getBytes(), 0, 3, true));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** What servers of earlier versions signed. */
    private static byte[] expiredMessage(String sessionId, String nonce, String stamp, long timeMs) {
        return Bytes.join("sealway/3 expired".getBytes(), Hashes.sha256(field(sessionId.getBytes()), field(nonce.getBytes()),
                field(stamp.getBytes()), number(timeMs)));
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void init(HttpExchange exchange, InitRequest request) throws IOException {
        inits.incrementAndGet();
        authorizations.add(String.valueOf(exchange.getRequestHeaders().getFirst("Authorization")));
        proofs.add(String.valueOf(request.proof()));
        try {
            Acceptance.Grant accepted = Acceptance.accept(request, tokenInstead != null ? tokenInstead : exchange.getRequestHeaders().getFirst("Authorization"),
                    decision(), suites, identities, suite -> ServerShare.generate(suite, random), null);
            sessions.put(accepted.session().id(), accepted.session());
            plain(exchange, 201, accepted.body());
        } catch (dev.sealway.wire.ProtocolException refused) {
            plain(exchange, 409, Problem.of(refused.code(), Map.of("suites", suites)).write());
        }
    }

    private Acceptance.Decision decision() {
        return new Acceptance.Decision(draw(16), ttlSec, nowMs(), "none", null, null);
    }

    private Exchange read(HttpExchange exchange) {
        return Exchange.begin(exchange.getRequestMethod(), exchange.getRequestURI().toString(), headers(exchange), nowMs(), ReplayPolicy.DEFAULT);
    }

    private SealedMessage seal(Reply reply, int status, List<Header> inner, byte[] body) {
        return ((AnswerSeal.Frames) reply.answer(status)).seal(inner, body, nowMs(), draw(16));
    }

    private void refuseExpired(HttpExchange exchange, String sessionId, Forms.StampAndNonce key) throws IOException {
        Map<String, Object> more = new LinkedHashMap<>();
        if (isProving) {
            long time = nowMs();
            more.put("key_id", identity.keyId());
            more.put("server_time_ms", time);
            more.put("signature", StrictBase64.encode(identity.signer().sign(
                    expiredMessage(sessionId, key.nonce(), key.stamp(), time))));
        }
        sleep(refusalLateMs);
        plain(exchange, 401, Problem.of("session_expired", more).write());
    }

    private void call(HttpExchange exchange, String path, byte[] body) throws IOException {
        Exchange call = read(exchange);
        Forms.StampAndNonce key = Forms.split(headers(exchange).required("X-Idempotency-Key"));
        SessionRecord session = isForgetting ? null : sessions.get(call.sessionId());
        calls.incrementAndGet();
        if (session == null) {
            refuseExpired(exchange, call.sessionId(), key);
            return;
        }
        Long skew = skewMs.getAndSet(null);
        if (skew != null || Math.abs(Long.parseLong(key.stamp()) - nowMs()) > ReplayPolicy.DEFAULT.windowMs()) {
            long time = skew == null ? nowMs() : Long.parseLong(key.stamp()) + skew;
            sleep(refusalLateMs);
            plain(exchange, 400, Problem.of("clock_skew", Map.of("server_time_ms", time, "mac",
                    StrictBase64.encode(Proofs.clockMac(session, key.nonce(), key.stamp(), time)))).write());
            return;
        }
        Unreplayed<PlainRequest> opened = call.session(session).openAll(body, nowMs());
        PlainRequest request = opened.release(Fresh.granted(opened.claim()));
        if (path.endsWith("/renew")) {
            renewals.incrementAndGet();
            Acceptance.Grant accepted = Acceptance.accept(InitRequest.read(request.first()), null, decision(), suites, identities,
                    suite -> ServerShare.generate(suite, random), session);
            sessions.put(accepted.session().id(), accepted.session());
            send(exchange, seal(request.reply(), 201, List.of(), accepted.body()), 201);
            return;
        }
        served.incrementAndGet();
        if (exchange.getRequestMethod().equals("DELETE") && path.startsWith("/v3/sessions/")) {
            sessions.remove(session.id());
            send(exchange, seal(request.reply(), 204, List.of(), new byte[0]), 204);
            return;
        }
        if (isLostOnceServed) {
            isLostOnceServed = false;
            sessions.remove(session.id());
            refuseExpired(exchange, call.sessionId(), key);
            return;
        }
        misbehaviour.answer(exchange, seal(request.reply(), status, List.of(new Header("content-type", "text/plain")), request.first()));
    }

    static void send(HttpExchange exchange, SealedMessage message) throws IOException {
        send(exchange, message, 200);
    }

    static void send(HttpExchange exchange, SealedMessage message, int status) throws IOException {
        head(exchange, message);
        exchange.sendResponseHeaders(status, message.body().length == 0 ? -1 : message.body().length);
        if (message.body().length > 0) {
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(message.body());
            }
        }
    }

    static void head(HttpExchange exchange, SealedMessage message) {
        message.headers().forEach(header -> exchange.getResponseHeaders().set(header.name(), header.value()));
        if (message.contentType() != null) {
            exchange.getResponseHeaders().set("Content-Type", message.contentType());
        }
    }

    static void plain(HttpExchange exchange, int status, byte[] body) throws IOException {
        exchange.getResponseHeaders().set("Content-Type", status < 300 ? "application/json" : Problem.TYPE);
        if (exchange.getRequestMethod().equals("HEAD")) {
            exchange.sendResponseHeaders(status, -1);
            return;
        }
        exchange.sendResponseHeaders(status, body.length);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    @Override
    public void close() {
        http.stop(0);
    }
}
