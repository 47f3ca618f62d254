package dev.sealway.redis;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A real {@code redis-server}, and a real {@code sealway serve} whose store it is, in a temporary folder. */
final class Servers implements AutoCloseable {
    static final String KEK = "kek-1 " + java.util.Base64.getEncoder().encodeToString("0123456789abcdef0123456789abcdef".getBytes()) + "\n";
    final int redisPort;
    final String url;
    private final Process redis;
    private final Process sealway;

    Servers(Path folder) throws IOException, InterruptedException {
        redisPort = freePort();
        redis = start(folder, "redis-server", "--port", Integer.toString(redisPort), "--bind", "127.0.0.1", "--save", "", "--dir",
                folder.toString());
        awaitRedis();
        Files.writeString(folder.resolve("kek"), KEK);
        Files.setPosixFilePermissions(folder.resolve("kek"), PosixFilePermissions.fromString("rw-------"));
        Files.writeString(folder.resolve("serve.yaml"), """
                listeners:
                  - address: "127.0.0.1:0"
                routes:
                  - match: { path_prefix: ["/session/", "/v1/", "/v3/", "/.well-known/"], path: ["/health", "/ready"] }
                    sessions: {}
                  - match: { path_prefix: "/transaction/" }
                    sealed: required
                    upstream: shop
                upstreams:
                  shop: { servers: ["demo:"] }
                sessions:
                  store: "redis://127.0.0.1:%d"
                  kek_file: kek
                  identity: { key_file: identity, allow_generated: true }
                telemetry: { log_format: json, log_level: info }
                """.formatted(redisPort));
        Path log = folder.resolve("log");
        try {
            sealway = new ProcessBuilder(binary(), "serve", "--config", "serve.yaml").directory(folder.toFile())
                    .redirectError(log.toFile()).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
            url = address(log);
        } catch (IOException | RuntimeException failed) {
            redis.destroy();
            throw failed;
        }
    }

    /** A free port below those that the kernel gives to connections: no connection of another test can take it. */
    private static int freePort() {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(20_000, 32_000);
            try (ServerSocket free = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return free.getLocalPort();
            } catch (IOException taken) {
                // Another one, then.
            }
        }
    }

    private static Process start(Path folder, String... command) throws IOException {
        try {
            return new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true)
                    .redirectOutput(folder.resolve("redis.log").toFile()).start();
        } catch (IOException missing) {
            throw new IOException(command[0] + " is needed for this test (Debian: apt-get install redis-server)", missing);
        }
    }

    private void awaitRedis() throws IOException, InterruptedException {
        for (int tries = 0; tries < 600; tries++) {
            try {
                new Socket("127.0.0.1", redisPort).close();
                return;
            } catch (IOException notYet) {
                Thread.sleep(50);
            }
        }
        throw new IOException("redis-server did not start");
    }

    private static String binary() {
        String named = System.getenv("SEALWAY_BIN");
        Path root = Path.of("").toAbsolutePath();
        while (root != null && !Files.isDirectory(root.resolve("vectors"))) {
            root = root.getParent();
        }
        Path built = root == null ? Path.of("sealway") : root.resolve("target/debug/sealway");
        Path found = named == null || named.isEmpty() ? built : Path.of(named);
        if (!Files.isExecutable(found)) {
            throw new IllegalStateException(found + " is no program: build it (cargo build --package sealway-cli) or set SEALWAY_BIN");
        }
        return found.toString();
    }

    private String address(Path log) throws IOException, InterruptedException {
        Pattern serving = Pattern.compile("\"message\":\"serving\".*\"addresses\":\"\\[([0-9.:]+)");
        for (int tries = 0; tries < 300; tries++) {
            Matcher found = serving.matcher(Files.readString(log));
            if (found.find()) {
                return "http://" + found.group(1);
            }
            if (sealway.waitFor(100, TimeUnit.MILLISECONDS)) {
                break;
            }
        }
        sealway.destroy();
        throw new IllegalStateException("sealway did not start: " + Files.readString(log));
    }

    void stopRedis() {
        redis.destroy();
        redis.onExit().orTimeout(10, TimeUnit.SECONDS).join();
    }

    @Override
    public void close() {
        sealway.destroy();
        sealway.onExit().orTimeout(10, TimeUnit.SECONDS).join();
        stopRedis();
    }
}
