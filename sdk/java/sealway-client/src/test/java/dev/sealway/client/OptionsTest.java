package dev.sealway.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Stage;
import dev.sealway.wire.UsageException;
import dev.sealway.wire.Wire;
import java.net.URI;
import java.net.http.HttpClient;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** An error names the option that is missing or out of bounds. */
class OptionsTest {
    private static final URI URL = URI.create("https://a.example");

    private static SealwayClient.Builder builder() {
        return SealwayClient.builder(URL);
    }

    private static void assertNames(String option, Executable made) {
        UsageException wrong = assertThrows(UsageException.class, made, option);
        assertEquals(Stage.CONFIGURATION, wrong.stage());
        assertFalse(wrong.retryable());
        String message = wrong.getMessage();
        assertTrue(message.contains(option), option + ": " + message);
        assertFalse(message.contains("hunter2"), message);
    }

    @Test
    void anOptionOfAClientIsNamed() {
        assertNames("url is missing", () -> SealwayClient.builder(null));
        for (String wrong : List.of("//a.example", "a.example", "ftp://a.example", "https://user:hunter2@a.example", "https://a.example?key=hunter2",
                "https:///x", "https://a.example#hunter2")) {
            assertNames("url is not http", () -> SealwayClient.builder(URI.create(wrong)));
        }
        assertNames("authorityUrl is missing", () -> builder().authorityUrl(null));
        assertNames("authorityUrl is not http", () -> builder().authorityUrl(URI.create("ftp://a.example")));
        assertNames("wire is missing", () -> builder().wire(null));
        assertNames("initPath is missing", () -> builder().initPath(null));
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
        assertNames("connectTimeout has no effect on an httpClient", () -> builder().trust(Trust.pins("0".repeat(32)))
                .connectTimeout(Duration.ofSeconds(1)).httpClient(HttpClient.newHttpClient()).build());
        assertNames("answerMaxBytes", () -> builder().answerMaxBytes(0));
        assertNames("onMetrics is missing", () -> builder().onMetrics(null));
        assertNames("proof is missing", () -> builder().proof(null));
        assertNames("ttl is missing", () -> builder().ttl(null));
        assertNames("ttl in seconds", () -> builder().ttl(Duration.ofMillis(10)));
        for (Duration wrong : Arrays.asList(null, Duration.ofSeconds(-1), Duration.ofSeconds(Long.MAX_VALUE))) {
            assertNames("connectTimeout is", () -> builder().connectTimeout(wrong));
            assertNames("headTimeout is", () -> builder().headTimeout(wrong));
            assertNames("totalTimeout is", () -> builder().totalTimeout(wrong));
            assertNames("idleTimeout is", () -> builder().idleTimeout(wrong));
        }
        assertNames("headTimeout is", () -> builder().headTimeout(Duration.ZERO));
        builder().wire(Wire.TWO).build().close();
    }

    @Test
    void anInitPathOfNoneOrAnotherWireIsNamedWithTheAllowedOnes() {
        String allowed = "give /session/init, /session/init/anon (wire 1) or /v1/session/init (wire 2)";
        Map.of("/x", Wire.ONE, "/v1/session/init", Wire.ONE, "/session/init/", Wire.TWO, "/session/init/anon", Wire.TWO,
                "/v3/sessions", Wire.NATIVE).forEach((path, wire) -> assertNames("initPath is " + path + ": " + allowed,
                        () -> builder().trust(Trust.pins("0".repeat(32))).wire(wire).initPath(path).build()));
        builder().initPath("/session/init/anon").wire(Wire.ONE).build().close();
        builder().initPath("/v1/session/init").wire(Wire.TWO).build().close();
    }

    @Test
    void anOptionOfTrustIsNamed() {
        assertNames("pins is missing", () -> Trust.pins((List<String>) null));
        assertNames("pins has 0", () -> Trust.pins(List.of()));
        assertNames("one of pins is missing", () -> Trust.pins(Arrays.asList((String) null)));
        assertNames("one of pins is not", () -> Trust.pins(List.of("x")));
        assertNames("one of pins is no point", () -> Trust.pins(List.of("B" + "A".repeat(86) + "=")));
        assertNames("root is missing", () -> Trust.root(null, TrustStore.inMemory()));
        assertNames("store is missing", () -> Trust.firstUse(null));
        assertNames("file is missing", () -> new FileTrustStore(null));
    }

    @Test
    void aPartOfARequestIsNamed() {
        assertNames("method is missing", () -> new SealedRequest(null, "/", List.of(), new byte[0], null));
        assertNames("target is missing", () -> SealedRequest.get(null));
        assertNames("target does not", () -> SealedRequest.get("x"));
        assertNames("headers is missing", () -> new SealedRequest("GET", "/", null, new byte[0], null));
        assertNames("one of headers", () -> new SealedRequest("GET", "/", Arrays.asList((dev.sealway.wire.Header) null), new byte[0], null));
        assertNames("body is missing", () -> new SealedRequest("GET", "/", List.of(), null, null));
        assertNames("json is missing", () -> SealedRequest.postJson("/", null));
        assertNames("totalTimeout is", () -> SealedRequest.get("/").withTotalTimeout(Duration.ofSeconds(-1)));
        try (SealwayClient client = builder().wire(Wire.TWO).build()) {
            assertNames("request is missing", () -> client.send(null));
            assertNames("wire is 1 or 2", () -> client.stream(SealedRequest.get("/")));
        }
    }
}
