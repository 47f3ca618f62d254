package dev.sealway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.client.KeyRetiredException;
import dev.sealway.client.OneShot;
import dev.sealway.client.OneShotTrust;
import dev.sealway.client.ProblemException;
import dev.sealway.client.SealedRequest;
import dev.sealway.client.SealedStream;
import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.Kem;
import dev.sealway.crypto.KemSender;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.crypto.X25519;
import dev.sealway.session.SealedMessage;
import dev.sealway.session.nativeprotocol.KeyConfig;
import dev.sealway.session.nativeprotocol.KeyDocument;
import dev.sealway.session.nativeprotocol.NativeCall;
import dev.sealway.session.nativeprotocol.OneShotKeys;
import dev.sealway.session.nativeprotocol.Problem;
import dev.sealway.session.nativeprotocol.RequestKeys;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Json;
import dev.sealway.wire.StrictBase64;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Single requests to a real gateway: every KEM and every trust, with and without a PSK. */
@Timeout(120)
class OneShotGatewayTest {
    private static final String CONFIGURATION = """
            listeners:
              - address: "127.0.0.1:0"
            routes:
              - match: { path_prefix: "/transaction/" }
                sealed: hpke
                upstream: shop
              - match: { path_prefix: ["/.well-known/", "/v3/"], path: ["/health", "/ready"] }
                sessions: {}
            upstreams:
              shop: { servers: ["demo:"] }
            one_shot:
              keys: keys.json
              psk: { master: master }
            sessions:
              store: "file:sessions.redb"
              allow_generated_kek: true
              identity: { allow_generated: true }
            telemetry: { log_format: json, log_level: info }
            """;
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final byte[] MASTER = "0123456789abcdef0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    @TempDir
    Path folder;
    private String root;

    private Sealway start(Kem kem) throws Exception {
        Path own = Files.createDirectory(folder.resolve(kem.name()));
        Matcher shown = Pattern.compile("[A-Za-z0-9+/]{87}=").matcher(Sealway.run(own, "identity", "root", "root.json"));
        assertTrue(shown.find());
        root = shown.group();
        String name = switch (kem) {
            case X_WING -> "x-wing";
            case MLKEM768_P256 -> "mlkem768-p256";
            case X25519 -> "x25519";
            case P256 -> "p256";
        };
        Sealway.run(own, "one-shot-keys", "add", "keys.json", "--use", "hpke", "--kem", name);
        Sealway.run(own, "one-shot-keys", "sign", "keys.json", "--root", "root.json", "--expires-in", "7d");
        return new Sealway(Sealway.secret(own, "master", StrictBase64.encode(MASTER)), CONFIGURATION);
    }

    private static byte[] psk(String id) {
        try (SecretBytes prk = Hashes.extract(MASTER, id.getBytes(StandardCharsets.US_ASCII))) {
            return Hashes.expand(prk, "sealway/4 psk").copy();
        }
    }

    private static byte[] document(Sealway gateway) throws IOException, InterruptedException {
        return fetch(HttpRequest.newBuilder(URI.create(gateway.url + KeyDocument.PATH)).build()).body();
    }

    private static HttpResponse<byte[]> fetch(HttpRequest request) throws IOException, InterruptedException {
        try (HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()) {
            return http.send(request, HttpResponse.BodyHandlers.ofByteArray());
        }
    }

    @Test
    void aPurchaseGoesThroughWithEveryKemAndTrust() throws Exception {
        int done = 0;
        for (Kem kem : Kem.values()) {
            try (Sealway gateway = start(kem)) {
                byte[] document = document(gateway);
                KeyConfig key = KeyDocument.parse(document).keys().getFirst().config();
                assertEquals(kem, key.kem());
                Map<?, ?> listed = (Map<?, ?>) ((List<?>) ((Map<?, ?>) Json.parse(document)).get("keys")).getFirst();
                for (OneShotTrust trust : List.of(OneShotTrust.root(root), OneShotTrust.pins(key.kid()),
                        OneShotTrust.pins((String) listed.get("config")))) {
                    for (boolean hasPsk : new boolean[] {false, true}) {
                        OneShot.Builder builder = OneShot.to(URI.create(gateway.url), trust);
                        try (OneShot client = (hasPsk ? builder.psk("team-a", psk("team-a")) : builder).build()) {
                            assertTrue(Environment.isPurchase(client.send(Environment.PURCHASE)));
                            assertEquals(404, client.send(SealedRequest.get("/transaction/none")).status());
                            SealedRequest request = Environment.PURCHASE;
                            try (SealedStream stream = client.stream(new SealedRequest("POST", request.target(), request.headers(), new byte[0], null),
                                    new ByteArrayInputStream(request.body()))) {
                                assertEquals(200, stream.status());
                                assertTrue(new String(stream.readAllBytes(), StandardCharsets.UTF_8).contains("SUCCESS"));
                            }
                            done++;
                        }
                    }
                }
            }
        }
        assertEquals(24, done);
    }

    private static NativeCall.PlainAnswer exchange(Sealway gateway, RequestKeys.WholeRequest sealed) throws IOException, InterruptedException {
        SealedMessage message = sealed.message();
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(gateway.url + "/transaction/purchase"))
                .POST(HttpRequest.BodyPublishers.ofByteArray(message.body())).header("Content-Type", message.contentType());
        message.headers().forEach(header -> request.header(header.name(), header.value()));
        HttpResponse<byte[]> answer = fetch(request.build());
        List<Header> headers = new ArrayList<>();
        answer.headers().map().forEach((name, values) -> values.forEach(value -> headers.add(new Header(name, value))));
        return sealed.call().open(answer.statusCode(), new HeaderList(headers), answer.body());
    }

    @Test
    void theGatewayServesARequestOnceAndSealsItsProblems() throws Exception {
        try (Sealway gateway = start(Kem.X_WING)) {
            KeyConfig key = KeyDocument.parse(document(gateway)).keys().getFirst().config();
            OneShotKeys keys = OneShotKeys.agree(key, null, KemSender.generate(key.kem(), RANDOM));
            SealedRequest purchase = Environment.PURCHASE;
            byte[] nonce = new byte[16];
            RANDOM.nextBytes(nonce);
            RequestKeys.WholeRequest sealed = keys.seal("POST", purchase.target(), purchase.headers(), purchase.body(), System.currentTimeMillis(), nonce);
            assertFalse(exchange(gateway, sealed).isProblem());
            NativeCall.PlainAnswer again = exchange(gateway, sealed);
            assertTrue(again.isProblem());
            assertEquals("replayed", NativeCall.problem(409, again.body()).code());
            OneShotKeys others = OneShotKeys.agree(key, null, KemSender.generate(key.kem(), RANDOM));
            NativeCall.PlainAnswer late = exchange(gateway, others.seal("POST", purchase.target(), purchase.headers(), purchase.body(),
                    System.currentTimeMillis() - 3_600_000, nonce));
            assertTrue(late.isProblem());
            Problem skew = NativeCall.problem(400, late.body());
            assertEquals("clock_skew", skew.code());
            assertTrue(Math.abs(skew.serverTimeMs() - System.currentTimeMillis()) < 60_000);
        }
    }

    @Test
    void aKeyThatTheGatewayLacksAndAWrongPskAreErrors() throws Exception {
        try (Sealway gateway = start(Kem.X25519)) {
            String foreign = StrictBase64.encode(Bytes.join(new byte[] {9, 0, 0x20}, X25519.encode(X25519.generate(RANDOM).getPublic()),
                    new byte[] {0, 4, 0, 1, 0, 2}));
            try (OneShot client = OneShot.to(URI.create(gateway.url), OneShotTrust.pins(foreign)).build()) {
                KeyRetiredException retired = assertThrows(KeyRetiredException.class, () -> client.send(Environment.PURCHASE));
                assertEquals(List.of(KeyDocument.parse(document(gateway)).keys().getFirst().config().kid()), retired.keys());
            }
            try (OneShot client = OneShot.to(URI.create(gateway.url), OneShotTrust.root(root)).psk("team-a", psk("team-b")).build()) {
                assertEquals("unsealable", assertThrows(ProblemException.class, () -> client.send(Environment.PURCHASE)).code());
            }
        }
    }
}
