package dev.sealway.session.nativeprotocol;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.crypto.Bytes;
import dev.sealway.crypto.Curve;
import dev.sealway.crypto.Hpke;
import dev.sealway.crypto.Kem;
import dev.sealway.crypto.KemSender;
import dev.sealway.crypto.SecretBytes;
import dev.sealway.session.SealedMessage;
import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import dev.sealway.wire.ProtocolException;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Keys of wire 4, and requests that are sealed to them, at their edges. */
class OneShotTest {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final byte[] POINT = Curve.P256.encode((ECPublicKey) Curve.P256.generate(RANDOM).getPublic());
    private static final byte[] SUITE = {0, 4, 0, 1, 0, 2};

    private static byte[] config(int kem, byte[] publicKey) {
        return Bytes.join(new byte[] {7, (byte) (kem >> 8), (byte) kem}, publicKey, SUITE);
    }

    private static String code(Runnable step) {
        return assertThrows(ProtocolException.class, step::run).code();
    }

    @Test
    void aConfigurationIsOfOneSuiteAndAKeyOfItsKem() {
        KeyConfig config = KeyConfig.read(config(0x10, POINT));
        assertEquals(Kem.P256, config.kem());
        assertArrayEquals(POINT, config.publicKey());
        assertEquals("hpke:" + config.name(), config.kid());
        for (int kem : new int[] {0x1010, 0xff10, 0xffff, 0x10ff}) {
            assertNull(KeyConfig.read(config(kem, new byte[1])).kem());
        }
        assertEquals(Kem.X_WING, KeyConfig.read(config(0x647a, new byte[1216])).kem());
        for (byte[] other : List.of(config(0x10, Arrays.copyOf(POINT, 64)), config(0x10, Arrays.copyOf(POINT, 66)), config(0x11, new byte[0]), SUITE,
                new byte[0], Bytes.join(config(0x10, POINT), new byte[1]), config(0x10, Bytes.join(POINT, SUITE)))) {
            assertEquals("field_invalid", code(() -> KeyConfig.read(other)));
        }
    }

    @Test
    void aKidIsAPrefixAndAKeyId() {
        String id = "0123456789abcdef".repeat(2);
        assertTrue(KeyConfig.isKid("hpke:" + id));
        for (String other : new String[] {id, "hpke:", "hpke:" + id + "0", "session:" + id, "HPKE:" + id, "xxxxx" + id}) {
            assertFalse(KeyConfig.isKid(other), other);
        }
    }

    @Test
    void aPskHasAnIdOf64VisibleCharactersAnd32Bytes() {
        for (String good : new String[] {"!", "~", "x".repeat(64)}) {
            assertTrue(OneShotKeys.isPskId(good), good);
        }
        for (String other : new String[] {"", "x".repeat(65), "a b", "\u007f", "x\u0100"}) {
            assertFalse(OneShotKeys.isPskId(other), other);
        }
        assertTrue(OneShotKeys.isPskLength(32));
        assertFalse(OneShotKeys.isPskLength(31) || OneShotKeys.isPskLength(33));
    }

    @Test
    void aRequestBeginsWithModePskIdAndEncapsulation() {
        KeyConfig config = KeyConfig.read(config(0x10, POINT));
        for (String id : new String[] {"", "the-psk"}) {
            KemSender sender = KemSender.generate(Kem.P256, RANDOM);
            Hpke.Psk psk = id.isEmpty() ? null : new Hpke.Psk(id.getBytes(), SecretBytes.owning(new byte[32]));
            OneShotKeys keys = OneShotKeys.agree(config, psk, sender);
            assertEquals(config.name(), keys.id());
            RequestKeys.WholeRequest sealed = keys.seal("POST", "/", List.of(), new byte[1], 1, new byte[16]);
            byte[] lead = Bytes.join(new byte[] {(byte) (id.isEmpty() ? 0 : 1), (byte) id.length()}, id.getBytes(),
                    sender.encapsulate(POINT).enc());
            assertArrayEquals(lead, Arrays.copyOf(sealed.message().body(), lead.length));
            assertEquals(lead.length + FrameSealer.streamLen(3), sealed.message().body().length);
            assertEquals("4", sealed.message().headers().first("X-Seal"));
            keys.close();
            assertThrows(IllegalStateException.class, () -> keys.seal("POST", "/", List.of(), new byte[1], 1, new byte[16]));
            assertThrows(IllegalStateException.class, () -> sealed.call().opening(200, sealed("r-0123456789abcdef", keys)));
        }
        assertEquals("public_key_invalid", code(() -> OneShotKeys.agree(config, null, KemSender.generate(Kem.X25519, RANDOM))));
    }

    private static HeaderList sealed(String nonce, OneShotKeys keys) {
        return HeaderList.of("X-Seal", "4", "X-Kid", "hpke:" + keys.id(), "X-Idempotency-Key", "1." + nonce);
    }

    @Test
    void aKeyIsInUseFromItsBeginToItsEnd() {
        KeyDocument.Key key = new KeyDocument.Key(KeyConfig.read(config(0x10, POINT)), 5, 7, 9);
        assertEquals(List.of(false, true, true, false), List.of(key.isInUse(4), key.isInUse(5), key.isInUse(6), key.isInUse(7)));
        KeyDocument document = KeyDocument.parse("{\"issued_ms\":3,\"expires_ms\":9,\"keys\":[]}".getBytes());
        assertEquals(3, document.issuedMs());
        assertTrue(document.isOver(9) && document.isOver(10) && !document.isOver(8));
    }

    @Test
    void theEncapsulationIsCountedWhereARequestGoesIntoAHeader() {
        OneShotKeys keys = OneShotKeys.agree(KeyConfig.read(config(0x10, POINT)), null, KemSender.generate(Kem.P256, RANDOM));
        // 8192 characters of base64; mode, length and point; length of the block, then of name and value.
        int most = 6144 - (2 + POINT.length) - (int) FrameSealer.streamLen(0) - 2 - 4;
        for (int more : new int[] {0, 1}) {
            List<Header> inner = List.of(new Header("a", "x".repeat(most + more)));
            SealedMessage sealed = keys.seal("GET", "/", inner, new byte[0], 1, new byte[16]).message();
            assertEquals(more == 0 ? 8192 : 0, more == 0 ? sealed.headers().first("X-Sealed").length() : 0);
            assertEquals(more == 0, sealed.headers().has("X-Sealed"));
        }
    }

    @Test
    void theNonceOfAnAnswerHas16Characters() {
        OneShotKeys keys = OneShotKeys.agree(KeyConfig.read(config(0x10, POINT)), null, KemSender.generate(Kem.P256, RANDOM));
        NativeCall call = keys.call("GET", "/", "1", "0123456789abcdef");
        for (String nonce : new String[] {"r-0123456789abcd", "p-0123456789abcd"}) {
            assertEquals(nonce.startsWith("p"), call.opening(200, sealed(nonce, keys)).isProblem());
            assertEquals("nonce_invalid", code(() -> call.opening(200, sealed(nonce.substring(0, 15), keys))));
        }
        assertEquals("answer_mismatch", code(() -> call.opening(200, sealed("0123456789abcdef", keys))));
    }
}
