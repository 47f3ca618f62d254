package dev.sealway.session.nativeprotocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.sealway.wire.Json;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Key sets and key documents at their edges. */
class KeyListsTest {
    private static final byte[] PUBLIC_KEY = {1};
    private static final int BYTES_MAX = 65_536;

    private static String codeOf(Runnable step) {
        try {
            step.run();
        } catch (ProtocolException rejected) {
            return rejected.code();
        }
        return "accepted";
    }

    private static byte[] list(String more, String... keys) {
        return "{\"issued_ms\":1,\"expires_ms\":2,\"keys\":[%s]%s}".formatted(String.join(",", keys), more).getBytes(StandardCharsets.UTF_8);
    }

    /** A key of an algorithm that is not known. */
    private static String key(String notBeforeMs, String notAfterMs) {
        return "{\"key_id\":\"%s\",\"alg\":\"x\",\"public_key\":\"AQ==\",\"not_before_ms\":%s,\"not_after_ms\":%s}"
                .formatted(Identity.keyId(PUBLIC_KEY), notBeforeMs, notAfterMs);
    }

    private static String padding(int length) {
        return ",\"x\":\"" + "x".repeat(length - list(",\"x\":\"\"").length) + "\"";
    }

    @Test
    void aListHas64KiBAtMost() {
        for (Function<byte[], ?> read : List.<Function<byte[], ?>>of(KeySet::parse, KeyDocument::parse, body -> KeySet.of(Json.parse(body)),
                body -> KeyDocument.of(Json.parse(body)))) {
            assertEquals("accepted", codeOf(() -> read.apply(list(padding(BYTES_MAX)))));
            assertEquals("body_too_large", codeOf(() -> read.apply(list(padding(BYTES_MAX + 1)))));
        }
        for (Function<Object, ?> of : List.<Function<Object, ?>>of(KeySet::of, KeyDocument::of)) {
            assertEquals("field_invalid", codeOf(() -> of.apply("text")));
            assertEquals("field_invalid", codeOf(() -> of.apply(null)));
        }
        assertEquals(1, KeySet.of(Json.parse(list(""))).issuedMs());
        assertEquals(1, KeyDocument.of(Json.parse(list(""))).issuedMs());
    }

    @Test
    void aSetHasDifferentKeysWithTimesOf15Digits() {
        String latest = "999999999999999";
        assertEquals("accepted", codeOf(() -> KeySet.parse(list("", key("0", latest)))));
        assertEquals("accepted", codeOf(() -> KeySet.parse(list("", key(latest, "0")))));
        assertEquals("field_invalid", codeOf(() -> KeySet.parse(list("", key("0", "1000000000000000")))));
        assertEquals("field_invalid", codeOf(() -> KeySet.parse(list("", key("1000000000000000", "0")))));
        assertEquals("field_invalid", codeOf(() -> KeySet.parse(list("", key("0", "1"), key("1", "2")))));
        assertEquals(List.of(), KeySet.parse(list("")).keys());
        assertEquals(Collections.singleton(Identity.keyId(PUBLIC_KEY)), KeySet.parse(list("", key("0", "1"))).byId().keySet());
    }

    private static String documentKey(int name, int from, int until, int after) {
        byte[] config = {(byte) name, (byte) 0xff, (byte) 0xff, 1, 0, 4, 0, 1, 0, 2};
        return "{\"config\":\"%s\",\"not_before_ms\":%d,\"use_until_ms\":%d,\"not_after_ms\":%d}".formatted(StrictBase64.encode(config), from, until, after);
    }

    @Test
    void aDocumentHas16DifferentKeysWithTimesInOrder() {
        assertEquals("accepted", codeOf(() -> KeyDocument.parse(list("", documentKey(1, 5, 5, 5), documentKey(2, 5, 6, 7)))));
        for (String other : List.of(documentKey(2, 6, 5, 7), documentKey(2, 5, 7, 6), documentKey(1, 5, 6, 7))) {
            assertEquals("field_invalid", codeOf(() -> KeyDocument.parse(list("", documentKey(1, 5, 5, 5), other))));
        }
        String[] keys = IntStream.range(0, 17).mapToObj(name -> documentKey(name, 1, 2, 3)).toArray(String[]::new);
        assertEquals("field_invalid", codeOf(() -> KeyDocument.parse(list("", keys))));
        assertEquals(16, KeyDocument.parse(list("", Arrays.copyOf(keys, 16))).keys().size());
    }

    @Test
    void aRootIsNamedByBothMembers() {
        String id = ",\"root_key_id\":\"" + Identity.keyId(PUBLIC_KEY) + "\"";
        String signature = ",\"root_signature\":\"AQ==\"";
        assertEquals(1, KeySet.parse(list(id + signature)).issuedMs());
        assertEquals("root_signature", assertThrows(ProtocolException.class, () -> KeySet.parse(list(id))).field());
        assertEquals("root_key_id", assertThrows(ProtocolException.class, () -> KeySet.parse(list(signature))).field());
    }
}
