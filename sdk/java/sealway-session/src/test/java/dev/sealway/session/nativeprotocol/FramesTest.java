package dev.sealway.session.nativeprotocol;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.wire.ProtocolException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Streams of frames at their edges. */
class FramesTest {
    private static final int FRAME_MAX = 65_536;
    private static final int COMMIT = 16;
    private static final int TAG = 16;
    private static final byte[] NO_HEADERS = new byte[2];

    private static FrameKeys keys() {
        return FrameKeys.ofRequest(Protocol.SESSION, SecretBytes.owning(new byte[32]), "POST", "/", "", "1", "n", "S-0");
    }

    private static byte[] bytes(int length) {
        byte[] out = new byte[length];
        for (int at = 0; at < length; at++) {
            out[at] = (byte) (at * 7 + (at >> 8));
        }
        return out;
    }

    private static String code(Runnable step) {
        return assertThrows(ProtocolException.class, step::run).code();
    }

    /** Returns the length of each frame without its tag, that of the last with a minus. */
    private static List<Integer> lengths(byte[] stream) {
        List<Integer> out = new ArrayList<>();
        ByteBuffer at = ByteBuffer.wrap(stream).position(COMMIT);
        while (at.hasRemaining()) {
            int head = at.getInt();
            int length = (head & Integer.MAX_VALUE) - TAG;
            out.add(head < 0 ? -length : length);
            at.position(at.position() + length + TAG);
        }
        return out;
    }

    @Test
    void aWholeStreamIsOfFullFrames() {
        for (int body : new int[] {0, 1, FRAME_MAX - 2, FRAME_MAX - 1, 2 * FRAME_MAX - 2, 2 * FRAME_MAX - 1}) {
            byte[] stream = new FrameSealer(keys()).sealAll(NO_HEADERS, bytes(body));
            assertEquals(FrameSealer.streamLen(body + 2L), stream.length);
            List<Integer> lengths = lengths(stream);
            assertEquals(Math.max(1, (body + 2 + FRAME_MAX - 1) / FRAME_MAX), lengths.size());
            assertEquals(-(body + 2 - (lengths.size() - 1) * FRAME_MAX), lengths.getLast());
            assertArrayEquals(bytes(body), new FrameOpener(keys(), false).openAll(stream));
            byte[] led = new FrameSealer(keys(), new byte[] {1, 2, 3}).sealAll(NO_HEADERS, bytes(body));
            assertArrayEquals(Bytes.join(new byte[] {1, 2, 3}, stream), led);
        }
        assertEquals(COMMIT + 4 + TAG, FrameSealer.streamLen(0));
    }

    @Test
    void aPartIsSealedInFramesOfHalfTheGreatestLength() {
        for (int length : new int[] {0, 1, FRAME_MAX / 2, FRAME_MAX / 2 + 1, FRAME_MAX + 1}) {
            FrameSealer sealer = new FrameSealer(keys()).begin(NO_HEADERS);
            List<byte[]> parts = new ArrayList<>(sealer.seal(bytes(length)));
            assertEquals((length + FRAME_MAX / 2 - 1) / (FRAME_MAX / 2), parts.size());
            parts.add(sealer.seal(new byte[0], 0, 0, true));
            FrameOpener opener = new FrameOpener(keys(), false);
            assertArrayEquals(bytes(length), opener.openAll(Bytes.join(parts.toArray(byte[][]::new))));
            assertEquals(List.of(), opener.headers().list());
        }
    }

    @Test
    void aFrameHas64KiBAtMostAndIsEmptyOnlyAtTheEnd() {
        byte[] big = bytes(FRAME_MAX + 1);
        assertEquals("frame_invalid", code(() -> new FrameSealer(keys()).seal(big, 0, FRAME_MAX + 1, true)));
        assertEquals("frame_invalid", code(() -> new FrameSealer(keys()).begin(NO_HEADERS).seal(big, 0, FRAME_MAX - 1, true)));
        assertEquals("frame_invalid", code(() -> new FrameSealer(keys()).seal(big, 0, 0, false)));
        assertEquals(List.of(2), lengths(new FrameSealer(keys()).begin(NO_HEADERS).seal(big, 0, 0, false)));
        assertEquals(List.of(-FRAME_MAX), lengths(new FrameSealer(keys()).seal(big, 1, FRAME_MAX, true)));
        FrameSealer over = new FrameSealer(keys());
        over.seal(big, 0, 0, true);
        assertEquals("frame_invalid", code(() -> over.seal(big, 0, 1, true)));
    }

    @Test
    void aStreamHasAtMostTwoToTheThirtySecondFrames() throws ReflectiveOperationException {
        FrameSealer sealer = new FrameSealer(keys());
        Field count = FrameSealer.class.getDeclaredField("count");
        count.setAccessible(true);
        count.setLong(sealer, (1L << 32) - 1);
        assertEquals(4 + 1 + TAG, sealer.seal(bytes(1), 0, 1, false).length);
        assertEquals("frame_invalid", code(() -> sealer.seal(bytes(1), 0, 1, true)));
    }

    @Test
    void aKeyIsWipedWithTheLastFrame() {
        FrameKeys sealing = keys();
        FrameSealer sealer = new FrameSealer(sealing).begin(NO_HEADERS);
        byte[] first = sealer.seal(bytes(3), 0, 3, false);
        assertFalse(sealing.key.isDestroyed());
        byte[] last = sealer.seal(bytes(3), 1, 2, true);
        assertTrue(sealing.key.isDestroyed());
        FrameKeys opening = keys();
        FrameOpener opener = new FrameOpener(opening, false);
        assertNull(opener.headers());
        assertArrayEquals(bytes(3), opener.feed(first, 0, first.length).getFirst());
        assertFalse(opening.key.isDestroyed() || opener.isDone());
        assertEquals("stream_truncated", code(opener::finish));
        assertArrayEquals(Arrays.copyOfRange(bytes(3), 1, 3), opener.feed(last, 0, last.length).getFirst());
        assertTrue(opening.key.isDestroyed() && opener.isDone());
        opener.finish();
        assertEquals(List.of(), opener.feed(last, 0, 0));
        assertEquals("frame_invalid", code(() -> opener.feed(last, 0, 1)));
    }

    @Test
    void aStreamIsReadInChunksOfAnyLength() {
        FrameSealer sealer = new FrameSealer(keys()).begin(NO_HEADERS);
        byte[] stream = Bytes.join(sealer.seal(bytes(300), 0, 300, false), sealer.seal(bytes(300), 0, 300, true));
        byte[] behind = Bytes.join(new byte[] {9, 9}, stream);
        for (int chunk = 1; chunk <= stream.length; chunk++) {
            FrameOpener opener = new FrameOpener(keys(), false);
            List<byte[]> out = new ArrayList<>();
            for (int at = 0; at < stream.length; at += chunk) {
                out.addAll(opener.feed(behind, at + 2, Math.min(chunk, stream.length - at)));
            }
            opener.finish();
            assertArrayEquals(Bytes.join(bytes(300), bytes(300)), Bytes.join(out.toArray(byte[][]::new)));
        }
    }

    @Test
    void theLengthOfAFrameIsCheckedAtItsHead() {
        for (int[] given : new int[][] {{TAG - 1, 1, 0}, {TAG, 0, 0}, {TAG, 1, 1}, {TAG + 1, 0, 1}, {FRAME_MAX + TAG, 0, 1}, {FRAME_MAX + TAG + 1, 1, 0},
            {0, 1, 0}, {0x0100_0020, 0, 0}, {0x7fff_ffff, 1, 0}}) {
            byte[] head = ByteBuffer.allocate(COMMIT + 4).put(keys().commit).putInt(given[0] | given[1] << 31).array();
            FrameOpener opener = new FrameOpener(keys(), false);
            if (given[2] == 1) {
                assertEquals(List.of(), opener.feed(head, 0, head.length));
                if (given[0] < FRAME_MAX) {
                    assertEquals("unsealable", code(() -> opener.feed(new byte[given[0]], 0, given[0])));
                }
            } else {
                assertEquals("frame_invalid", code(() -> opener.feed(head, 0, head.length)), Arrays.toString(given));
            }
        }
    }

    @Test
    void aStreamInAHeaderIsOneFrame() {
        byte[] one = new FrameSealer(keys()).sealAll(NO_HEADERS, bytes(1));
        assertArrayEquals(bytes(1), new FrameOpener(keys(), true).openAll(one));
        byte[] first = new FrameSealer(keys()).begin(NO_HEADERS).seal(bytes(1), 0, 1, false);
        assertEquals("stream_truncated", code(() -> new FrameOpener(keys(), true).feed(first, 0, first.length)));
        assertEquals(1, new FrameOpener(keys(), false).feed(first, 0, first.length).size());
    }

    @Test
    void aNonceIsOfTheIvTheNumberAndTheEnd() {
        FrameKeys keys = keys();
        assertArrayEquals(keys.iv, keys.nonce(0, false));
        byte[] nonce = keys.nonce(0x0102_0304_0506_0708L, true);
        byte[] mask = {0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8};
        for (int at = 0; at < nonce.length; at++) {
            assertEquals(mask[at], nonce[at] ^ keys.iv[at]);
        }
    }
}
