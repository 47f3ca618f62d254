package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.P256;
import dev.sealway.session.three.Identity;
import dev.sealway.session.three.Suite;
import dev.sealway.wire.RefusedException;
import dev.sealway.wire.StrictBase64;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Whom a client trusts, and who it says it is, over a socket. */
@Timeout(30)
class TrustTest {
    private final SecureRandom random = new SecureRandom();
    private final KeyPair root = P256.generate(random);
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

    private static String text(KeyPair pair) {
        return StrictBase64.encode(P256.encode((ECPublicKey) pair.getPublic()));
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
    void aRootVouchesForKeysAndNobodyElseDoes() {
        service.root = root;
        TrustStore store = TrustStore.inMemory();
        try (SealwayClient client = client(Trust.root(text(root), store))) {
            assertEquals("hi", client.send(post()).text());
        }
        service.root = P256.generate(random);
        try (SealwayClient client = client(Trust.root(text(root), store))) {
            assertEquals("key_untrusted", assertThrows(RefusedException.class, client::session).code());
        }
        service.root = null;
        try (SealwayClient client = client(Trust.root(text(root), store))) {
            assertEquals("key_untrusted", assertThrows(RefusedException.class, client::session).code());
        }
    }

    @Test
    void aRootsNewKeyIsTakenAndAnOlderSetIsNot() {
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
            assertEquals("key_untrusted", assertThrows(RefusedException.class, client::session).code());
        }
    }

    @Test
    void aStoreThatCannotBeWrittenToEndsNoCallAndIsToldOf() {
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

    private static List<String> texts(List<Identity> identities) {
        return identities.stream().map(identity -> StrictBase64.encode(identity.publicKey())).toList();
    }

    @Test
    void aKeyringThatIsFullLetsTheOldestKeyGoThatTheServiceHasNoMore() {
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
    void furtherKeysThatAreNotToBeHadEndNoAgreement() {
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
            assertThrows(RefusedException.class, stranger::session);
        }
    }

    @Test
    void aTokenIsAskedForAtEachInitAndBoundToIt() {
        List<String> tokens = new ArrayList<>(List.of("Bearer one", "Bearer two"));
        try (SealwayClient client = SealwayClient.builder(service.url()).suites(Suite.P256).trust(Trust.pins(List.of(service.pin())))
                .authorization(tokens::removeFirst).build()) {
            assertEquals("hi", client.send(post()).text());
            client.forget();
            assertEquals("hi", client.send(post()).text());
        }
        assertEquals(List.of("Bearer one", "Bearer two"), service.authorizations);
        // Somebody in between puts a token of theirs in its place: the service signs for that one.
        service.tokenInstead = "Bearer mallory";
        try (SealwayClient client = SealwayClient.builder(service.url()).suites(Suite.P256).trust(Trust.pins(List.of(service.pin())))
                .authorization(() -> "Bearer one").build()) {
            assertEquals("signature_invalid", assertThrows(RefusedException.class, client::session).code());
        }
    }

    @Test
    void aProofIsMadeOfEachInitAndSentWithinIt() {
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
