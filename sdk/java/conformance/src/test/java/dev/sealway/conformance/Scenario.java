package dev.sealway.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.session.Claim;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;

/** A vector, or an object within one, that knows which of its members were read: one that was not is a failure. */
final class Scenario {
    private static final HexFormat HEX = HexFormat.of();
    private final String path;
    private final Map<?, ?> members;
    private final Set<String> read = new HashSet<>();
    private final Map<String, Scenario> inner = new HashMap<>();

    private Scenario(String path, Map<?, ?> members) {
        this.path = path;
        this.members = members;
    }

    static List<Scenario> folder(String name) {
        Path root = Path.of("").toAbsolutePath();
        while (root != null && !Files.isDirectory(root.resolve("vectors/session"))) {
            root = root.getParent();
        }
        assertNotNull(root, "no folder vectors/ above this one: the tests read the repository's");
        try (var files = Files.list(root.resolve("vectors").resolve(name))) {
            return files.sorted().map(Scenario::load).toList();
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
    }

    private static Scenario load(Path file) {
        try {
            if (Json.parse(Files.readAllBytes(file)) instanceof Map<?, ?> members && members.get("type") instanceof String) {
                Scenario scenario = new Scenario(file.getFileName().toString(), members);
                scenario.read.addAll(List.of("type", "name", "comment", "spec"));
                return scenario;
            }
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
        return fail(file + " is no scenario");
    }

    String name() {
        return path;
    }

    String type() {
        return (String) members.get("type");
    }

    void assertAllRead() {
        for (Object name : members.keySet()) {
            assertTrue(read.contains(name), path + ": the member " + name + " was not read");
        }
        inner.values().forEach(Scenario::assertAllRead);
    }

    private Object get(String name) {
        assertTrue(members.containsKey(name), path + ": no member " + name);
        read.add(name);
        return members.get(name);
    }

    /** Passes members over that are of a side which this SDK does not have. */
    void skip(String... names) {
        for (String name : names) {
            get(name);
        }
    }

    boolean has(String name) {
        return members.get(name) != null;
    }

    boolean isNull(String name) {
        return get(name) == null;
    }

    String text(String name) {
        return (String) get(name);
    }

    boolean flag(String name) {
        return (Boolean) get(name);
    }

    long number(String name) {
        return ((JsonNumber) get(name)).whole(Long.MAX_VALUE);
    }

    /** Returns the names of the algorithms that the client accepts; empty if the scenario has no restriction. */
    List<String> accepted() {
        return has("signature_algorithms") ? texts("signature_algorithms") : List.of();
    }

    Long optionalNumber(String name) {
        return get(name) == null ? null : (Long) number(name);
    }

    Wire wire() {
        return Wire.of(number("wire"));
    }

    byte[] hex(String name) {
        return HEX.parseHex(text(name));
    }

    List<byte[]> hexes(String name) {
        return list(name).stream().map(item -> HEX.parseHex((String) item)).toList();
    }

    List<String> texts(String name) {
        return list(name).stream().map(String.class::cast).toList();
    }

    private List<?> list(String name) {
        return (List<?>) get(name);
    }

    Scenario object(String name) {
        Object value = get(name);
        return value == null ? null : within(name, value);
    }

    List<Scenario> objects(String name) {
        List<?> items = list(name);
        return IntStream.range(0, items.size()).mapToObj(at -> within(name + "/" + at, items.get(at))).toList();
    }

    private Scenario within(String name, Object value) {
        return inner.computeIfAbsent(name, key -> new Scenario(path + "/" + key, (Map<?, ?>) value));
    }

    ReplayPolicy window() {
        return new ReplayPolicy(number("window_ms"));
    }

    /** A character beyond ASCII stands for any byte that is not ASCII. */
    HeaderList headers() {
        return pairs("headers");
    }

    HeaderList pairs(String name) {
        List<Header> out = new ArrayList<>();
        for (Object pair : list(name)) {
            out.add(new Header((String) ((List<?>) pair).get(0), (String) ((List<?>) pair).get(1)));
        }
        return new HeaderList(out);
    }

    HeaderList inner() {
        List<Header> out = new ArrayList<>();
        for (Object pair : list("inner")) {
            byte[] value = within("inner/" + out.size(), ((List<?>) pair).get(1)).bytes();
            out.add(new Header((String) ((List<?>) pair).get(0), new String(value, StandardCharsets.ISO_8859_1)));
        }
        return new HeaderList(out);
    }

    byte[] bytes(String name) {
        return object(name).bytes();
    }

    private byte[] bytes() {
        if (members.containsKey("text")) {
            return text("text").getBytes(StandardCharsets.UTF_8);
        }
        if (members.containsKey("hex")) {
            return hex("hex");
        }
        byte[] out = new byte[Math.toIntExact(number("count"))];
        Arrays.fill(out, hex("repeat")[0]);
        return out;
    }

    /** The frames' plaintexts, without the inner headers. */
    List<byte[]> frames() {
        return objects("frames").stream().map(Scenario::bytes).toList();
    }

    /** Holds bytes against a member that has them, or their hash. */
    void assertBytes(String name, byte[] actual) {
        Scenario expected = object(name);
        if (expected.members.containsKey("sha256_hex")) {
            assertEquals(expected.number("count"), actual.length, path);
            assertEquals(expected.text("sha256_hex"), HEX.formatHex(Hashes.sha256(actual)), path);
        } else {
            assertEquals(HEX.formatHex(expected.bytes()), HEX.formatHex(actual), path);
        }
    }

    boolean isHashed(String name) {
        return members.get(name) instanceof Map<?, ?> value && value.containsKey("sha256_hex");
    }

    void assertHex(String name, byte[] actual) {
        assertEquals(text(name), HEX.formatHex(actual), path + "/" + name);
    }

    /** Headers as a set; {@code Content-Type} only where the vector has it. */
    void assertHeaders(HeaderList actual, String contentType) {
        HeaderList expected = headers();
        List<Header> sent = new ArrayList<>(actual.list());
        if (contentType != null && expected.has("Content-Type")) {
            sent.add(new Header("Content-Type", contentType));
        }
        assertEquals(asSet(expected), asSet(new HeaderList(sent)), path);
    }

    private static Set<Header> asSet(HeaderList headers) {
        Set<Header> out = new HashSet<>();
        headers.forEach(header -> out.add(new Header(header.name().toLowerCase(java.util.Locale.ROOT), header.value())));
        return out;
    }

    void assertClaim(Claim claim) {
        Scenario expected = object("claim");
        assertEquals(expected.text("key_hex"), claim.key(), path);
        assertEquals(expected.flag("sealed"), claim.isSealed(), path);
        assertEquals(expected.number("stamp_ms"), claim.stampMs(), path);
        assertEquals(expected.number("expires_ms"), claim.expiresMs(), path);
    }

    /** A server's session; its key is the session key, or the prk of wire 3. */
    SessionRecord record() {
        SecretBytes key = SecretBytes.owning(hex(members.containsKey("prk_hex") ? "prk_hex" : "key_hex"));
        return new SessionRecord(text("id"), wire(), text("client_id"), null, number("created_ms"), number("expires_ms"), key,
                null, "none");
    }

    void assertRefused(Runnable step) {
        String code = text("code");
        try {
            step.run();
        } catch (SealwayException refused) {
            assertEquals(code, refused.code(), path);
            return;
        }
        fail(path + ": expected " + code);
    }
}
