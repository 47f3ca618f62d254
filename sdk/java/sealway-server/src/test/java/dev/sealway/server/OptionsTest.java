package dev.sealway.server;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.server.RouteTable.Mode;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.wire.UsageException;
import java.net.URI;
import java.time.Duration;
import java.util.Arrays;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** An option that is missing or out of bounds is told by its name. */
class OptionsTest {
    private static final SessionStore STORE = new MemoryStore(1, () -> 0);
    private static final String SECRET = "hunter2-0123456789";

    private static void assertNames(String option, Executable made) {
        String message = assertThrows(UsageException.class, made, option).getMessage();
        assertTrue(message.contains(option), option + ": " + message);
        assertFalse(message.contains("hunter2"), message);
    }

    @Test
    void ofAGate() {
        assertNames("store is missing", () -> new SealGate(null, new RouteTable()));
        assertNames("routes is missing", () -> new SealGate(STORE, null));
        assertNames("anonymousPaths is missing", () -> new SealGate(STORE, new RouteTable(), null, ReplayPolicy.DEFAULT, 1, () -> 0));
        assertNames("policy is missing", () -> new SealGate(STORE, new RouteTable(), Set.of(), null, 1, () -> 0));
        assertNames("bodyMax is 0", () -> new SealGate(STORE, new RouteTable(), Set.of(), ReplayPolicy.DEFAULT, 0, () -> 0));
        assertNames("clockMs is missing", () -> new SealGate(STORE, new RouteTable(), Set.of(), ReplayPolicy.DEFAULT, 1, null));
        SealGate gate = new SealGate(STORE, new RouteTable());
        for (Duration wrong : Arrays.asList(null, Duration.ZERO, Duration.ofSeconds(-1))) {
            assertNames("bodyTime is", () -> gate.bodyTime(wrong));
        }
        assertNames("bufferedBytes is 1048575", () -> gate.bufferedBytes((1 << 20) - 1));
    }

    @Test
    void ofRoutes() {
        assertNames("otherwise is missing", () -> new RouteTable(null));
        assertNames("path is missing", () -> new RouteTable().path(null, Mode.OFF));
        assertNames("prefix \"x\"", () -> new RouteTable().prefix("x", Mode.OFF));
        assertNames("mode is missing", () -> new RouteTable().path("/x", null));
    }

    @Test
    void ofStores() {
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
