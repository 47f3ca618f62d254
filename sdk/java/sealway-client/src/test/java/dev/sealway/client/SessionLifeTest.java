package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.UsageException;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** When a session begins, is renewed, is healed and ends. */
@Timeout(30)
class SessionLifeTest {
    private FakeService service;

    @BeforeEach
    void start() throws IOException {
        service = new FakeService();
    }

    @AfterEach
    void stop() {
        service.close();
    }

    private SealwayClient.Builder builder() {
        return SealwayClient.builder(service.url()).trust(Trust.pins(List.of(service.pin()))).suites(Suite.P256)
                .totalTimeout(Duration.ofSeconds(10));
    }

    private static SealedRequest post() {
        return new SealedRequest("POST", "/echo", List.of(), "hi".getBytes(), null);
    }

    @Test
    void fetchingTheKeySetCountsAgainstTheDeadlineOfTheCall() {
        service.keysLateMs = 5000;
        try (SealwayClient client = builder().trust(Trust.firstUse(TrustStore.inMemory())).build()) {
            long began = System.nanoTime();
            TransportException late = assertThrows(TransportException.class, () -> client.send(post().withTotalTimeout(Duration.ofMillis(500))));
            assertEquals("timeout", late.code());
            assertTrue(System.nanoTime() - began < 3_000_000_000L);
        }
    }

    @Test
    void concurrentWritersOfATrustFileLoseNothing(@TempDir Path folder) {
        Path file = folder.resolve("known");
        List<CompletableFuture<Void>> writers = IntStream.range(0, 16).mapToObj(at -> CompletableFuture.runAsync(
                () -> new FileTrustStore(file).save("http://" + at, List.of("key" + at)))).toList();
        writers.forEach(CompletableFuture::join);
        for (int at = 0; at < 16; at++) {
            assertEquals(List.of("key" + at), new FileTrustStore(file).load("http://" + at));
        }
    }

    @Test
    void callersAtOnceAgreeOneSession() {
        try (SealwayClient client = builder().build()) {
            List<CompletableFuture<SealedAnswer>> calls = IntStream.range(0, 20).mapToObj(at -> client.sendAsync(post())).toList();
            calls.forEach(call -> assertEquals("hi", call.join().text()));
        }
        assertEquals(1, service.inits.get());
        assertEquals(20, service.served.get());
    }

    @Test
    void aSessionIsRenewedBeforeItEnds() throws InterruptedException {
        service.ttlSec = 3;
        try (SealwayClient client = builder().build()) {
            String first = client.session().id();
            Thread.sleep(2_800);
            assertEquals("hi", client.send(post()).text());
            assertNotEquals(first, client.session().id());
        }
        assertEquals(1, service.inits.get());
        assertEquals(1, service.renewals.get());
    }

    @Test
    void anUnsafeRequestIsServedOnceThoughItsSessionIsLostEarly() {
        for (boolean isSigned : new boolean[] {true, false}) {
            service.isProving = isSigned;
            // Delivered, its answer held until the session is gone, and shown again: the refusal is genuine.
            try (SealwayClient client = builder().build()) {
                for (String method : new String[] {"POST", "PUT", "DELETE", "PATCH"}) {
                    client.session();
                    int served = service.served.get();
                    service.isLostOnceServed = true;
                    SealedRequest buy = new SealedRequest(method, "/buy", List.of(), new byte[1], null);
                    ProblemException told = assertThrows(ProblemException.class, () -> client.send(buy), method);
                    assertEquals("session_expired", told.code());
                    assertFalse(told.retryable());
                    assertTrue(told.getMessage().contains("unknown"), told.getMessage());
                    assertEquals(served + 1, service.served.get(), method);
                    assertEquals("hi", client.send(post()).text());
                }
                service.isLostOnceServed = true;
                assertEquals(200, client.send(SealedRequest.get("/echo")).status());
            }
        }
    }

    @Test
    void onlyASafeMethodIsRetried() {
        try (SealwayClient client = builder().build()) {
            client.send(post());
            service.sessions.clear();
            assertEquals("session_expired", assertThrows(ProblemException.class, () -> client.send(post())).code());
            assertEquals(2, service.calls.get());
            client.send(SealedRequest.get("/echo"));
            service.sessions.clear();
            assertEquals(200, client.send(SealedRequest.get("/echo")).status());
            assertEquals(3, service.inits.get());
            assertEquals(5, service.calls.get());
        }
    }

    @Test
    void aSessionReportedAsExpiredIsDroppedWithOrWithoutProof() {
        service.isProving = false;
        try (SealwayClient client = builder().build()) {
            client.send(post());
            service.sessions.clear();
            assertThrows(ProblemException.class, () -> client.send(post()));
            assertEquals("hi", client.send(post()).text());
            assertEquals(2, service.inits.get());
            service.sessions.clear();
            assertThrows(ProblemException.class, () -> client.stream(post(), new java.io.ByteArrayInputStream(new byte[1])).close());
            assertEquals("hi", client.send(post()).text());
            assertEquals(3, service.inits.get());
        }
    }

    @Test
    void concurrentCallersReplaceAnExpiredSessionOnce() {
        try (SealwayClient client = builder().build()) {
            client.send(post());
            service.sessions.clear();
            List<CompletableFuture<SealedAnswer>> calls = IntStream.range(0, 20).mapToObj(at -> client.sendAsync(SealedRequest.get("/echo")))
                    .toList();
            calls.forEach(call -> assertEquals(200, call.join().status()));
            assertEquals(2, service.inits.get());
        }
    }

    @Test
    void aLateRejectionOfAnOlderSessionDropsNoNewerOne() throws Exception {
        service.isProving = false;
        service.refusalLateMs = 700;
        try (SealwayClient client = builder().build()) {
            client.session();
            service.sessions.clear();
            CompletableFuture<SealedAnswer> late = client.sendAsync(post());
            while (service.calls.get() == 0) {
                Thread.sleep(5);
            }
            client.forget();
            String newer = client.session().id();
            assertEquals("session_expired",
                    ((ProblemException) assertThrows(java.util.concurrent.ExecutionException.class, late::get).getCause()).code());
            assertEquals(newer, client.session().id());
            assertEquals(2, service.inits.get());
        }
    }

    @Test
    void aClockThatIsOffIsCorrectedOnceByTheServersProof() {
        try (SealwayClient client = builder().build()) {
            client.session();
            // Two windows, and more than the call takes.
            service.clockAheadMs = 660_000;
            assertEquals("hi", client.send(post()).text());
            assertEquals(2, service.calls.get());
            assertEquals(1, service.inits.get());
        }
    }

    @Test
    void aStampThatIsTooEarlyIsRetriedOnlyForASafeMethod() {
        try (SealwayClient client = builder().build()) {
            client.session();
            service.clockAheadMs = -600_000;
            assertEquals("clock_skew", assertThrows(ProblemException.class, () -> client.send(post())).code());
            assertEquals(1, service.calls.get());
            // The proven time was taken all the same.
            assertEquals("hi", client.send(post()).text());
            assertEquals(2, service.calls.get());
            service.clockAheadMs = -1_200_000;
            assertEquals(200, client.send(SealedRequest.get("/echo")).status());
            assertEquals(4, service.calls.get());
        }
    }

    @Test
    void aRequestThatMayHaveBeenServedIsRetriedOnlyForASafeMethod() {
        try (SealwayClient client = builder().build()) {
            client.session();
            // Genuine, and too old by 400 ms when it was refused: but 900 ms before that it was not.
            service.refusalLateMs = 900;
            service.skewMs.set(600_400L);
            assertEquals("clock_skew", assertThrows(ProblemException.class, () -> client.send(post())).code());
            assertEquals(1, service.calls.get());
            assertEquals(0, service.served.get());
            service.clockAheadMs = 600_000;
            assertEquals("hi", client.send(post()).text());
            assertEquals(2, service.calls.get());
            service.clockAheadMs = 1_200_000;
            service.skewMs.set(600_400L);
            assertEquals(200, client.send(SealedRequest.get("/echo")).status());
            assertEquals(4, service.calls.get());
            service.skewMs.set(600_400L);
            assertThrows(ProblemException.class, () -> client.stream(post()).close());
            assertEquals(5, service.calls.get());
            service.refusalLateMs = 0;
            service.skewMs.set(660_000L);
            // Proven not served, and its body is gone: the caller may send it again.
            ProblemException unserved = assertThrows(ProblemException.class,
                    () -> client.stream(post(), new java.io.ByteArrayInputStream(new byte[1])).close());
            assertEquals("clock_skew", unserved.code());
            assertTrue(unserved.retryable());
        }
    }

    @Test
    void elapsedTimeIsTheLongerOfBothClocks() {
        Moment sent = new Moment(5_000_000_000L, 1_000_000);
        assertEquals(3, sent.elapsedMs(5_002_000_001L, 999_000));
        // A machine slept: the clock that never jumps stood still.
        assertEquals(600_001, sent.elapsedMs(5_002_000_001L, 1_600_000));
    }

    @Test
    void aMachineThatSleptPastTheEndOfItsSessionAgreesANewOneBeforeItPosts() {
        AtomicLong sleptMs = new AtomicLong();
        try (SealwayClient client = builder().day(() -> Instant.now().plusMillis(sleptMs.get())).build()) {
            assertEquals("hi", client.send(post()).text());
            String before = client.session().id();
            sleptMs.set(3_700_000);
            service.clockAheadMs = 3_700_000;
            service.sessions.clear();
            service.isProving = false;
            assertEquals("hi", client.send(post()).text());
            assertNotEquals(before, client.session().id());
            assertEquals(2, service.calls.get());
            assertEquals(2, service.inits.get());
            assertEquals(0, service.renewals.get());
        }
    }

    @Test
    void theLifeOfASessionCountsFromWhenItsInitWasSent() {
        // The answer takes almost all of the hour that it grants.
        try (SealwayClient client = builder().day(() -> Instant.now().plusMillis(service.inits.get() * 3_550_000L)).build()) {
            client.send(post());
            client.send(post());
            assertEquals(1, service.renewals.get());
        }
    }

    @Test
    void aWallClockThatIsSetBackProlongsNoSession() throws InterruptedException {
        service.ttlSec = 2;
        AtomicLong sleptMs = new AtomicLong();
        try (SealwayClient client = builder().day(() -> Instant.now().plusMillis(sleptMs.get())).build()) {
            client.session();
            sleptMs.set(-3_600_000);
            Thread.sleep(2_050);
            assertEquals("hi", client.send(post()).text());
            assertEquals(2, service.inits.get());
        }
    }

    @Test
    void aHeadRejectedWith401DropsTheSessionAndIsRetriedOnce() {
        try (SealwayClient client = builder().build()) {
            client.send(post());
            service.sessions.clear();
            assertEquals(200, client.send(new SealedRequest("HEAD", "/echo", List.of(), new byte[0], null)).status());
            assertEquals(2, service.inits.get());
            assertEquals(3, service.calls.get());
            service.sessions.clear();
            client.stream(new SealedRequest("HEAD", "/echo", List.of(), new byte[0], null)).close();
            assertEquals(3, service.inits.get());
            assertEquals(5, service.calls.get());
        }
    }

    @Test
    void aHeadRejectedWith401TwiceIsReportedToTheCaller() {
        service.isForgetting = true;
        try (SealwayClient client = builder().build()) {
            SealedRequest head = new SealedRequest("HEAD", "/echo", List.of(), new byte[0], null);
            assertEquals("session_expired", assertThrows(ProblemException.class, () -> client.send(head)).code());
            assertEquals(2, service.calls.get());
        }
    }

    @Test
    void anotherSuiteIsUsedOnceIfTheServiceRequiresIt() {
        service.suites = List.of("SecP256r1MLKEM768");
        try (SealwayClient client = builder().suites(Suite.X25519MLKEM768, Suite.SECP256R1MLKEM768).build()) {
            assertEquals("SecP256r1MLKEM768", client.session().suite());
        }
        assertEquals(2, service.inits.get());
        try (SealwayClient client = builder().suites(Suite.P256).build()) {
            assertEquals("suite_required", assertThrows(ProblemException.class, client::session).code());
        }
    }

    @Test
    void anEndedSessionIsRemovedOnBothSides() {
        try (SealwayClient client = builder().build()) {
            client.send(post());
            client.end();
            assertTrue(service.sessions.isEmpty());
            assertEquals("hi", client.send(post()).text());
            assertEquals(2, service.inits.get());
        }
    }

    @Test
    void keysOfTheFirstUseAreStoredAndAnotherServiceIsNotTrusted(@TempDir Path folder) throws IOException {
        TrustStore store = new FileTrustStore(folder.resolve("known"));
        try (SealwayClient client = builder().trust(Trust.firstUse(store)).build()) {
            client.session();
        }
        String kept = Files.readString(folder.resolve("known"));
        assertTrue(kept.contains(service.pin()), kept);
        try (FakeService other = new FakeService()) {
            Files.writeString(folder.resolve("known"), kept.replace(String.valueOf(service.url().getPort()),
                    String.valueOf(other.url().getPort())));
            try (SealwayClient client = SealwayClient.builder(other.url()).suites(Suite.P256).trust(Trust.firstUse(store)).build()) {
                assertEquals("key_retired", assertThrows(ProblemException.class, client::session).code());
            }
        }
    }

    @Test
    void aMissingOptionIsReportedBeforeAnythingIsSent() {
        assertThrows(UsageException.class, () -> SealwayClient.builder(service.url()).build());
        assertThrows(UsageException.class, () -> builder().clientId("a|b").build());
        assertThrows(UsageException.class, () -> Trust.pins(List.of("not a key")));
        try (SealwayClient compat = builder().wire(Wire.TWO).build()) {
            assertThrows(UsageException.class, () -> compat.stream(post()));
            assertFalse(compat.toString().contains("key"));
        }
        assertEquals(0, service.inits.get());
    }
}
