package dev.sealway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.client.ProblemException;
import dev.sealway.client.SealedAnswer;
import dev.sealway.client.SealedRequest;
import dev.sealway.client.SealwayClient;
import dev.sealway.client.Trust;
import dev.sealway.client.TrustStore;
import dev.sealway.server.AuthorityStore;
import dev.sealway.server.StoreException;
import dev.sealway.session.Claim;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.nativeprotocol.KeySet;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.UsageException;
import dev.sealway.wire.Wire;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.eclipse.jetty.server.ServerConnector;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Client, filter and programs against a real gateway and authority. */
@Timeout(120)
class GatewayTest {
    @TempDir
    static Path folder;
    private static Sealway sealway;
    private static String pins;

    @BeforeAll
    static void start() throws Exception {
        sealway = new Sealway(folder);
        try (HttpClient http = HttpClient.newHttpClient()) {
            byte[] set = http.send(HttpRequest.newBuilder(URI.create(sealway.url + KeySet.PATH)).build(),
                    HttpResponse.BodyHandlers.ofByteArray()).body();
            pins = KeySet.parse(set).keys().getFirst().keyId();
        }
    }

    @AfterAll
    static void stop() {
        if (sealway != null) {
            sealway.close();
        }
    }

    private static SealwayClient.Builder builder() {
        return builder(URI.create(sealway.url));
    }

    private static SealwayClient.Builder builder(URI url) {
        return SealwayClient.builder(url).authorityUrl(URI.create(sealway.url)).trust(Trust.pins(pins));
    }

    private static void assertPurchase(SealwayClient client) {
        SealedAnswer answer = client.send(Environment.PURCHASE);
        assertTrue(Environment.isPurchase(answer), answer.text());
    }

    @Test
    void aPurchaseGoesThroughOnEveryWireSuiteAndServer() throws Exception {
        try (AuthorityStore store = store()) {
            org.eclipse.jetty.server.Server server = Server.start(0, store, new Purchase());
            URI own = URI.create("http://127.0.0.1:" + ((ServerConnector) server.getConnectors()[0]).getLocalPort());
            List<String> done = new ArrayList<>();
            for (URI target : List.of(URI.create(sealway.url), own)) {
                for (Suite suite : Suite.DEFAULT) {
                    try (SealwayClient client = builder(target).suites(suite).build()) {
                        assertEquals(suite.text(), client.session().suite());
                        assertPurchase(client);
                        client.end();
                        done.add(suite.text());
                    }
                }
                for (Wire wire : List.of(Wire.ONE, Wire.TWO)) {
                    try (SealwayClient client = builder(target).wire(wire).build()) {
                        assertPurchase(client);
                        done.add("wire " + wire.number());
                    }
                }
            }
            server.stop();
            assertEquals(10, done.size());
            System.out.println("gateway and servlet filter: " + done);
        }
    }

    private static AuthorityStore store() {
        return new AuthorityStore(URI.create(sealway.url), Sealway.SECRET, Duration.ofSeconds(5));
    }

    @Test
    void anEndedSessionIsReplacedByANewOne() {
        try (SealwayClient client = builder().build()) {
            String first = client.session().id();
            client.end();
            assertPurchase(client);
            assertFalse(first.equals(client.session().id()));
        }
    }

    @Test
    void anErrorAnswerOfTheServiceIsSealed() {
        try (SealwayClient client = builder().trust(Trust.firstUse(TrustStore.inMemory())).build()) {
            SealedAnswer answer = client.send(SealedRequest.postJson("/transaction/purchase", "{}"));
            assertEquals(400, answer.status());
            try (SealwayClient compat = builder().wire(Wire.TWO).build()) {
                ProblemException plain = assertThrows(ProblemException.class,
                        () -> compat.send(SealedRequest.postJson("/transaction/purchase", "{}")));
                assertEquals("CRYPTO_ERROR", plain.code());
            }
        }
    }

    @Test
    void theAuthorityGrantsAClaimOnce() {
        try (AuthorityStore store = store()) {
            long nowMs = System.currentTimeMillis();
            Claim claim = Claim.of(Claim.Scope.SESSION, "S-" + "0".repeat(32), "nonce-" + nowMs, nowMs, nowMs, ReplayPolicy.DEFAULT);
            store.reserve(claim);
            assertEquals("replayed", assertThrows(ProtocolException.class, () -> store.reserve(claim)).code());
            Claim early = Claim.of(Claim.Scope.SESSION, "S-" + "0".repeat(32), "other-" + nowMs, 1, nowMs, ReplayPolicy.DEFAULT);
            assertEquals("timestamp_outside_window", assertThrows(ProtocolException.class, () -> store.reserve(early)).code());
            assertEquals(null, store.find("S-" + "0".repeat(32)));
        }
        try (AuthorityStore stranger = new AuthorityStore(URI.create(sealway.url), "another-secret-of-nobody", Duration.ofSeconds(5))) {
            assertThrows(StoreException.class, () -> stranger.find("S-" + "0".repeat(32)));
        }
        assertThrows(UsageException.class,
                () -> new AuthorityStore(URI.create("http://authority.example"), Sealway.SECRET, Duration.ofSeconds(5)));
    }

    private record Run(int status, String out, String err) {
    }

    private static ProcessBuilder program(String name, String... args) {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                System.getProperty("java.class.path"), "dev.sealway.examples." + name));
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("SESSION_URL", sealway.url);
        return builder;
    }

    private static Run run(ProcessBuilder builder) throws IOException, InterruptedException {
        Process process = builder.start();
        String out = new String(process.getInputStream().readAllBytes());
        String err = new String(process.getErrorStream().readAllBytes());
        assertTrue(process.waitFor(60, TimeUnit.SECONDS));
        return new Run(process.exitValue(), out, err);
    }

    /** Runs of hexadecimal digits or base64 that are as long as 32 bytes or longer. */
    private static final Pattern LONG = Pattern.compile("[0-9A-Fa-f]{64,}|[A-Za-z0-9+/_-]{43,}=?");

    @Test
    void theProgramsPrintNoKeyMaterial() throws Exception {
        try (AuthorityStore store = store()) {
            int looked = 0;
            for (String wire : List.of("1", "2", "3")) {
                for (List<String> each : List.of(List.of("Single"), List.of("Single", "--json"), List.of("Benchmark", "5", "--json"))) {
                    ProcessBuilder builder = program(each.getFirst(), each.subList(1, each.size()).toArray(String[]::new));
                    builder.environment().putAll(Map.of("SEALWAY_WIRE", wire, "SEALWAY_PINS", pins));
                    Run ran = run(builder);
                    assertEquals(0, ran.status(), ran.err());
                    String all = ran.out() + "\n" + ran.err();
                    Matcher found = LONG.matcher(all);
                    assertFalse(found.find(), () -> "as long as a key: " + found.group());
                    Matcher id = Pattern.compile("S-[0-9a-f]{32}").matcher(all);
                    // Sessions of wires 1 and 2 outlive their client, so that the authority tells their keys.
                    if (id.find() && !wire.equals("3")) {
                        byte[] key = store.find(id.group()).key().copy();
                        String lower = all.toLowerCase(Locale.ROOT);
                        assertFalse(lower.contains(HexFormat.of().formatHex(key).substring(0, 16)));
                        assertFalse(all.contains(Base64.getEncoder().withoutPadding().encodeToString(key).substring(0, 10)));
                        assertFalse(all.contains(Base64.getUrlEncoder().withoutPadding().encodeToString(key).substring(0, 10)));
                        looked++;
                    }
                }
            }
            assertEquals(4, looked);
        }
    }

    @Test
    void theProgramsKeepTheirContract() throws Exception {
        ProcessBuilder serverProgram = program("Server");
        serverProgram.environment().putAll(Map.of("PORT", "0", "AUTHORITY_URL", sealway.url, "AUTHORITY_SECRET_FILE",
                sealway.folder.resolve("secret").toString()));
        serverProgram.redirectError(ProcessBuilder.Redirect.DISCARD);
        Process server = serverProgram.start();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(server.getInputStream()))) {
            String listening = lines.readLine();
            assertTrue(listening.startsWith("listening http://127.0.0.1:"), listening);
            ProcessBuilder single = program("Single", "--json");
            single.environment().put("SERVER_URL", listening.substring("listening ".length()));
            single.environment().put("SEALWAY_PINS", pins);
            Run ran = run(single);
            assertEquals(0, ran.status(), ran.err());
            assertEquals(1, ran.out().lines().count());
            Map<?, ?> line = (Map<?, ?>) Json.parse(ran.out().strip().getBytes());
            assertEquals(List.of("program", "language", "wire", "suite", "session_id", "status", "body", "timings"),
                    new ArrayList<>(line.keySet()));
            Map<?, ?> timings = (Map<?, ?>) line.get("timings");
            assertEquals(List.of("init", "call"), new ArrayList<>(timings.keySet()));
            timings.values().forEach(each -> assertEquals(List.of("round_trip_ms", "http_ms", "crypto_ms", "server_ms"),
                    new ArrayList<>(((Map<?, ?>) each).keySet())));
            ProcessBuilder benchmark = program("Benchmark", "20", "--json");
            benchmark.environment().put("BENCHMARK_CONCURRENCY", "2");
            Run measured = run(benchmark);
            assertEquals(0, measured.status(), measured.err());
            assertTrue(measured.err().contains("SEALWAY_PINS is not set"), measured.err());
            Map<?, ?> figures = (Map<?, ?>) Json.parse(measured.out().strip().getBytes());
            assertEquals(List.of("min", "mean", "p50", "p90", "p95", "p99", "max"),
                    new ArrayList<>(((Map<?, ?>) figures.get("latency_ms")).keySet()));
            for (String[] each : new String[][] {{"Single", "SEALWAY_WIRE", "4"}, {"Benchmark", "BENCHMARK_CONCURRENCY", "0"},
                    {"Benchmark", "BENCHMARK_CONCURRENCY", "1001"}, {"Benchmark", "BENCHMARK_CONCURRENCY", "some"}}) {
                ProcessBuilder wrong = each[0].equals("Single") ? program("Single") : program("Benchmark", "1");
                wrong.environment().put(each[1], each[2]);
                Run refused = run(wrong);
                assertEquals(2, refused.status(), each[1]);
                assertTrue(refused.err().contains(each[1]), refused.err());
            }
            ProcessBuilder empty = program("Benchmark", "1");
            List.of("BENCHMARK_CONCURRENCY", "SEALWAY_WIRE", "SEALWAY_PINS", "SEALWAY_CLIENT_ID", "SERVER_URL")
                    .forEach(name -> empty.environment().put(name, ""));
            Run unset = run(empty);
            assertEquals(0, unset.status(), unset.err());
        } finally {
            server.destroy();
            assertTrue(server.waitFor(10, TimeUnit.SECONDS));
        }
    }
}
