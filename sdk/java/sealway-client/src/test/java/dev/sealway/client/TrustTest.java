package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.Curve;
import dev.sealway.crypto.SigningKey;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitAnswer;
import dev.sealway.session.nativeprotocol.KeySet;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Whom a client trusts, and who it says it is, over a socket. */
@Timeout(30)
class TrustTest {
    private final SecureRandom random = new SecureRandom();
    private final SigningKey root = SigningKey.of(Curve.P256, Curve.P256.generate(random), random);
    private final List<LogRecord> logged = new CopyOnWriteArrayList<>();
    private final Logger logger = Logger.getLogger("dev.sealway.client");
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord record) {
            logged.add(record);
        }

        @Override
        public void flush() {
            // Nothing is buffered.
        }

        @Override
        public void close() {
            // Nothing is held.
        }
    };
    private FakeService service;

    @BeforeEach
    void start() throws IOException {
        service = new FakeService();
        logger.addHandler(handler);
    }

    @AfterEach
    void stop() {
        logger.removeHandler(handler);
        service.close();
    }

    private SealwayClient client(Trust trust) {
        return SealwayClient.builder(service.url()).suites(Suite.P256).trust(trust).build();
    }

    private static String text(SigningKey pair) {
        return StrictBase64.encode(pair.publicKey());
    }

    private static SealedRequest post() {
        return new SealedRequest("POST", "/echo", List.of(), "hi".getBytes(), null);
    }

    /** A store that cannot be written to. */
    private static TrustStore unwritable(TrustStore of) {
        return new TrustStore() {
            @Override
            public List<String> load(String origin) {
                return of.load(origin);
            }

            @Override
            public void save(String origin, List<String> lines) {
                throw new UncheckedIOException(new IOException("read-only"));
            }
        };
    }

    @Test
    void aRootsKeySetIsTrustedAndNoOther() {
        service.root = root;
        TrustStore store = TrustStore.inMemory();
        try (SealwayClient client = client(Trust.root(text(root), store))) {
            assertEquals("hi", client.send(post()).text());
        }
        try (SealwayClient client = client(Trust.root(text(root)))) {
            assertEquals("hi", client.send(post()).text());
        }
        service.root = SigningKey.of(Curve.P256, Curve.P256.generate(random), random);
        try (SealwayClient client = client(Trust.root(text(root), store))) {
            assertEquals("key_untrusted", assertThrows(ProtocolException.class, client::session).code());
        }
        service.root = null;
        try (SealwayClient client = client(Trust.root(text(root), store))) {
            assertEquals("key_untrusted", assertThrows(ProtocolException.class, client::session).code());
        }
    }

    @Test
    void aRootsNewKeySetIsAcceptedAndAnOlderOneIsNot() {
        service.root = root;
        service.issuedMs = 5;
        TrustStore store = TrustStore.inMemory();
        try (SealwayClient client = client(Trust.root(text(root), store))) {
            client.session();
            service.identities = List.of(FakeService.identity());
            service.issuedMs = 6;
            client.forget();
            client.session();
        }
        service.issuedMs = 5;
        try (SealwayClient client = client(Trust.root(text(root), store))) {
            assertEquals("key_untrusted", assertThrows(ProtocolException.class, client::session).code());
        }
    }

    @Test
    void anUnwritableStoreEndsNoCallAndIsLogged() {
        service.root = root;
        for (Trust trust : List.of(Trust.root(text(root), unwritable(TrustStore.inMemory())),
                Trust.firstUse(unwritable(TrustStore.inMemory())))) {
            logged.clear();
            try (SealwayClient client = client(trust)) {
                assertEquals("hi", client.send(post()).text());
                client.forget();
                assertEquals("hi", client.send(post()).text());
            }
            assertTrue(logged.stream().anyMatch(record -> record.getLevel().getName().equals("SEVERE")
                    && record.getMessage().contains("could not be kept")), logged.toString());
        }
    }

    private static void assertUntrusted(SealwayClient client) {
        ProtocolException refused = assertThrows(ProtocolException.class, client::session);
        assertEquals("key_untrusted", refused.code());
        assertTrue(refused.getMessage().contains("127.0.0.1") && refused.getMessage().contains("another service or an impostor"), refused.getMessage());
    }

    /** Two clients of one store stand for two processes: each has read it before the other writes. */
    @Test
    void keysThatAnotherProcessStoredFirstAreNotOverwritten(@TempDir Path folder) {
        Identity genuine = service.identity;
        Identity next = FakeService.identity();
        Identity further = FakeService.identity();
        String origin = "http://127.0.0.1:" + service.url().getPort();
        for (TrustStore store : List.of(TrustStore.inMemory(), new FileTrustStore(folder.resolve("known")))) {
            service.identities = List.of(genuine, next);
            try (SealwayClient one = client(Trust.firstUse(store)); SealwayClient other = client(Trust.firstUse(store))) {
                one.session();
                service.identities = List.of(FakeService.identity());
                assertUntrusted(other);
                assertEquals(texts(List.of(genuine, next)), store.load(origin));
                // The genuine service counts, and no key goes that the other process knows.
                service.identities = List.of(genuine, further);
                other.session();
                assertEquals(Set.copyOf(texts(List.of(genuine, next, further))), Set.copyOf(store.load(origin)));
                service.identities = List.of(genuine, FakeService.identity());
                one.forget();
                one.session();
                assertEquals(4, store.load(origin).size());
                // Another pin in place of all that this process knows is not undone by it.
                List<String> replaced = texts(List.of(FakeService.identity()));
                store.save(origin, replaced);
                service.identities = List.of(genuine, FakeService.identity());
                one.forget();
                assertUntrusted(one);
                assertEquals(replaced, store.load(origin));
            }
        }
    }

    @Test
    void aKeyOffTheCurveIsNotKept() {
        byte[] own = Curve.P256.encode((ECPublicKey) Curve.P256.generate(random).getPublic());
        byte[] off = Curve.P256.encode((ECPublicKey) Curve.P256.generate(random).getPublic());
        off[64] ^= 1;
        List<String> ids = List.of(Identity.keyId(own), Identity.keyId(off));
        List<Object> listed = List.of(own, off).stream().<Object>map(key -> Map.of("key_id", Identity.keyId(key), "alg", "ES256", "public_key",
                StrictBase64.encode(key), "not_before_ms", 0, "not_after_ms", 2)).toList();
        KeySet published = KeySet.parse(Json.write(Map.of("issued_ms", 1, "expires_ms", 2, "keys", listed)).getBytes());
        TrustStore store = TrustStore.inMemory();
        Keyring keyring = new Keyring(Trust.firstUse(store), List.of(), "https://a.example:443", deadline -> published);
        keyring.remember(new InitAnswer("S-", "P256", List.of("P256"), own, 1, 1, ids.get(0), ids, "none", null, null), null);
        assertEquals(List.of(StrictBase64.encode(own)), store.load("https://a.example:443"));
    }

    @Test
    void noProcessAcceptsAnOlderKeySetOfARoot(@TempDir Path folder) {
        service.root = root;
        for (TrustStore store : List.of(TrustStore.inMemory(), new FileTrustStore(folder.resolve("roots")))) {
            try (SealwayClient one = client(Trust.root(text(root), store)); SealwayClient other = client(Trust.root(text(root), store))) {
                record Step(SealwayClient client, long issuedMs, boolean isTaken) {
                }
                for (Step step : List.of(new Step(one, 200, true), new Step(other, 100, false), new Step(other, 300, true),
                        new Step(one, 200, false), new Step(one, 250, false), new Step(one, 300, true), new Step(other, 300, true))) {
                    service.issuedMs = step.issuedMs();
                    // A key of its own has the set asked for.
                    service.identities = List.of(FakeService.identity());
                    step.client().forget();
                    if (step.isTaken()) {
                        step.client().session();
                    } else {
                        assertEquals("key_untrusted", assertThrows(ProtocolException.class, step.client()::session).code(), step.toString());
                    }
                }
            }
        }
    }

    @Test
    void concurrentProcessesLoseNoStoredKey(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("known");
        List<Process> others = new ArrayList<>();
        for (String name : List.of("a", "b")) {
            others.add(new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp",
                    System.getProperty("java.class.path"), Keeps.class.getName(), file.toString(), name).inheritIO().start());
        }
        while (!Files.exists(file)) {
            assertTrue(others.stream().allMatch(Process::isAlive) || Files.exists(file));
            Thread.onSpinWait();
        }
        Keeps.main(file.toString(), "c");
        for (Process other : others) {
            assertEquals(0, other.waitFor());
        }
        assertEquals(3 * Keeps.COUNT, Files.readAllLines(file).size());
    }

    /** A process that keeps many origins. */
    static final class Keeps {
        static final int COUNT = 100;

        private Keeps() {
        }

        public static void main(String... args) {
            TrustStore store = new FileTrustStore(Path.of(args[0]));
            for (int at = 0; at < COUNT; at++) {
                store.save(args[1] + at, List.of("x"));
            }
        }
    }

    private static List<String> texts(List<Identity> identities) {
        return identities.stream().map(identity -> StrictBase64.encode(identity.publicKey())).toList();
    }

    @Test
    void aFullKeyringDropsTheOldestKeyThatTheServiceNoLongerPublishes() {
        List<Identity> met = new ArrayList<>(List.of(service.identity));
        while (met.size() < 16) {
            met.add(FakeService.identity());
        }
        TrustStore store = TrustStore.inMemory();
        String origin = "http://127.0.0.1:" + service.url().getPort();
        store.save(origin, texts(met));
        Identity next = FakeService.identity();
        service.identities = List.of(service.identity, met.get(1), next);
        try (SealwayClient client = client(Trust.firstUse(store))) {
            client.session();
        }
        List<String> kept = store.load(origin);
        assertEquals(16, kept.size());
        assertTrue(kept.containsAll(texts(service.identities)));
        assertFalse(kept.contains(StrictBase64.encode(met.get(2).publicKey())));
        assertTrue(kept.contains(StrictBase64.encode(met.get(3).publicKey())));
        // So the service may let its old keys go.
        service.identities = List.of(next);
        try (SealwayClient client = client(Trust.firstUse(store))) {
            client.session();
        }
    }

    @Test
    void anUnavailableKeySetEndsNoAgreementWithAKnownService() {
        TrustStore store = TrustStore.inMemory();
        String origin = "http://127.0.0.1:" + service.url().getPort();
        store.save(origin, List.of(service.pin()));
        Identity next = FakeService.identity();
        service.identities = List.of(service.identity, next);
        service.keysStatus = 503;
        try (SealwayClient client = client(Trust.firstUse(store))) {
            assertEquals("hi", client.send(post()).text());
            assertEquals(List.of(service.pin()), store.load(origin));
            service.keysStatus = 200;
            client.forget();
            client.session();
            assertEquals(2, store.load(origin).size());
        }
        service.keysStatus = 503;
        try (SealwayClient stranger = client(Trust.firstUse(TrustStore.inMemory()))) {
            assertThrows(ProtocolException.class, stranger::session);
        }
    }

    @Test
    void aTokenIsRequestedForEachInitAndBoundToIt() {
        List<String> tokens = new ArrayList<>(List.of("Bearer one", "Bearer two"));
        try (SealwayClient client = SealwayClient.builder(service.url()).suites(Suite.P256).trust(Trust.pins(List.of(service.pin())))
                .authorization(tokens::removeFirst).build()) {
            assertEquals("hi", client.send(post()).text());
            client.forget();
            assertEquals("hi", client.send(post()).text());
        }
        assertEquals(List.of("Bearer one", "Bearer two"), service.authorizations);
        // An attacker in between replaces the token: the service signs for that one.
        service.tokenInstead = "Bearer mallory";
        try (SealwayClient client = SealwayClient.builder(service.url()).suites(Suite.P256).trust(Trust.pins(List.of(service.pin())))
                .authorization(() -> "Bearer one").build()) {
            assertEquals("signature_invalid", assertThrows(ProtocolException.class, client::session).code());
        }
    }

    @Test
    void aProofIsMadeForEachInitAndSentInIt() {
        List<String> hashes = new ArrayList<>();
        try (SealwayClient client = SealwayClient.builder(service.url()).suites(Suite.P256).trust(Trust.pins(List.of(service.pin())))
                .authorization(() -> "DPoP token").proof(init -> {
                    hashes.add(StrictBase64.encode(init.initHash()));
                    return init.withProof("proof-of-" + hashes.size());
                }).build()) {
            assertEquals("hi", client.send(post()).text());
            client.forget();
            assertEquals("hi", client.send(post()).text());
        }
        assertEquals(List.of("proof-of-1", "proof-of-2"), service.proofs);
        assertNotEquals(hashes.get(0), hashes.get(1));
    }
}
