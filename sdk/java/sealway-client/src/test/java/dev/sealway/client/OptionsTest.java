package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Wire;
import java.net.URI;
import java.net.http.HttpClient;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** An option that is missing or out of bounds is told by its name. */
class OptionsTest {
    private static final URI URL = URI.create("https://a.example");

    private static SealwayClient.Builder builder() {
        return SealwayClient.builder(URL);
    }

    private static void assertNames(String option, Executable made) {
        String message = assertThrows(IllegalArgumentException.class, made, option).getMessage();
        assertTrue(message.contains(option), option + ": " + message);
        assertFalse(message.contains("hunter2"), message);
    }

    @Test
    void ofAClient() {
        assertNames("url is missing", () -> SealwayClient.builder(null));
        for (String wrong : List.of("//a.example", "a.example", "ftp://a.example", "https://user:hunter2@a.example", "https://a.example?key=hunter2",
                "https:///x", "https://a.example#hunter2")) {
            assertNames("url is not http", () -> SealwayClient.builder(URI.create(wrong)));
        }
        assertNames("serverUrl is missing", () -> builder().serverUrl(null));
        assertNames("wire is missing", () -> builder().wire(null));
        assertNames("initPath is missing", () -> builder().initPath(null));
        assertNames("initPath does not", () -> builder().initPath("x"));
        assertNames("suites is missing", () -> builder().suites((Suite[]) null));
        assertNames("one of suites", () -> builder().suites((Suite) null));
        assertNames("suites is empty", () -> builder().suites());
        assertNames("clientId is missing", () -> builder().clientId(null));
        assertNames("clientId is not", () -> builder().clientId("a|b"));
        assertNames("trust is missing", () -> builder().trust(null));
        assertNames("trust is missing", () -> builder().build());
        assertNames("authorization is missing", () -> builder().authorization(null));
        assertNames("httpClient is missing", () -> builder().httpClient(null));
        try (HttpClient following = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.ALWAYS).build()) {
            assertNames("httpClient follows", () -> builder().httpClient(following));
        }
        assertNames("answerMax", () -> builder().answerMax(0));
        assertNames("streamMax", () -> builder().streamMax(-1));
        assertNames("ttl is missing", () -> builder().ttl(null));
        assertNames("ttl in seconds", () -> builder().ttl(Duration.ofMillis(10)));
        for (Duration wrong : Arrays.asList(null, Duration.ZERO, Duration.ofSeconds(-1), Duration.ofSeconds(Long.MAX_VALUE))) {
            assertNames("timeout is", () -> builder().timeout(wrong));
            assertNames("idleTimeout is", () -> builder().idleTimeout(wrong));
        }
        builder().wire(Wire.TWO).build().close();
    }

    @Test
    void ofTrust() {
        assertNames("pins is missing", () -> Trust.pins(null));
        assertNames("pins has 0", () -> Trust.pins(List.of()));
        assertNames("one of pins is missing", () -> Trust.pins(Arrays.asList((String) null)));
        assertNames("one of pins is not", () -> Trust.pins(List.of("x")));
        assertNames("one of pins is no point", () -> Trust.pins(List.of("B" + "A".repeat(86) + "=")));
        assertNames("root is missing", () -> Trust.root(null, TrustStore.inMemory()));
        assertNames("store is missing", () -> Trust.firstUse(null));
        assertNames("file is missing", () -> TrustStore.inFile(null));
    }

    @Test
    void ofARequest() {
        assertNames("method is missing", () -> new SealedRequest(null, "/", List.of(), new byte[0], null));
        assertNames("target is missing", () -> SealedRequest.get(null));
        assertNames("target does not", () -> SealedRequest.get("x"));
        assertNames("headers is missing", () -> new SealedRequest("GET", "/", null, new byte[0], null));
        assertNames("one of headers", () -> new SealedRequest("GET", "/", Arrays.asList((dev.sealway.wire.Header) null), new byte[0], null));
        assertNames("body is missing", () -> new SealedRequest("GET", "/", List.of(), null, null));
        assertNames("json is missing", () -> SealedRequest.postJson("/", null));
        assertNames("timeout is", () -> SealedRequest.get("/").withTimeout(Duration.ofSeconds(-1)));
        try (SealwayClient client = builder().wire(Wire.TWO).build()) {
            assertNames("request is missing", () -> client.send(null));
            assertNames("wire is 1 or 2", () -> client.stream(SealedRequest.get("/")));
        }
    }
}
