package dev.sealway.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.exchange.Refusal;
import dev.sealway.exchange.Rejection;
import dev.sealway.server.RouteTable.Mode;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.UsageException;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** An error names the option that is missing or out of bounds. */
class OptionsTest {
    private static final SessionStore STORE = new MemoryStore(1, () -> 0);
    private static final String SECRET = "hunter2-0123456789";

    private static void assertNames(String option, Executable made) {
        String message = assertThrows(UsageException.class, made, option).getMessage();
        assertTrue(message.contains(option), option + ": " + message);
        assertFalse(message.contains("hunter2"), message);
    }

    @Test
    void anOptionOfAGateIsNamed() {
        assertNames("store is missing", () -> SealGate.builder(null, new RouteTable()));
        assertNames("routes is missing", () -> SealGate.builder(STORE, null));
        SealGate.Builder gate = SealGate.builder(STORE, new RouteTable());
        assertNames("anonymousPaths is missing", () -> gate.anonymousPaths(null));
        assertNames("window is", () -> gate.window(Duration.ofDays(2)));
        assertNames("bodyMaxBytes is 0", () -> gate.bodyMaxBytes(0));
        assertNames("clockMs is missing", () -> gate.clockMs(null));
        assertNames("onRefusal is missing", () -> gate.onRefusal(null));
        for (Duration wrong : Arrays.asList(null, Duration.ZERO, Duration.ofSeconds(-1))) {
            assertNames("bodyTimeout is", () -> gate.bodyTimeout(wrong));
            assertNames("window is", () -> gate.window(wrong));
        }
        assertNames("bufferedMaxBytes is 1048575", () -> gate.bufferedMaxBytes((1 << 20) - 1));
    }

    private static String rejectionOf(SealGate gate, long stampMs) {
        HeaderList headers = HeaderList.of("X-Kid", "session:S-" + "0".repeat(32), "X-Idempotency-Key", stampMs + ".nonce", "X-ClientId", "c");
        return assertThrows(Rejection.class, () -> gate.begin("POST", "/x", headers, null, 0)).code();
    }

    @Test
    void theWindowBoundsTheAgeOfARequest() {
        long nowMs = 1_000_000;
        SealGate.Builder gate = SealGate.builder(STORE, new RouteTable()).clockMs(() -> nowMs);
        assertEquals("session_unknown", rejectionOf(gate.build(), nowMs - 20_000));
        gate.window(Duration.ofSeconds(10));
        assertEquals("session_unknown", rejectionOf(gate.build(), nowMs - 10_000));
        assertEquals("timestamp_outside_window", rejectionOf(gate.build(), nowMs - 10_001));
    }

    @Test
    void eachRejectionIsReported() {
        List<String> codes = new ArrayList<>();
        SealGate gate = SealGate.builder(STORE, new RouteTable()).onRefusal(rejection -> codes.add(rejection.code())).build();
        gate.disguised();
        gate.answer(new Rejection(Refusal.METHOD), HeaderList.of());
        assertEquals(List.of("disguised_path", "method"), codes);
    }

    @Test
    void anOptionOfRoutesIsNamed() {
        assertNames("otherwise is missing", () -> new RouteTable(null));
        assertNames("path is missing", () -> new RouteTable().path(null, Mode.OFF));
        assertNames("prefix \"x\"", () -> new RouteTable().prefix("x", Mode.OFF));
        assertNames("mode is missing", () -> new RouteTable().path("/x", null));
    }

    @Test
    void anOptionOfAStoreIsNamed() {
        assertNames("max is 0", () -> new MemoryStore(0, () -> 0));
        assertNames("clockMs is missing", () -> new MemoryStore(1, null));
        URI url = URI.create("https://a.example");
        assertNames("url is missing", () -> new AuthorityStore(null, SECRET, Duration.ofSeconds(1)));
        assertNames("url is not", () -> new AuthorityStore(URI.create("http://a.example"), SECRET, Duration.ofSeconds(1)));
        assertNames("secret is missing", () -> new AuthorityStore(url, null, Duration.ofSeconds(1)));
        assertNames("secret is not", () -> new AuthorityStore(url, "hunter2", Duration.ofSeconds(1)));
        assertNames("timeout is", () -> new AuthorityStore(url, SECRET, Duration.ZERO));
        assertNames("file is missing", () -> AuthorityStore.withSecretFile(url, null, Duration.ofSeconds(1)));
    }
}
