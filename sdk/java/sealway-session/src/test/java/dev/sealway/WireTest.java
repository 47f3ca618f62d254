package dev.sealway;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.Hashes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Blame;
import dev.sealway.wire.Code;
import dev.sealway.wire.HeaderNames;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.SealwayException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.Wire;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class WireTest {
    private static String registry() throws IOException {
        return Files.readString(Path.of("../../../spec/registry.toml"));
    }

    @Test
    void theCodesAreThoseOfTheRegistry() throws IOException {
        Matcher entry = Pattern.compile("\\[errors\\.(\\w+)]\\s+blame = \"(\\w+)\"").matcher(registry());
        Map<String, String> expected = new TreeMap<>();
        while (entry.find()) {
            expected.put(entry.group(1), entry.group(2));
        }
        Map<String, String> actual = new TreeMap<>();
        for (Code code : Code.values()) {
            actual.put(code.text(), code.blame().name().toLowerCase(Locale.ROOT));
        }
        assertEquals(expected, actual);
    }

    @Test
    void eachCodeHasARemedy() throws IOException {
        Matcher entry = Pattern.compile("\\[(errors|public|problems|client_errors)\\.(\\w+)]\\s(?:(?!remedy)\\w+ = .*\\s)*remedy = \"(.*)\"").matcher(registry());
        Map<String, String> remedies = new TreeMap<>();
        while (entry.find()) {
            // If several sections have a code, the answer that the client receives counts.
            remedies.put(entry.group(2), entry.group(3));
        }
        assertTrue(remedies.size() > 50, remedies.toString());
        remedies.forEach((code, remedy) -> assertEquals(remedy, remedyOf(code), code));
        for (String own : new String[] {"usage", "unreachable", "timeout", "network", "redirected", "cancelled"}) {
            assertNotEquals(remedyOf("a code of the service's own"), remedyOf(own), own);
        }
    }

    private static String remedyOf(String code) {
        return new SealwayException("", null) {
            private static final long serialVersionUID = 1;

            @Override
            public String code() {
                return code;
            }

            @Override
            public Blame blame() {
                return Blame.PEER;
            }
        }.remedy();
    }

    @Test
    void theHeadersOfSealingAreThoseOfTheRegistry() throws IOException {
        Matcher entry = Pattern.compile("\\[headers\\.([\\w-]+)]").matcher(registry());
        TreeSet<String> expected = new TreeSet<>();
        while (entry.find()) {
            expected.add(entry.group(1));
        }
        assertEquals(expected, new TreeSet<>(HeaderNames.SEALING));
    }

    @Test
    void base64HasOneSpelling() {
        for (int length = 0; length < 10; length++) {
            byte[] data = new byte[length];
            Arrays.fill(data, (byte) 0xfb);
            assertArrayEquals(data, StrictBase64.decode(StrictBase64.encode(data)));
        }
        for (String other : new String[] {"AA", "AA=", "AB==", "AAB=", "AA==\n", " AA==", "A-A=", "AA==AA==", "=AAA", "====", "é==="}) {
            assertNull(StrictBase64.decode(other), other);
        }
    }

    @Test
    void jsonIsReadStrictlyAndBounded() {
        assertEquals(Map.of("a", new JsonNumber("2")), Json.parse("{\"a\":1,\"a\":2}".getBytes()));
        String deep = "[".repeat(128) + "]".repeat(128);
        for (String broken : new String[] {"", "{", "{}x", "01", "'a'", "[1,]", "NaN", "1e999", deep, "\ufeff{}", "\"\\ud800\""}) {
            ProtocolException refused = assertThrows(ProtocolException.class,
                    () -> Json.parse(broken.getBytes(StandardCharsets.UTF_8)), broken);
            assertEquals("json_invalid", refused.code());
            assertEquals(Blame.PEER, refused.blame());
        }
        assertThrows(ProtocolException.class, () -> Json.parse(new byte[] {'"', (byte) 0xff, '"'}));
        assertNull(new JsonNumber("1e-999999999").whole(9));
        assertEquals(1000L, new JsonNumber("1e3").whole(1000));
    }

    @Test
    void aKeyIsNeverPrintedAndAWipedOneIsNotUsed() {
        byte[] secret = "0123456789abcdef0123456789abcdef".getBytes();
        SecretBytes key = SecretBytes.owning(secret);
        SessionRecord record = new SessionRecord("S-0", Wire.TWO, "c", null, 0, 1, key, null, "none");
        for (String printed : new String[] {key.toString(), record.toString()}) {
            assertFalse(printed.contains("0123456789abcdef") || printed.contains("MDEyMzQ1"), printed);
        }
        key.destroy();
        assertArrayEquals(new byte[32], secret);
        assertTrue(key.isDestroyed());
        assertThrows(IllegalStateException.class, () -> Hashes.hmac(key, new byte[1]));
    }

    @Test
    void derivedKeysAreWipedWithTheirKey() {
        SecretBytes key = SecretBytes.owning("0123456789abcdef0123456789abcdef".getBytes());
        SecretBytes kept = Hashes.kept(key, "a label");
        assertSame(kept, Hashes.kept(key, "a label"));
        assertArrayEquals(Hashes.expand(key, "a label").copy(), kept.copy());
        Hashes.hmac(kept, new byte[1]);
        key.destroy();
        assertTrue(kept.isDestroyed());
        assertThrows(IllegalStateException.class, () -> Hashes.hmac(kept, new byte[1]));
        assertThrows(IllegalStateException.class, () -> Hashes.expand(kept, new byte[1], 60));
        assertThrows(IllegalStateException.class, () -> Hashes.kept(key, "a label"));
    }
}
