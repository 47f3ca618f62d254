package dev.sealway.client;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Curve;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.Kem;
import dev.sealway.crypto.SigningKey;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.FrameOpener;
import dev.sealway.session.nativeprotocol.FrameSealer;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.session.nativeprotocol.KeyConfig;
import dev.sealway.session.nativeprotocol.KeyDocument;
import dev.sealway.session.nativeprotocol.OneShotFrames;
import dev.sealway.session.nativeprotocol.OneShotKeys;
import dev.sealway.session.nativeprotocol.Placement;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.bouncycastle.crypto.AsymmetricCipherKeyPair;
import org.bouncycastle.crypto.hpke.HPKE;
import org.bouncycastle.crypto.hpke.HPKEContext;

/** A service of wire 4 on a real socket, whose HPKE is Bouncy Castle's, and which can be told to misbehave. */
final class OneShotService implements AutoCloseable {
    static final byte[] PSK = "0123456789abcdef0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    static final long NEVER_MS = 999_999_999_999_999L;
    private static final byte[] SUITE = {0, 4, 0, 1, 0, 2};
    private static final long WINDOW_MS = 300_000;
    private static final SecureRandom RANDOM = new SecureRandom();

    /** A key of the service and the time until which clients use it. */
    record ServiceKey(Kem kem, AsymmetricCipherKeyPair pair, byte[] config, long useUntilMs) {
        static ServiceKey generate(Kem kem, long useUntilMs) {
            HPKE hpke = hpke(kem, HPKE.mode_base);
            AsymmetricCipherKeyPair pair = hpke.generatePrivateKey();
            return new ServiceKey(kem, pair, Bytes.join(new byte[] {1, (byte) (kem.id() >> 8), (byte) kem.id()},
                    hpke.serializePublicKey(pair.getPublic()), SUITE), useUntilMs);
        }

        static ServiceKey generate(Kem kem) {
            return generate(kem, NEVER_MS);
        }

        /** A key of a KEM that nobody knows. */
        static ServiceKey unknown() {
            return new ServiceKey(null, null, Bytes.join(new byte[] {1, 0x12, 0x34}, new byte[77], SUITE), NEVER_MS);
        }

        String kid() {
            return KeyConfig.read(config).kid();
        }

        String pin() {
            return StrictBase64.encode(config);
        }
    }

    /** What is done with an answer that was sealed honestly. */
    interface Misbehaviour {
        void answer(HttpExchange exchange, SealedMessage honest, int status) throws IOException;
    }

    /** What the service does with a request that opened, in place of serving it: a sealed problem. */
    interface Verdict {
        Problem of(Request request);
    }

    /** A request that opened. */
    record Request(String kid, String enc, String pskId, String method, String target, long stampMs, String nonce, HeaderList headers, byte[] body) {
    }

    volatile SigningKey root = SigningKey.of(Curve.P256, Curve.P256.generate(RANDOM), RANDOM);
    volatile List<ServiceKey> keys = new ArrayList<>(List.of(ServiceKey.generate(Kem.X25519)));
    volatile Verdict verdict = request -> null;
    volatile Misbehaviour misbehaviour = OneShotService::send;
    volatile int status = 200;
    volatile long issuedMs = 1;
    volatile long expiresMs = NEVER_MS;
    volatile long clockAheadMs;
    /** The document in a {@code key_retired}; null for its own. */
    volatile Object retiredDocument;
    volatile boolean isRootHidden;
    final List<Request> requests = new CopyOnWriteArrayList<>();
    /** Sealed requests that came, opened or not. */
    final AtomicInteger calls = new AtomicInteger();
    final AtomicInteger served = new AtomicInteger();
    final AtomicInteger fetches = new AtomicInteger();
    final CountDownLatch firstPiece = new CountDownLatch(1);
    final CountDownLatch goOn = new CountDownLatch(1);
    private final Set<String> claims = ConcurrentHashMap.newKeySet();
    private final HttpServer http;

    OneShotService() throws IOException {
        http = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        http.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
        http.createContext("/", this::handle);
        http.start();
    }

    URI url() {
        return URI.create("http://127.0.0.1:" + http.getAddress().getPort());
    }

    String rootText() {
        return StrictBase64.encode(root.publicKey());
    }

    long nowMs() {
        return System.currentTimeMillis() + clockAheadMs;
    }

    private static HPKE hpke(Kem kem, byte mode) {
        return new HPKE(mode, (short) kem.id(), HPKE.kdf_HKDF_SHA256, HPKE.aead_AES_GCM256);
    }

    private static byte[] field(byte[] value) {
        return Bytes.join(ByteBuffer.allocate(4).putInt(value.length).array(), value);
    }

    private static byte[] number(long value) {
        return field(ByteBuffer.allocate(8).putLong(value).array());
    }

    /** The key document, as its members. */
    Map<String, Object> document() {
        List<Object> listed = new ArrayList<>();
        byte[] encoded = {};
        for (ServiceKey key : keys) {
            listed.add(new LinkedHashMap<>(Map.of("config", key.pin(), "not_before_ms", 0L, "use_until_ms", key.useUntilMs(), "not_after_ms", NEVER_MS)));
            encoded = Bytes.join(encoded, field(Bytes.join(field(key.config()), number(0), number(key.useUntilMs()), number(NEVER_MS))));
        }
        Map<String, Object> out = new LinkedHashMap<>(Map.of("issued_ms", issuedMs, "expires_ms", expiresMs, "keys", listed));
        if (!isRootHidden) {
            byte[] hash = Hashes.sha256(number(issuedMs), number(expiresMs), field(encoded));
            out.put("root_key_id", Identity.keyId(root.publicKey()));
            out.put("root_signature", StrictBase64.encode(root.sign(Bytes.join("sealway/4 keys".getBytes(), hash))));
        }
        return out;
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange) {
            if (exchange.getRequestURI().getRawPath().equals(KeyDocument.PATH)) {
                fetches.incrementAndGet();
                FakeService.plain(exchange, 200, Json.write(document()).getBytes());
                return;
            }
            try {
                call(exchange);
            } catch (ProtocolException unsealable) {
                FakeService.plain(exchange, 400, Problem.of("unsealable", Map.of()).write());
            }
        }
    }

    private void call(HttpExchange exchange) throws IOException {
        calls.incrementAndGet();
        HeaderList headers = FakeService.headers(exchange);
        String kid = headers.required("X-Kid");
        ServiceKey key = keys.stream().filter(each -> each.kid().equals(kid)).findFirst().orElse(null);
        if (key == null) {
            exchange.getRequestBody().readAllBytes();
            FakeService.plain(exchange, 409, Problem.of("key_retired", Map.of("key_document", retiredDocument == null ? document() : retiredDocument)).write());
            return;
        }
        String inHeader = headers.first("X-Sealed");
        InputStream in = inHeader == null ? exchange.getRequestBody() : new ByteArrayInputStream(StrictBase64.decode(inHeader));
        byte[] prefix = in.readNBytes(2);
        byte[] pskId = in.readNBytes(prefix[1]);
        byte[] enc = in.readNBytes(key.kem().encLen());
        String name = kid.substring("hpke:".length());
        byte[] info = OneShotKeys.info(name, pskId);
        HPKE hpke = hpke(key.kem(), prefix[0]);
        HPKEContext context = prefix[0] == 0 ? hpke.setupBaseR(enc, key.pair(), info) : hpke.setupPSKR(enc, key.pair(), info, PSK, pskId);
        Forms.StampAndNonce own = Forms.split(headers.required("X-Idempotency-Key"));
        String method = exchange.getRequestMethod();
        String target = exchange.getRequestURI().toString();
        FrameOpener opener = OneShotFrames.request(context.export("sealway/4 c2s".getBytes(), 32), method, target, headers.optional("Content-Type"),
                own.stamp(), own.nonce(), name);
        byte[] s2c = context.export("sealway/4 s2c".getBytes(), 32);
        if (target.equals("/flow")) {
            flow(exchange, in, opener, s2c, own.nonce(), kid);
            return;
        }
        byte[] body = opener.openAll(in.readAllBytes());
        Request request = new Request(kid, HexFormat.of().formatHex(enc), new String(pskId, StandardCharsets.US_ASCII), method, target,
                Long.parseLong(own.stamp()), own.nonce(), opener.headers(), body);
        requests.add(request);
        Problem problem = problem(request);
        int code = problem == null ? status : problem.status();
        String nonce = (problem == null ? "r-" : "p-") + "00112233445566778899aabbccddeeff";
        boolean isBodiless = Placement.isBodilessAnswer(method, code);
        FrameSealer sealer = OneShotFrames.answer(s2c, own.nonce(), code, method, target, isBodiless ? "" : Placement.OCTETS, "1750000000000", nonce, name);
        byte[] inner = InnerHeaders.encode(List.of(new Header("content-type", problem == null ? "text/plain" : Problem.TYPE)));
        byte[] answer = problem == null ? isBodiless ? new byte[0] : body : problem.write();
        HeaderList outer = HeaderList.of("X-Seal", "4", "X-Kid", kid, "X-Idempotency-Key", "1750000000000." + nonce);
        if (problem == null) {
            served.incrementAndGet();
        }
        misbehaviour.answer(exchange, Placement.message(outer, sealer.sealAll(inner, answer), isBodiless), code);
    }

    private Problem problem(Request request) {
        Problem given = verdict.of(request);
        if (given != null) {
            return given;
        }
        if (Math.abs(request.stampMs() - nowMs()) > WINDOW_MS) {
            return Problem.of("clock_skew", Map.of("server_time_ms", nowMs()));
        }
        return claims.add(request.enc()) ? null : Problem.of("replayed", Map.of());
    }

    /** Opens a request as it comes and seals the answer in two pieces. */
    private void flow(HttpExchange exchange, InputStream in, FrameOpener opener, byte[] s2c, String requestNonce, String kid) throws IOException {
        byte[] buffer = new byte[70_000];
        List<byte[]> pieces = List.of();
        while (pieces.isEmpty()) {
            pieces = opener.feed(buffer, 0, in.read(buffer));
        }
        firstPiece.countDown();
        for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
            opener.feed(buffer, 0, read);
        }
        opener.finish();
        String nonce = "r-0123456789abcdef0123456789abcdef";
        FrameSealer sealer = OneShotFrames.answer(s2c, requestNonce, 200, "POST", "/flow", Placement.OCTETS, "1", nonce, kid.substring(5));
        FakeService.head(exchange, new SealedMessage(HeaderList.of("X-Seal", "4", "X-Kid", kid, "X-Idempotency-Key", "1." + nonce), Placement.OCTETS,
                new byte[0]));
        exchange.sendResponseHeaders(200, 0);
        byte[] head = Bytes.join(InnerHeaders.encode(List.of()), "one".getBytes());
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(sealer.seal(head, 0, head.length, false));
            out.flush();
            goOn.await();
            out.write(sealer.seal("two".getBytes(), 0, 3, true));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    static void send(HttpExchange exchange, SealedMessage message, int status) throws IOException {
        FakeService.send(exchange, message, status);
    }

    @Override
    public void close() {
        http.stop(0);
    }
}
