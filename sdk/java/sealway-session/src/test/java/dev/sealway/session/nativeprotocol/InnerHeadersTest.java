package dev.sealway.session.nativeprotocol;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.sealway.wire.Header;
import dev.sealway.wire.ProtocolException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The block of inner headers at the head of a first frame, at its edges. */
class InnerHeadersTest {
    /** Decodes the block of headers, alone and with a body behind it, and expects the same headers. */
    private static void both(List<Header> headers) {
        byte[] block = InnerHeaders.encode(headers);
        byte[] frame = Arrays.copyOf(block, block.length + 40_000);
        Arrays.fill(frame, block.length, frame.length, (byte) 'x');
        for (byte[] plaintext : List.of(block, frame)) {
            InnerHeaders.DecodedHeaders decoded = InnerHeaders.decode(plaintext);
            assertEquals(headers, List.copyOf(decoded.headers().list()));
            assertEquals(block.length, decoded.bodyAt());
        }
    }

    private static String codeOf(byte[] frame) {
        try {
            InnerHeaders.decode(frame);
        } catch (ProtocolException rejected) {
            return rejected.code();
        }
        return "accepted";
    }

    /** Returns a block with its length in front. */
    private static byte[] block(String hex) {
        byte[] headers = HexFormat.of().parseHex(hex);
        byte[] block = new byte[2 + headers.length];
        block[0] = (byte) (headers.length >> 8);
        block[1] = (byte) headers.length;
        System.arraycopy(headers, 0, block, 2, headers.length);
        return block;
    }

    @Test
    void whatIsEncodedIsDecoded() {
        both(List.of());
        both(List.of(new Header("a", "")));
        both(List.of(new Header("b-", "\t ~\u0080\u00ff"), new Header("a", ""), new Header("a", "x".repeat(200))));
        both(List.of(new Header("n".repeat(255), "x".repeat(300)), new Header("b", "y".repeat(0x1ff))));
        both(Collections.nCopies(64, new Header("a", "1")));
        both(List.of(new Header("a", "x".repeat(16_384 - 4))));
    }

    @Test
    void aBlockIsWholeAndOf16KiBAtMost() {
        for (String frame : new String[] {"", "00", "0001", "00040161", "ffff"}) {
            assertEquals("inner_headers_invalid", codeOf(HexFormat.of().parseHex(frame)), frame);
        }
        assertEquals("accepted", codeOf(HexFormat.of().parseHex("0000")));
        byte[] full = block("0161" + "3ffc" + "78".repeat(16_380));
        assertEquals("accepted", codeOf(full));
        assertEquals("inner_headers_invalid", codeOf(Arrays.copyOf(full, full.length - 1)));
        assertEquals("inner_headers_invalid", codeOf(block("0161" + "3ffd" + "78".repeat(16_381))));
    }

    @Test
    void noHeaderReachesBeyondTheBlock() {
        // Behind each block stands what the header would need.
        for (String headers : new String[] {"01", "0161", "016100", "01610001", "01610005", "ff61", "0161000178" + "0161000278"}) {
            byte[] block = block(headers);
            byte[] frame = Arrays.copyOf(block, block.length + 600);
            Arrays.fill(frame, block.length, frame.length, (byte) 'x');
            assertEquals("inner_headers_invalid", codeOf(frame), headers);
        }
    }

    @Test
    void aNameIsALowerCaseTokenThatMayBeInside() {
        for (String name : new String[] {"", "41", "20", "00", "7f", "e1", "3a"}) {
            String headers = "%02x%s0000".formatted(name.length() / 2, name);
            assertEquals("inner_headers_invalid", codeOf(block(headers)), name);
        }
        for (String name : new String[] {"host", "te", "proxy-a", "x-sealway-a", "x-seal"}) {
            String headers = "%02x%s0000".formatted(name.length(), HexFormat.of().formatHex(name.getBytes(StandardCharsets.US_ASCII)));
            assertEquals("inner_headers_invalid", codeOf(block(headers)), name);
        }
        assertEquals("accepted", codeOf(block("02" + "612d" + "0000")));
    }

    @Test
    void aValueHasNoControlCharacterButTab() {
        for (String value : new String[] {"00", "0a", "0d", "1f", "7f", "780a"}) {
            String headers = "0161%04x%s".formatted(value.length() / 2, value);
            assertEquals("inner_headers_invalid", codeOf(block(headers)), value);
        }
    }

    @Test
    void aBlockHas64HeadersAtMost() {
        List<String> headers = new ArrayList<>(Collections.nCopies(64, "01610000"));
        assertEquals("accepted", codeOf(block(String.join("", headers))));
        headers.add("01610000");
        assertEquals("inner_headers_invalid", codeOf(block(String.join("", headers))));
        assertEquals(64, InnerHeaders.decode(block(String.join("", headers.subList(0, 64)))).headers().list().size());
    }
}
