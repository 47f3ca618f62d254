package dev.sealway.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.MlKem;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.crypto.SigningKey;
import dev.sealway.session.SessionRecord;
import dev.sealway.session.nativeprotocol.Acceptance;
import dev.sealway.session.nativeprotocol.Agreement;
import dev.sealway.session.nativeprotocol.ClientShare;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.KeySet;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.ServerShare;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** All of {@code vectors/session3}, both sides. */
class NativeVectorsTest {
    private static final Map<String, Integer> RAN = new TreeMap<>();
    private static final Set<String> ALGORITHMS = new TreeSet<>();
    private static final SecureRandom RANDOM = new SecureRandom();

    @TestFactory
    Stream<DynamicTest> everyVectorOfWire3Holds() {
        return Scenario.folder("session3").stream().map(scenario -> DynamicTest.dynamicTest(scenario.name(), () -> {
            run(scenario);
            scenario.assertAllRead();
            RAN.merge(scenario.type(), 1, Integer::sum);
        }));
    }

    @AfterAll
    static void someOfEachTypeRan() {
        assertEquals(12, RAN.size(), RAN.toString());
        assertTrue(ALGORITHMS.containsAll(Arrays.stream(SignatureAlgorithm.values()).map(SignatureAlgorithm::text).toList()), ALGORITHMS.toString());
        System.out.println("vectors/session3: " + RAN.values().stream().mapToInt(n -> n).sum() + " ran, none skipped: " + RAN);
    }

    static void run(Scenario s) {
        switch (s.type()) {
            case "init3", "renew3" -> init(s);
            case "init3-refused" -> initRefused(s);
            case "init3-request-refused" -> initRequestRefused(s);
            case "request3" -> Calls.request(s);
            case "request3-refused" -> Calls.requestRefused(s);
            case "answer3" -> Calls.answer(s);
            case "answer3-refused" -> Calls.answerRefused(s);
            case "key-set3" -> keySet(s);
            case "key-set3-refused" -> {
                byte[] body = s.text("body").getBytes(StandardCharsets.UTF_8);
                byte[] root = s.hex("root_public_hex");
                List<String> accepted = s.accepted();
                long nowMs = s.number("now_ms");
                Long takenMs = s.optionalNumber("taken_issued_ms");
                s.assertRefused(() -> KeySet.parse(body).verify(root, accepted, nowMs, takenMs));
            }
            case "problem3" -> Calls.problem(s);
            case "headers3" -> Calls.serviceHeaders(s);
            default -> fail(s.name() + ": unknown type " + s.type());
        }
    }

    private static KeyPair pair(Scenario s, String name) {
        byte[] bytes = s.hex(name);
        if (bytes.length == 0) {
            return null;
        }
        return switch (name) {
            case "p256_scalar_hex", "p384_scalar_hex" -> FixedKeys.curve(bytes);
            case "x25519_hex" -> FixedKeys.x25519(bytes);
            default -> FixedKeys.kem(bytes);
        };
    }

    /** The key pair of the suite's curve. */
    private static KeyPair curve(Scenario s) {
        KeyPair p256 = pair(s, "p256_scalar_hex");
        return s.has("p384_scalar_hex") && s.hex("p384_scalar_hex").length > 0 ? pair(s, "p384_scalar_hex") : p256;
    }

    private static ClientShare share(Scenario client, String suite) {
        if (client.has("kem_seed_hex")) {
            assertEquals(128, client.text("kem_seed_hex").length());
        }
        return new ClientShare(Suite.of(suite), curve(client), pair(client, "x25519_hex"),
                pair(client, "kem_private_hex"));
    }

    private static Map<String, byte[]> trusted(List<byte[]> keys) {
        Map<String, byte[]> out = new HashMap<>();
        keys.forEach(key -> out.put(Identity.keyId(key), key));
        return out;
    }

    /** The session of a call: an init of suite P256 that is finished here. */
    static NativeSession client(Scenario client) {
        InitRequest request = InitRequest.read(client.text("body").getBytes(StandardCharsets.UTF_8));
        ClientShare share = new ClientShare(Suite.P256, FixedKeys.curve(client.hex("p256_scalar_hex")), null, null);
        Map<String, byte[]> trusted = trusted(List.of(client.hex("trusted_hex")));
        return Agreement.of(request, share, null, null).finish(201, client.text("answer").getBytes(StandardCharsets.UTF_8),
                trusted::get);
    }

    private static NativeSession old(Scenario s) {
        Scenario old = s.has("old") ? s.object("old") : null;
        if (old == null) {
            if (s.type().equals("init3-refused")) {
                assertTrue(s.isNull("old"));
            }
            return null;
        }
        NativeSession session = client(old.object("client"));
        assertEquals(old.text("session_id"), session.id());
        old.assertHex("prk_hex", session.copyPrk());
        old.assertHex("exporter_hex", Hashes.expand(SecretBytes.owning(session.copyPrk()), "sealway/3 exporter").copy());
        return session;
    }

    private static void init(Scenario s) {
        byte[] body = s.bytes("body");
        InitRequest request = InitRequest.read(body);
        String answer = s.text("answer");
        byte[] answerBytes = answer.getBytes(StandardCharsets.UTF_8);
        Map<?, ?> members = (Map<?, ?>) Json.parse(answerBytes);
        NativeSession old = old(s);
        s.assertHex("init_hash_hex", request.initHash());
        String authorization = s.text("authorization");
        s.assertHex("credential_hex", authorization == null ? new byte[0]
                : Hashes.sha256(authorization.getBytes(StandardCharsets.ISO_8859_1)));
        Map<String, byte[]> trusted = trusted(s.hexes("trusted_hex"));
        byte[] prk = s.hex("prk_hex");
        byte[] transcript = s.hex("transcript_hex");
        byte[] hash = Hashes.sha256(transcript);
        SecretBytes key = SecretBytes.owning(prk.clone());
        if (s.object("client") instanceof Scenario client) {
            ClientShare share = share(client, request.suite());
            assertArrayEquals(request.share(), share.share());
            assertEquals(Json.parse(body), Json.parse(request.write()));
            Agreement agreement = Agreement.of(request, share, authorization, old);
            assertArrayEquals(transcript, agreement.transcript(answerBytes));
            NativeSession session = agreement.finish(201, answerBytes, trusted::get);
            assertArrayEquals(prk, session.copyPrk());
            assertEquals(members.get("session_id"), session.id());
        }
        Scenario server = s.object("server");
        SessionRecord renewed = old == null ? null : new SessionRecord(old.id(), Wire.NATIVE, old.clientId(), null, 0, 0,
                SecretBytes.owning(old.copyPrk()), null, "none");
        Acceptance.Decision decision = new Acceptance.Decision(server.hex("session_id_random_hex"), server.number("expires_in_sec"),
                s.number("now_ms"), server.text("auth"), server.text("subject"), server.text("tenant"));
        MlKem.Encapsulation kem = new MlKem.Encapsulation(server.hex("kem_ciphertext_hex"), server.hex("kem_secret_hex"));
        ServerShare share = new ServerShare(curve(server), pair(server, "x25519_hex"), encapsulation -> kem);
        byte[] signature = StrictBase64.decode((String) members.get("signature"));
        Acceptance.Grant accepted = Acceptance.accept(request, authorization, decision, server.texts("suites"),
                identities(server, signature), suite -> share, renewed);
        assertEquals(members, Json.parse(accepted.body()));
        assertArrayEquals(prk, accepted.session().key().copy());
        // What is left of the members stands there to find a difference by.
        s.assertHex("c2s_hex", Hashes.expand(key, "sealway/3 c2s").copy());
        s.assertHex("s2c_hex", Hashes.expand(key, "sealway/3 s2c").copy());
        s.assertHex("exporter_hex", Hashes.expand(key, "sealway/3 exporter").copy());
        s.assertHex("th_hex", hash);
        SecretBytes confirmKey = Hashes.expand(key, "sealway/3 confirm");
        s.assertHex("confirm_key_hex", confirmKey.copy());
        assertArrayEquals(Hashes.hmac(confirmKey, hash), StrictBase64.decode((String) members.get("confirm")));
        assertTrue(s.text("secret_hex").length() >= 64);
    }

    /** Signs with its own key. A key with ECDSA signs by a random number, so it gives the signature of the scenario, which verifies. */
    private static List<Identity> identities(Scenario server, byte[] signature) {
        return server.objects("identities").stream().map(each -> {
            SignatureAlgorithm algorithm = each.has("alg") ? SignatureAlgorithm.of(each.text("alg")) : SignatureAlgorithm.ES256;
            ALGORITHMS.add(algorithm.text());
            byte[] seed = each.has("seed_hex") ? each.hex("seed_hex") : new byte[0];
            SigningKey key = algorithm.key(Bytes.join(each.hex("scalar_hex"), seed), RANDOM);
            if (each.has("public_hex")) {
                assertArrayEquals(each.hex("public_hex"), key.publicKey());
            }
            return new Identity(key.publicKey(), each.number("not_before_ms"), each.number("not_after_ms"), message -> {
                byte[] own = key.sign(message);
                assertTrue(SignatureAlgorithm.verifies(key.publicKey(), message, own));
                if (algorithm == SignatureAlgorithm.ML_DSA_65 || algorithm == SignatureAlgorithm.ML_DSA_87) {
                    return own;
                }
                assertTrue(SignatureAlgorithm.verifies(key.publicKey(), message, signature));
                return signature;
            });
        }).toList();
    }

    private static void initRefused(Scenario s) {
        InitRequest request = InitRequest.read(s.bytes("body"));
        NativeSession old = old(s);
        Agreement agreement = Agreement.of(request, share(s.object("client"), request.suite()), s.text("authorization"), old);
        Map<String, byte[]> trusted = trusted(s.hexes("trusted_hex"));
        int status = Math.toIntExact(s.number("status"));
        byte[] answer = s.bytes("answer");
        s.assertRefused(() -> agreement.finish(status, answer, trusted::get));
    }

    private static void initRequestRefused(Scenario s) {
        Scenario server = s.object("server");
        Acceptance.Decision decision = new Acceptance.Decision(new byte[16], 3600, s.number("now_ms"), "none", null, null);
        List<Identity> identities = identities(server, new byte[64]);
        List<String> suites = server.texts("suites");
        byte[] body = s.bytes("body");
        String field = s.text("field");
        s.assertRefused(() -> {
            try {
                InitRequest request = InitRequest.read(body);
                Acceptance.accept(request, null, decision, suites, identities,
                        suite -> ServerShare.generate(suite, RANDOM), null);
            } catch (ProtocolException refused) {
                if (field != null) {
                    assertEquals(field, refused.field(), s.name());
                }
                throw refused;
            }
        });
    }

    private static void keySet(Scenario s) {
        KeySet set = KeySet.parse(s.text("body").getBytes(StandardCharsets.UTF_8));
        set.verify(s.hex("root_public_hex"), s.accepted(), s.number("now_ms"), s.optionalNumber("taken_issued_ms"));
        assertEquals(s.number("issued_ms"), set.issuedMs());
        Calls.assertKeys(s, set);
    }
}
