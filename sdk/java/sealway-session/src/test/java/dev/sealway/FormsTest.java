package dev.sealway;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.session.ReplayPolicy;
import dev.sealway.session.nativeprotocol.InnerHeaders;
import dev.sealway.wire.Forms;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.Json;
import dev.sealway.wire.JsonNumber;
import dev.sealway.wire.ProtocolException;
import dev.sealway.wire.StrictBase64;
import dev.sealway.wire.UsageException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The forms of the wires at their edges: what is accepted, and what is rejected with which code. */
class FormsTest {
    private static final String DIGITS = "09af".repeat(8);
    private static final String NONCE = "a".repeat(16);

    /** Returns the code of what is thrown; "accepted" if nothing is. */
    private static String codeOf(Runnable run) {
        try {
            run.run();
        } catch (ProtocolException rejected) {
            return rejected.code();
        }
        return "accepted";
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void base64HasOneSpellingForEachLength() {
        byte[] all = new byte[256];
        for (int at = 0; at < all.length; at++) {
            all[at] = (byte) at;
        }
        for (int length = 0; length <= all.length; length++) {
            byte[] data = Arrays.copyOf(all, length);
            String text = Base64.getEncoder().encodeToString(data);
            assertEquals(text, StrictBase64.encode(data));
            assertArrayEquals(data, StrictBase64.decode(text));
            assertArrayEquals(data, StrictBase64.decode(text.getBytes(StandardCharsets.ISO_8859_1)));
        }
        for (String other : new String[] {"A", "AA", "AAA", "AAAAA", "A===", "=AAA", "AA=A", "AAAA=", "AAAAAB==", "AAAAAAB=", "AAAA====", " AAA", "AA\nA", "AA-_", "\u0080AAA", "\u0141AAA"}) {
            assertNull(StrictBase64.decode(other), other);
        }
    }

    @Test
    void sessionIdsAndKeyIds() {
        byte[] random = HexFormat.of().parseHex(DIGITS);
        assertEquals("S-" + DIGITS, Forms.sessionId(random, false));
        assertEquals("A-" + DIGITS, Forms.sessionId(random, true));
        for (String good : new String[] {"S-" + DIGITS, "A-" + DIGITS}) {
            assertTrue(Forms.isSessionId(good));
            assertEquals(good, Forms.idOfKid("session:" + good));
        }
        String most = DIGITS.substring(1);
        for (String bad : new String[] {"", "S-", "B-" + DIGITS, "S-" + DIGITS + "0", "S-" + most, "S-" + DIGITS.toUpperCase(), "S-" + most + "/", "S-" + most + ":", "S-" + most + "`", "S-" + most + "g"}) {
            assertFalse(Forms.isSessionId(bad), bad);
            assertNull(Forms.idOfKid("session:" + bad), bad);
        }
        assertTrue(Forms.isKeyId(DIGITS));
        for (String bad : new String[] {"", most, DIGITS + "0", "A" + most, "g" + most, "/" + most}) {
            assertFalse(Forms.isKeyId(bad), bad);
        }
        for (String kid : new String[] {"", "hpke:x", "Session:x", "xsession:"}) {
            assertEquals("kid_prefix", codeOf(() -> Forms.idOfKid(kid)));
        }
    }

    @Test
    void clientIds() {
        for (String good : new String[] {"a", " ", "~", "{}", "x".repeat(256)}) {
            assertTrue(Forms.isClientId(good), good);
        }
        for (String bad : new String[] {"", "|", "a|b", "\u001f", "\u007f", "\u00e9", "a\n", "x".repeat(257)}) {
            assertFalse(Forms.isClientId(bad), bad);
        }
    }

    @Test
    void nonces() {
        String longest = "azAZ09_-" + "x".repeat(120);
        for (String nonce : new String[] {NONCE, longest, "ar-" + NONCE, "r_" + NONCE, "-r" + NONCE}) {
            assertEquals("accepted", codeOf(() -> Forms.checkRequestNonce(nonce, 16)), nonce);
            assertEquals("answer_mismatch", codeOf(() -> Forms.checkAnswerNonce(nonce, 16)), nonce);
        }
        for (String end : new String[] {".", "\n", "\u00e9", "/", ":", "@", "[", "`", "{"}) {
            assertEquals("nonce_invalid", codeOf(() -> Forms.checkRequestNonce(NONCE + end, 16)), end);
            assertEquals("nonce_invalid", codeOf(() -> Forms.checkAnswerNonce("r-" + NONCE + end, 16)), end);
        }
        for (String nonce : new String[] {"", NONCE.substring(1), longest + "x"}) {
            assertEquals("nonce_invalid", codeOf(() -> Forms.checkRequestNonce(nonce, 16)), nonce);
            assertEquals("nonce_invalid", codeOf(() -> Forms.checkAnswerNonce(nonce, 16)), nonce);
        }
        for (String nonce : new String[] {"r-" + NONCE, "R-" + NONCE}) {
            assertEquals("nonce_reserved", codeOf(() -> Forms.checkRequestNonce(nonce, 16)), nonce);
        }
        assertEquals("accepted", codeOf(() -> Forms.checkRequestNonce("a", 1)));
        assertEquals("accepted", codeOf(() -> Forms.checkAnswerNonce("r-" + NONCE, 16)));
        assertEquals("answer_mismatch", codeOf(() -> Forms.checkAnswerNonce("R-" + NONCE, 16)));
    }

    @Test
    void stampsAndIdempotencyKeys() {
        assertEquals(List.of(0L, 7L, 999_999_999_999_999L), List.of(Forms.stampMs("0"), Forms.stampMs("007"), Forms.stampMs("9".repeat(15))));
        for (String bad : new String[] {"", "-1", "+1", "1.5", "1e3", " 1", "1 ", "x", "/", ":", "\u0663", "9".repeat(16)}) {
            assertEquals("timestamp_invalid", codeOf(() -> Forms.stampMs(bad)), bad);
        }
        assertEquals(new Forms.StampAndNonce("1", "a"), Forms.split("1.a"));
        for (String bad : new String[] {"", ".", "1", "1.", ".a", "1.a.", "1.a.b", "..", "1..a"}) {
            assertEquals("idempotency_key_shape", codeOf(() -> Forms.split(bad)), bad);
        }
    }

    @Test
    void aWindowHasBothEdges() {
        ReplayPolicy policy = new ReplayPolicy(10);
        for (long stamp : new long[] {90, 100, 110}) {
            assertEquals("accepted", codeOf(() -> policy.check(stamp, 100)));
        }
        for (long stamp : new long[] {89, 111, 0, 300}) {
            assertEquals("timestamp_outside_window", codeOf(() -> policy.check(stamp, 100)));
        }
        assertSame(policy, policy.atMost(10));
        assertSame(policy, policy.atMost(11));
        assertEquals(9, policy.atMost(9).windowMs());
        assertEquals(0, new ReplayPolicy(0).windowMs());
        assertEquals(86_400_000, new ReplayPolicy(86_400_000).windowMs());
        for (long width : new long[] {-1, 86_400_001}) {
            assertThrows(UsageException.class, () -> new ReplayPolicy(width));
        }
    }

    @Test
    void headersStandOnceAndAreOfPrintableAscii() {
        HeaderList headers = HeaderList.of("X-A", "1", "x-a", "2", "X-B", "\t ~", "X-Empty", "", "X-Low", "\u001f", "X-High", "\u007f", "x-none", "", "X-None", "", "rest");
        assertEquals(8, headers.list().size());
        assertEquals("\t ~", headers.required("x-b"));
        assertEquals("\t ~", headers.optional("x-b"));
        assertEquals("", headers.optional("x-empty"));
        assertEquals("", headers.optional("x-away"));
        for (String bad : new String[] {"X-A", "X-Low", "X-High", "X-None"}) {
            assertEquals("header_invalid", codeOf(() -> headers.required(bad)), bad);
            assertEquals("header_invalid", codeOf(() -> headers.optional(bad)), bad);
        }
        for (String away : new String[] {"X-Empty", "X-Away"}) {
            assertEquals("header_missing", codeOf(() -> headers.required(away)), away);
        }
        assertEquals("1", headers.first("x-A"));
        assertNull(headers.first("x-away"));
        assertTrue(headers.has("x-empty"));
        assertFalse(headers.has("x-away"));
        assertEquals(List.of(2, 1, 0), List.of(headers.count("x-a"), headers.count("x-b"), headers.count("x-c")));
        List<Header> all = new ArrayList<>();
        headers.forEach(all::add);
        assertEquals(headers.list(), all);
    }

    @Test
    void jsonIsReadAndWritten() {
        String text = "{\"a\":[1,-2.5e3,true,false,null,\"x\\\"]}\"],\"b\":{\"c\":\"[[[\",\"d\":[]}}";
        assertEquals(text, Json.write(Json.parse(utf8(text))));
        // A member behind an object is not within it.
        String nested = "{\"a\":{\"b\":1},\"c\":2}";
        assertEquals(nested, Json.write(Json.parse(utf8(nested))));
        assertEquals("[1,2,0.5]", Json.write(List.of(1, 2L, 0.5)));
        assertThrows(IllegalArgumentException.class, () -> Json.write(new Object()));
        for (String good : new String[] {"[".repeat(127) + "]".repeat(127), "{\"a\":".repeat(127) + "1" + "}".repeat(127), "\"\\ud83d\\ude00\"", "1.7976931348623157e308", "{\"\\ud83d\\ude00\":1}"}) {
            assertEquals("accepted", codeOf(() -> Json.parse(utf8(good))), good);
        }
        for (String bad : new String[] {"1 2", "{\"a\":1", "[1", "\"a", "\"\\udc00\"", "{\"\\ud800\":1}", "[1,2,1e309]", "-1e999", "{\"a\":[1e999]}", "{\"a\":}", "[,]"}) {
            assertEquals("json_invalid", codeOf(() -> Json.parse(utf8(bad))), bad);
        }
    }

    @Test
    void membersOfAnObjectMayBeUnique() {
        assertEquals(Map.of("a", new JsonNumber("1e999"), "b", List.of()), Json.uniqueMembers(utf8("{\"a\":1e999,\"b\":[]}")));
        assertEquals("accepted", codeOf(() -> Json.uniqueMembers(utf8("{\"a\":" + "[".repeat(63) + "]".repeat(63) + "}"))));
        for (String bad : new String[] {"{\"a\":1,\"a\":1}", "[]", "1", "", "{\"a\":1}x", "{\"a\":" + "[".repeat(64) + "]".repeat(64) + "}", "{\"\\ud800\":1}"}) {
            assertEquals("json_invalid", codeOf(() -> Json.uniqueMembers(utf8(bad))), bad);
        }
        assertEquals(Map.entry("a", "b"), Json.soleText(utf8("{\"a\":\"b\"}")));
        for (String bad : new String[] {"{}", "{\"a\":1}", "{\"a\":\"b\",\"c\":\"d\"}", "[\"a\"]", "{\"a\":\"b\"}{", "{\"\\ud800\":\"b\"}", "{\"a\":\"\\ud800\"}", "{\"a\":null}"}) {
            assertEquals("json_invalid", codeOf(() -> Json.soleText(utf8(bad))), bad);
        }
    }

    @Test
    void numbersAreWhole() {
        for (String text : new String[] {"10", "1e1", "1E+1", "10.0", "100e-1", "0.1e2"}) {
            assertEquals(10L, new JsonNumber(text).whole(10), text);
            assertNull(new JsonNumber(text).whole(9), text);
        }
        for (String text : new String[] {"0", "-0", "0.0", "0e9"}) {
            assertEquals(0L, new JsonNumber(text).whole(0), text);
        }
        for (String text : new String[] {"-1", "0.5", "1e999", "15e-1", "1e-400", "9e-400"}) {
            assertNull(new JsonNumber(text).whole(100), text);
        }
        assertEquals(-1L, new JsonNumber("18446744073709551615").whole(-1));
        assertNull(new JsonNumber("18446744073709551616").whole(-1));
        assertNull(new JsonNumber("1e20").whole(-1));
        assertEquals(1.5, new JsonNumber("1.5").asDouble());
    }

    @Test
    void anExponentOfAnyLengthIsANumber() {
        for (String text : new String[] {"1e-99999999999", "0e99999999999", "1e-2147483648", "0.0e-99999999999999999999"}) {
            JsonNumber number = (JsonNumber) Json.parse(utf8(text));
            assertEquals(text.startsWith("0") ? 0L : null, number.whole(9), text);
        }
    }

    private static String encoded(String... namesAndValues) {
        return HexFormat.of().formatHex(InnerHeaders.encode(HeaderList.of(namesAndValues)));
    }

    @Test
    void innerHeadersAreEncodedWithTheirLengths() {
        assertEquals("0000", encoded());
        assertEquals("000e" + "0161" + "0005" + "09207e80ff" + "02622d" + "0000", encoded("A", "\t ~\u0080\u00ff", "b-", ""));
        assertEquals("0130" + "0161" + "012c" + "78".repeat(300), encoded("a", "x".repeat(300)));
        assertEquals(2 * (2 + 16_384), encoded("a", "x".repeat(16_384 - 4)).length());
        assertEquals("01" + "02" + "ff" + "78".repeat(255) + "0000", encoded("x".repeat(255), ""));
        for (String name : new String[] {"azAZ09", "!#$%&'*+.^_`|~-", "proxyx", "x-sealwayx", "a-proxy-b"}) {
            assertEquals(4 + 2 * (3 + name.length()), encoded(name, "").length(), name);
        }
    }

    @Test
    void innerHeadersAreBoundedAndOfTheirForms() {
        assertEquals("accepted", codeOf(() -> InnerHeaders.encode(Collections.nCopies(64, new Header("a", "")))));
        assertEquals("inner_headers_invalid", codeOf(() -> InnerHeaders.encode(Collections.nCopies(65, new Header("a", "")))));
        for (String name : new String[] {"", "a b", "a\n", "\u0080", "x".repeat(256), "Host", "connection", "proxy-a", "Proxy-", "X-Sealway-a", "x-kid", "TE", "/", ":", "{", "@", "\u0000"}) {
            assertEquals("inner_headers_invalid", codeOf(() -> encoded(name, "")), name);
        }
        for (String value : new String[] {"\u001f", "\u007f", "a\nb", "\r", "\u0000", "x".repeat(16_384 - 3), "x".repeat(16_385), "x".repeat(70_000)}) {
            assertEquals("inner_headers_invalid", codeOf(() -> encoded("a", value)), value);
        }
    }
}
