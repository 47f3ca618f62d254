package dev.sealway.redis;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.sealway.server.StoreException;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.StrictBase64;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** All of {@code vectors/store}. */
class RowVectorsTest {
    private static final HexFormat HEX = HexFormat.of();

    @Test
    void everyRowIsReadOrRejectedAsItsVectorSays() throws IOException {
        Path root = Path.of("").toAbsolutePath();
        while (!Files.exists(root.resolve("vectors/store"))) {
            root = root.getParent();
            assertNotNull(root, "no vectors/store above this folder");
        }
        Set<String> types = new TreeSet<>();
        try (Stream<Path> files = Files.list(root.resolve("vectors/store"))) {
            for (Path file : files.toList()) {
                if (Json.parse(Files.readAllBytes(file)) instanceof Map<?, ?> vector && ((String) vector.get("type")).startsWith("row")) {
                    types.add((String) vector.get("type"));
                    play(vector);
                }
            }
        }
        assertEquals(Set.of("row", "row-old", "row-refused"), types);
    }

    private static void play(Map<?, ?> vector) {
        StringBuilder lines = new StringBuilder();
        for (Object each : (List<?>) vector.get("keks")) {
            Map<?, ?> kek = (Map<?, ?>) each;
            lines.append(kek.get("id")).append(' ').append(StrictBase64.encode(HEX.parseHex((String) kek.get("key_hex")))).append('\n');
        }
        KeyEncryptionKeys keks = KeyEncryptionKeys.of(lines.toString());
        Map<?, ?> session = (Map<?, ?>) vector.get("session");
        String id = (String) (session == null ? vector.get("session_id") : session.get("id"));
        byte[] value = HEX.parseHex((String) vector.get("value_hex"));
        long until = vector.get("accept_until_ms") instanceof JsonNumber number ? number.whole(Long.MAX_VALUE) : 0;
        String name = (String) vector.get("name");
        if (vector.get("reason") instanceof String reason) {
            // What is no session is 401, everything else 503.
            if (reason.equals("unauthenticated")) {
                assertNull(StoredSession.read(id, value, until, keks::key), name);
            } else {
                assertThrows(StoreException.class, () -> StoredSession.read(id, value, until, keks::key), name);
            }
            return;
        }
        StoredSession read = StoredSession.read(id, value, until, keks::key);
        SessionRecord made = read.session();
        assertEquals(session.get("lineage"), read.lineage(), name);
        assertEquals(session.get("client_id"), made.clientId(), name);
        assertEquals(session.get("subject"), made.subject(), name);
        assertEquals(session.get("tenant"), made.tenant(), name);
        assertEquals(session.get("auth"), made.auth(), name);
        assertEquals(((JsonNumber) session.get("wire")).whole(3), made.wire().number(), name);
        assertEquals(((JsonNumber) session.get("created_ms")).whole(Long.MAX_VALUE), made.createdMs(), name);
        assertEquals(((JsonNumber) session.get("expires_ms")).whole(Long.MAX_VALUE), made.expiresMs(), name);
        assertArrayEquals(HEX.parseHex((String) session.get("key_hex")), made.key().copy(), name);
    }
}
