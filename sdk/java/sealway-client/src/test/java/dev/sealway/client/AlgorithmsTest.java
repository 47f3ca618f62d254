package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.SignatureAlgorithm;
import dev.sealway.crypto.SigningKey;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.UsageException;
import java.io.IOException;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Identity keys and roots of every algorithm over a socket, and attempts to lead a client to another one. */
@Timeout(60)
class AlgorithmsTest {
    private final SecureRandom random = new SecureRandom();
    private FakeService service;

    @BeforeEach
    void start() throws IOException {
        service = new FakeService();
    }

    @AfterEach
    void stop() {
        service.close();
    }

    private SigningKey key(SignatureAlgorithm algorithm, int fill) {
        int length = switch (algorithm) {
            case ES256, ML_DSA_65, ML_DSA_87 -> 32;
            case ES384 -> 48;
            case ES256_ML_DSA_65 -> 64;
            case ES384_ML_DSA_87 -> 80;
        };
        byte[] secret = new byte[length];
        Arrays.fill(secret, (byte) fill);
        return algorithm.key(secret, random);
    }

    private static String text(SigningKey key) {
        return StrictBase64.encode(key.publicKey());
    }

    /** Gives the service a key that is the latest, and one that was there before. */
    private void serve(SigningKey latest, SigningKey older) {
        service.identities = List.of(Identity.of(latest, 1, Long.MAX_VALUE), Identity.of(older, 0, Long.MAX_VALUE));
    }

    private SealwayClient.Builder client(Trust trust, SignatureAlgorithm... accepted) {
        SealwayClient.Builder builder = SealwayClient.builder(service.url()).trust(trust);
        return accepted.length == 0 ? builder : builder.signatureAlgorithms(accepted);
    }

    private static void assertWorks(SealwayClient.Builder builder) {
        try (SealwayClient client = builder.build()) {
            assertArrayEquals("hello".getBytes(), client.send(SealedRequest.postJson("/", "hello")).body());
        }
    }

    private static void assertFails(String code, SealwayClient.Builder builder) {
        try (SealwayClient client = builder.build()) {
            SealwayException failed = assertThrows(SealwayException.class, () -> client.send(SealedRequest.postJson("/", "hello")));
            assertEquals(code, failed.code(), failed.getMessage());
        }
    }

    @ParameterizedTest
    @EnumSource
    void anAlgorithmSignsSessionsForPinsRootsAndFirstUse(SignatureAlgorithm algorithm, @TempDir Path folder) {
        SigningKey latest = key(algorithm, 7);
        SigningKey older = key(SignatureAlgorithm.ES256, 8);
        serve(latest, older);
        service.root = key(algorithm, 9);
        FileTrustStore store = new FileTrustStore(folder.resolve("known"));
        assertWorks(client(Trust.pins(Identity.keyId(latest.publicKey()))));
        assertWorks(client(Trust.pins(text(latest))));
        assertWorks(client(Trust.pins(text(latest)), algorithm));
        assertWorks(client(Trust.root(text(service.root)), algorithm));
        assertWorks(client(Trust.firstUse(store), algorithm));
        // What the first use kept leaves out the key of another algorithm, and is read again, also without the restriction.
        assertEquals(algorithm == SignatureAlgorithm.ES256 ? 2 : 1, store.load(Settings.origin(service.url())).size());
        assertWorks(client(Trust.firstUse(store)));
        // Without pins and without a restriction the service takes its key of ES256, and signs with no other.
        assertWorks(client(Trust.root(text(service.root))));
        service.identities = List.of(Identity.of(latest, 1, Long.MAX_VALUE));
        if (algorithm != SignatureAlgorithm.ES256) {
            assertFails("key_retired", client(Trust.firstUse(TrustStore.inMemory())));
        }
    }

    private static InitRequest without(InitRequest request) {
        return with(request, List.of());
    }

    private static InitRequest with(InitRequest request, List<String> algorithms) {
        return new InitRequest(request.suite(), request.suites(), request.share(), request.clientId(), request.ttlSec(), request.proof(),
                request.pinnedKeyIds(), algorithms);
    }

    @ParameterizedTest
    @EnumSource
    void aRootOfAnAlgorithmSignsKeyDocuments(SignatureAlgorithm algorithm) throws IOException {
        try (OneShotService once = new OneShotService()) {
            once.root = key(algorithm, 9);
            OneShotTrust trust = OneShotTrust.root(once.rootText());
            for (OneShot.Builder builder : List.of(OneShot.to(once.url(), trust), OneShot.to(once.url(), trust).signatureAlgorithms(algorithm))) {
                try (OneShot client = builder.build()) {
                    assertEquals(200, client.send(SealedRequest.postJson("/", "hello")).status());
                }
            }
            SignatureAlgorithm other = algorithm == SignatureAlgorithm.ES384 ? SignatureAlgorithm.ES256 : SignatureAlgorithm.ES384;
            UsageException wrong = assertThrows(UsageException.class, () -> OneShot.to(once.url(), trust).signatureAlgorithms(other).build());
            assertTrue(wrong.getMessage().contains("is of " + algorithm.text() + ", and signatureAlgorithms is"), wrong.getMessage());
        }
    }

    @Test
    void theSuitesWithMlKem1024AreOfferedOnlyWhereTheyAreNamed() {
        assertFalse(Suite.DEFAULT.contains(Suite.SECP384R1MLKEM1024) || Suite.DEFAULT.contains(Suite.MLKEM1024));
        List<String> before = service.suites;
        for (Suite suite : List.of(Suite.SECP384R1MLKEM1024, Suite.MLKEM1024)) {
            service.suites = before;
            assertFails("suite_required", client(Trust.pins(service.pin())).suites(suite));
            service.suites = List.of(suite.text(), "P256");
            assertWorks(client(Trust.pins(service.pin())).suites(suite));
        }
    }

    @Test
    void nobodyInBetweenChangesTheAlgorithms() {
        SigningKey weak = key(SignatureAlgorithm.ES256, 8);
        SigningKey strong = key(SignatureAlgorithm.ES384_ML_DSA_87, 7);
        // The weak key is the latest, so that a server without the client's list signs with it.
        serve(weak, strong);
        service.root = key(SignatureAlgorithm.ES384_ML_DSA_87, 9);
        String name = SignatureAlgorithm.ES384_ML_DSA_87.text();
        Map<UnaryOperator<InitRequest>, String> changes = Map.of(
                AlgorithmsTest::without, "key_untrusted",
                request -> with(request, List.of("ES256")), "key_untrusted",
                request -> with(request, List.of("ES256", name)), "key_untrusted",
                request -> with(request, List.of(name, "XMSS")), "signature_invalid");
        changes.forEach((change, code) -> {
            service.onTheWay = change;
            assertFails(code, client(Trust.root(text(service.root)), SignatureAlgorithm.ES384_ML_DSA_87));
            assertFails(code, client(Trust.firstUse(TrustStore.inMemory()), SignatureAlgorithm.ES384_ML_DSA_87));
        });
        // A client without a restriction notices one that it did not send.
        service.onTheWay = request -> with(request, List.of("ES256"));
        assertFails("signature_invalid", client(Trust.pins(text(weak))));
        service.onTheWay = UnaryOperator.identity();
        assertWorks(client(Trust.root(text(service.root)), SignatureAlgorithm.ES384_ML_DSA_87));
    }

    @Test
    void aPartOfACompositeKeyIsNoKeyOfItsOwn() {
        SigningKey whole = key(SignatureAlgorithm.ES256_ML_DSA_65, 7);
        for (SignatureAlgorithm part : List.of(SignatureAlgorithm.ES256, SignatureAlgorithm.ML_DSA_65)) {
            service.identities = List.of(Identity.of(key(part, 7), 0, Long.MAX_VALUE));
            assertFails("key_retired", client(Trust.pins(text(whole))));
            // A thief of one part that answers in the name of the whole key.
            SigningKey thief = key(part, 7);
            service.identities = List.of(new Identity(whole.publicKey(), 0, Long.MAX_VALUE, thief::sign));
            assertFails("signature_invalid", client(Trust.pins(text(whole))));
        }
    }

    @Test
    void anAlgorithmThatTheClientWouldNeverAcceptIsAnErrorOfItsOptions(@TempDir Path folder) {
        String es256 = text(key(SignatureAlgorithm.ES256, 7));
        TrustStore store = new FileTrustStore(folder.resolve("known"));
        store.update(Settings.origin(service.url()), lines -> List.of(es256));
        Map<SealwayClient.Builder, String> wrong = Map.of(
                client(Trust.pins(es256), SignatureAlgorithm.ES384), "is of ES256, and signatureAlgorithms is [ES384]",
                client(Trust.root(es256), SignatureAlgorithm.ML_DSA_65), "is of ES256, and signatureAlgorithms is [ML-DSA-65]",
                client(Trust.firstUse(store), SignatureAlgorithm.ES384), "the trust store has no key of");
        wrong.forEach((builder, message) -> {
            UsageException failed = assertThrows(UsageException.class, builder::build);
            assertTrue(failed.getMessage().contains(message), failed.getMessage());
        });
        SealwayClient.Builder builder = client(Trust.pins(es256));
        for (SignatureAlgorithm[] list : List.of(new SignatureAlgorithm[0], new SignatureAlgorithm[] {SignatureAlgorithm.ES256, SignatureAlgorithm.ES256})) {
            assertThrows(UsageException.class, () -> builder.signatureAlgorithms(list));
        }
        assertThrows(UsageException.class, () -> builder.signatureAlgorithms((SignatureAlgorithm) null));
    }

    @Test
    void theAlgorithmsAreInTheProofsHashAndAbsentOnesChangeNoByte() {
        InitRequest plain = new InitRequest("P256", List.of("P256"), new byte[65], "a", null, null, List.of(), List.of());
        assertFalse(new String(plain.write()).contains("signature_algorithms"));
        InitRequest restricted = with(plain, List.of("ES384", "ES256"));
        assertTrue(new String(restricted.write()).contains("\"signature_algorithms\":[\"ES384\",\"ES256\"]"));
        assertEquals(restricted.signatureAlgorithms(), InitRequest.read(restricted.withProof("x").write()).signatureAlgorithms());
        assertEquals(3, List.of(plain, restricted, with(plain, List.of("ES256", "ES384"))).stream().map(each -> StrictBase64.encode(each.initHash())).distinct().count());
        for (List<String> names : List.of(List.of("a b"), List.of("x".repeat(33)), List.of("ES256", "ES256"), List.of("1", "2", "3", "4", "5", "6", "7", "8", "9"))) {
            assertEquals("signature_algorithms", assertThrows(ProtocolException.class, () -> InitRequest.read(with(plain, names).write())).field());
        }
    }
}
