package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.client.OneShotService.ServiceKey;
import dev.sealway.crypto.Kem;
import dev.sealway.session.nativeprotocol.KeyDocument;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Keys of a service, by pins and by a root: which are used, taken and refused. */
@Timeout(120)
class OneShotTrustTest {
    private static final SealedRequest GET = SealedRequest.get("/list");
    private static final SealedRequest POST = SealedRequest.postJson("/pay", "{}");
    private OneShotService service;

    @BeforeEach
    void start() throws IOException {
        service = new OneShotService();
    }

    @AfterEach
    void stop() {
        service.close();
    }

    private OneShot.Builder with(OneShotTrust trust) {
        return OneShot.to(service.url(), trust);
    }

    private OneShot.Builder rooted() {
        return with(OneShotTrust.root(service.rootText()));
    }

    private String used() {
        return service.requests.getLast().kid();
    }

    @Test
    void theFirstKeyOfTheDocumentThatTheClientHasAndAllowsIsUsed() {
        ServiceKey over = ServiceKey.generate(Kem.X25519, 1);
        ServiceKey hybrid = ServiceKey.generate(Kem.X_WING);
        ServiceKey classic = ServiceKey.generate(Kem.P256);
        service.keys = List.of(ServiceKey.unknown(), over, hybrid, classic);
        try (OneShot client = rooted().build()) {
            client.send(POST);
            assertEquals(hybrid.kid(), used());
        }
        try (OneShot client = rooted().kems(Kem.P256, Kem.X25519).build()) {
            client.send(POST);
            assertEquals(classic.kid(), used());
        }
        try (OneShot client = with(OneShotTrust.pins(classic.kid(), over.kid())).build()) {
            client.send(POST);
            assertEquals(classic.kid(), used());
        }
        // Pinned configurations have no times but those of the client's configuration, and nothing is fetched.
        int before = service.fetches.get();
        try (OneShot client = with(OneShotTrust.pins(ServiceKey.unknown().pin(), over.pin(), classic.pin())).build()) {
            client.send(POST);
            assertEquals(over.kid(), used());
        }
        assertEquals(before, service.fetches.get());
    }

    @Test
    void withoutAKeyInUseTheErrorNamesThoseOfTheDocumentAndNothingIsSent() {
        ServiceKey other = ServiceKey.generate(Kem.X25519);
        for (OneShot.Builder builder : List.of(with(OneShotTrust.pins(other.kid())), rooted().kems(Kem.P256))) {
            try (OneShot client = builder.build()) {
                KeyRetiredException refused = assertThrows(KeyRetiredException.class, () -> client.send(POST));
                assertEquals(Stage.AGREEMENT, refused.stage());
                assertEquals(List.of(service.keys.getFirst().kid()), refused.keys());
                assertTrue(refused.getMessage().contains(service.keys.getFirst().kid()), refused.getMessage());
            }
        }
        assertEquals(0, service.requests.size());
    }

    @Test
    void theDocumentIsFetchedAgainWhenItHasNoKeyInUse() {
        AtomicLong nowMs = new AtomicLong(System.currentTimeMillis());
        service.keys = List.of(ServiceKey.generate(Kem.X25519, nowMs.get() + 60_000));
        try (OneShot client = rooted().day(() -> Instant.ofEpochMilli(nowMs.get())).build()) {
            client.send(POST);
            client.send(POST);
            assertEquals(1, service.fetches.get());
            ServiceKey next = ServiceKey.generate(Kem.X25519);
            service.keys = List.of(service.keys.getFirst(), next);
            service.issuedMs = 2;
            nowMs.addAndGet(59_999);
            client.send(POST);
            assertEquals(1, service.fetches.get());
            nowMs.addAndGet(1);
            client.send(POST);
            assertEquals(2, service.fetches.get());
            assertEquals(next.kid(), used());
        }
    }

    /** Replaces the key behind the back of a client that has the document. */
    private ServiceKey retire(OneShot client) {
        client.send(POST);
        ServiceKey next = ServiceKey.generate(Kem.X25519);
        service.keys = List.of(next);
        service.issuedMs++;
        service.requests.clear();
        service.calls.set(0);
        return next;
    }

    @Test
    void aRetiredKeyIsReplacedByTheRootsDocumentAndOnlySafeMethodsGoAgain() {
        try (OneShot client = rooted().build()) {
            ServiceKey next = retire(client);
            assertEquals(200, client.send(GET).status());
            assertEquals(next.kid(), used());
            assertEquals(2, service.calls.get());
            ServiceKey third = retire(client);
            KeyRetiredException refused = assertThrows(KeyRetiredException.class, () -> client.send(POST));
            assertEquals(List.of(third.kid()), refused.keys());
            assertFalse(refused.retryable() || refused.isSealed());
            assertTrue(refused.getMessage().contains("outcome of the request is unknown"), refused.getMessage());
            assertEquals(1, service.calls.get());
            client.send(POST);
            assertEquals(third.kid(), used());
            retire(client);
            try (SealedStream stream = client.stream(GET)) {
                assertEquals(200, stream.status());
            }
            assertEquals(1, service.fetches.get(), "the documents came with the problems");
        }
    }

    @Test
    void aServiceThatRetiresEveryKeyIsAskedTwiceAtMost() {
        try (OneShot client = rooted().build()) {
            client.send(POST);
            Map<String, Object> stale = service.document();
            service.keys = List.of();
            service.retiredDocument = stale;
            service.calls.set(0);
            assertThrows(KeyRetiredException.class, () -> client.send(GET));
            assertEquals(2, service.calls.get());
        }
    }

    @Test
    void aForgedOrOldDocumentOfAProblemIsRefusedAndNothingGoesAgain() {
        Map<String, Object> old = service.document();
        service.issuedMs = 5;
        for (String fault : List.of("signature_invalid", "key_untrusted", "field_invalid")) {
            try (OneShot client = rooted().build()) {
                client.send(POST);
                Map<String, Object> forged = new LinkedHashMap<>(service.document());
                forged.put("issued_ms", 6L);
                service.retiredDocument = switch (fault) {
                    case "signature_invalid" -> forged;
                    case "key_untrusted" -> old;
                    default -> Map.of();
                };
                List<ServiceKey> genuine = service.keys;
                service.keys = List.of(ServiceKey.generate(Kem.X25519));
                service.calls.set(0);
                KeyRetiredException refused = assertThrows(KeyRetiredException.class, () -> client.send(GET));
                assertEquals(fault, ((SealwayException) refused.getSuppressed()[0]).code());
                assertEquals(1, service.calls.get());
                // What was taken before still counts.
                service.keys = genuine;
                client.send(POST);
            }
        }
    }

    @Test
    void pinnedKeysThatAreRetiredAreAnErrorThatNamesTheCurrentOnes() {
        ServiceKey pinned = service.keys.getFirst();
        for (OneShotTrust trust : List.of(OneShotTrust.pins(pinned.pin()), OneShotTrust.pins(pinned.kid()))) {
            service.keys = List.of(pinned);
            try (OneShot client = with(trust).build()) {
                ServiceKey next = retire(client);
                KeyRetiredException refused = assertThrows(KeyRetiredException.class, () -> client.send(GET));
                assertEquals(List.of(next.kid()), refused.keys());
                assertEquals(Stage.CALL, refused.stage());
                assertTrue(refused.getMessage().contains(next.kid()) && refused.getMessage().contains("(option `trust`)"), refused.getMessage());
                assertEquals(1, service.calls.get());
            }
        }
        // The key of another pinned kid is found by the next call.
        ServiceKey next = ServiceKey.generate(Kem.P256);
        service.keys = List.of(pinned);
        // Nothing proves the time of issue: a forged one shuts no later document out.
        service.issuedMs = OneShotService.NEVER_MS;
        try (OneShot client = with(OneShotTrust.pins(pinned.kid(), next.kid())).build()) {
            client.send(POST);
            service.keys = List.of(next);
            service.issuedMs = 1;
            assertThrows(KeyRetiredException.class, () -> client.send(POST));
            client.send(POST);
            assertEquals(next.kid(), used());
        }
    }

    private void assertRefused(OneShot client, String code) {
        ProtocolException refused = assertThrows(ProtocolException.class, () -> client.send(GET));
        assertEquals(code, refused.code());
        assertEquals(Stage.AGREEMENT, refused.stage());
        assertEquals(service.url().getAuthority(), refused.host());
        assertEquals(0, service.requests.size());
    }

    @Test
    void aDocumentThatIsUnsignedForgedOverOrOldIsRefused(@TempDir Path folder) throws IOException {
        try (OneShotService other = new OneShotService(); OneShot client = with(OneShotTrust.root(other.rootText())).build()) {
            assertRefused(client, "key_untrusted");
        }
        service.isRootHidden = true;
        try (OneShot client = rooted().build()) {
            assertRefused(client, "key_untrusted");
        }
        service.isRootHidden = false;
        service.expiresMs = 1;
        try (OneShot client = rooted().build()) {
            assertRefused(client, "key_untrusted");
        }
        service.expiresMs = OneShotService.NEVER_MS;
        TrustStore store = new FileTrustStore(folder.resolve("roots"));
        service.issuedMs = 200;
        try (OneShot client = with(OneShotTrust.root(service.rootText(), store)).build()) {
            client.send(GET);
        }
        service.requests.clear();
        service.issuedMs = 100;
        try (OneShot client = with(OneShotTrust.root(service.rootText(), store)).build()) {
            assertRefused(client, "key_untrusted");
        }
        service.issuedMs = 200;
        try (OneShot client = with(OneShotTrust.root(service.rootText(), store)).build()) {
            client.send(GET);
        }
    }

    /** The service's document as a client reads it. */
    private Object received() {
        return Json.parse(Json.write(service.document()).getBytes());
    }

    @Test
    void ofTwoDocumentsAtATimeTheLaterOneStays() {
        Object older = received();
        ServiceKey next = ServiceKey.generate(Kem.P256);
        service.keys = List.of(next);
        service.issuedMs = 2;
        Object newer = received();
        AtomicReference<OneShotKeyring> keyring = new AtomicReference<>();
        CallSettings settings = new CallSettings(service.url(), Duration.ZERO, Duration.ZERO, metrics -> { }, new SecureRandom(), InstantSource.system());
        keyring.set(new OneShotKeyring(OneShotTrust.root(service.rootText()), List.of(), Set.of(Kem.values()), settings, deadline -> {
            // A problem brings the newer document while the older one is on its way.
            assertTrue(keyring.get().retired(newer, ProblemException.of(Stage.CALL, "a.example:443", 409, new byte[0])));
            return KeyDocument.of(older);
        }));
        assertEquals(next.kid(), keyring.get().key(Transport.Deadline.in(Duration.ofMinutes(1))).kid());
    }

    private static void assertNames(String option, Executable made) {
        UsageException wrong = assertThrows(UsageException.class, made, option);
        assertTrue(wrong.getMessage().contains(option), option + ": " + wrong.getMessage());
        assertFalse(wrong.getMessage().contains("hunter2"), wrong.getMessage());
    }

    @Test
    void anOptionIsNamed() {
        String pin = service.keys.getFirst().pin();
        URI url = service.url();
        assertNames("url is missing", () -> OneShot.to(null, OneShotTrust.pins(pin)));
        assertNames("trust is missing", () -> OneShot.to(url, null));
        assertNames("pins is missing", () -> OneShotTrust.pins((String[]) null));
        assertNames("pins has 0", () -> OneShotTrust.pins());
        assertNames("pins has 17", () -> OneShotTrust.pins(new ArrayList<>(java.util.Collections.nCopies(17, pin))));
        assertNames("one of pins is missing", () -> OneShotTrust.pins(Arrays.asList(pin, null)));
        assertNames("one of pins is not", () -> OneShotTrust.pins("hunter2"));
        assertNames("one of pins is no valid key configuration (field_invalid)", () -> OneShotTrust.pins("AAAA"));
        byte[] off = ServiceKey.generate(Kem.P256).config();
        off[20] ^= 1;
        assertNames("one of pins is no valid key configuration (public_key_invalid)",
                () -> OneShotTrust.pins(dev.sealway.wire.StrictBase64.encode(off)));
        assertNames("both key configurations and kids", () -> OneShotTrust.pins(pin, service.keys.getFirst().kid()));
        assertNames("root is missing", () -> OneShotTrust.root(null));
        assertNames("pins has no key of a KEM", () -> with(OneShotTrust.pins(ServiceKey.unknown().pin())).build());
        assertNames("pins has no key of a KEM", () -> with(OneShotTrust.pins(pin)).kems(Kem.P256).build());
        assertNames("kems is empty", () -> rooted().kems());
        assertNames("one of kems is missing", () -> rooted().kems((Kem) null));
        assertNames("id of psk is missing", () -> rooted().psk(null, new byte[32]));
        for (String wrong : List.of("", "a b", "é", "x".repeat(65))) {
            assertNames("id of psk is not", () -> rooted().psk(wrong, new byte[32]));
        }
        assertNames("key of psk is missing", () -> rooted().psk("a", null));
        assertNames("key of psk has 7 bytes", () -> rooted().psk("a", "hunter2".getBytes()));
        assertNames("headTimeout is", () -> rooted().headTimeout(null));
        assertNames("request is missing", () -> {
            try (OneShot client = rooted().build()) {
                client.send(null);
            }
        });
    }
}
