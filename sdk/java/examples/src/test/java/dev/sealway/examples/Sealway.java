package dev.sealway.examples;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A real {@code sealway serve} in a temporary folder, with the demo service behind. */
final class Sealway implements AutoCloseable {
    static final String SECRET = "0123456789abcdef0123456789abcdef";
    final String url;
    final Path folder;
    private final Process process;

    /** Starts one of sessions, with the authority's endpoints open. */
    Sealway(Path folder) throws IOException, InterruptedException {
        this(secret(folder, "secret", SECRET), """
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
                  store: "memory:"
                  identity: { allow_generated: true }
                  authority_secret_file: secret
                telemetry: { log_format: json, log_level: info }
                """);
    }

    Sealway(Path folder, String configuration) throws IOException, InterruptedException {
        this.folder = folder;
        Files.writeString(folder.resolve("serve.yaml"), configuration);
        Path log = folder.resolve("log");
        process = new ProcessBuilder(binary(), "serve", "--config", "serve.yaml").directory(folder.toFile())
                .redirectError(log.toFile()).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        url = address(log);
    }

    /** Writes a file that its owner alone reads, and returns the folder. */
    static Path secret(Path folder, String name, String text) throws IOException {
        Files.writeString(folder.resolve(name), text + "\n");
        Files.setPosixFilePermissions(folder.resolve(name), PosixFilePermissions.fromString("rw-------"));
        return folder;
    }

    /** Runs another command of the program in a folder, and returns its output. */
    static String run(Path folder, String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(binary()));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() != 0) {
            throw new IllegalStateException(String.join(" ", command) + ": " + output);
        }
        return output;
    }

    static String binary() {
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
            if (process.waitFor(100, TimeUnit.MILLISECONDS)) {
                break;
            }
        }
        process.destroy();
        throw new IllegalStateException("sealway did not start: " + Files.readString(log));
    }

    @Override
    public void close() {
        process.destroy();
        process.onExit().orTimeout(10, TimeUnit.SECONDS).join();
    }
}
