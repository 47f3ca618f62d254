package dev.sealway.crypto;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.session.nativeprotocol.KeyConfig;
import dev.sealway.session.nativeprotocol.OneShotKeys;
import dev.sealway.wire.ProtocolException;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Arrays;
import org.bouncycastle.crypto.AsymmetricCipherKeyPair;
import org.bouncycastle.crypto.hpke.HPKE;
import org.bouncycastle.crypto.hpke.HPKEContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The sender of HPKE against the receiver of another implementation, Bouncy Castle's. */
class HpkeTest {
    private static final byte[] INFO = "information".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] PSK_ID = "client-1".getBytes(StandardCharsets.US_ASCII);
    private final SecureRandom random = new SecureRandom();

    @AfterEach
    void showPlatform() {
        MlKem.hidePlatform(false);
    }

    private static HPKE other(Kem kem, boolean hasPsk) {
        return new HPKE(hasPsk ? HPKE.mode_psk : HPKE.mode_base, (short) kem.id(), HPKE.kdf_HKDF_SHA256, HPKE.aead_AES_GCM256);
    }

    private void assertAgreed(Kem kem, boolean hasPsk) {
        HPKE other = other(kem, hasPsk);
        AsymmetricCipherKeyPair pair = other.generatePrivateKey();
        byte[] publicKey = other.serializePublicKey(pair.getPublic());
        assertEquals(kem.publicLen(), publicKey.length);
        byte[] psk = new byte[32];
        random.nextBytes(psk);
        KemSender.Encapsulated made = KemSender.generate(kem, random).encapsulate(publicKey);
        assertEquals(kem.encLen(), made.enc().length);
        HPKEContext theirs = hasPsk ? other.setupPSKR(made.enc(), pair, INFO, psk, PSK_ID) : other.setupBaseR(made.enc(), pair, INFO);
        try (SecretBytes key = SecretBytes.owning(psk.clone());
                Hpke.Exporter ours = Hpke.setup(kem, made.secret(), INFO, hasPsk ? new Hpke.Psk(PSK_ID, key) : null)) {
            for (String context : new String[] {"sealway/4 c2s", ""}) {
                assertArrayEquals(theirs.export(context.getBytes(StandardCharsets.US_ASCII), 32), ours.export(context).copy(), kem + " " + context);
            }
        }
        assertArrayEquals(new byte[32], made.secret(), "the shared secret is wiped");
    }

    @Test
    void everyKemAgreesWithAnotherImplementationWithAndWithoutAPsk() {
        for (Kem kem : Kem.values()) {
            assertTrue(kem.isAvailable());
            assertAgreed(kem, false);
            assertAgreed(kem, true);
        }
    }

    @Test
    void theHybridsWorkWithoutTheJdksMlKem() {
        MlKem.hidePlatform(true);
        assertAgreed(Kem.X_WING, false);
        assertAgreed(Kem.MLKEM768_P256, true);
    }

    @Test
    void anInvalidPublicKeyIsRejected() {
        for (Kem kem : Kem.values()) {
            HPKE other = other(kem, false);
            byte[] good = other.serializePublicKey(other.generatePrivateKey().getPublic());
            assertInvalid(kem, Arrays.copyOf(good, good.length - 1));
            assertInvalid(kem, Arrays.copyOf(good, good.length + 1));
            byte[] group = good.clone();
            // The point of X25519 with a secret of zeros; no point of P-256.
            Arrays.fill(group, good.length - 32, good.length, (byte) 0);
            assertInvalid(kem, group);
            if (!kem.isX25519()) {
                byte[] compressed = good.clone();
                compressed[good.length - Curve.P256.publicLen()] = 2;
                assertInvalid(kem, compressed);
            }
            if (kem.isHybrid()) {
                byte[] coefficient = good.clone();
                Arrays.fill(coefficient, 0, 3, (byte) 0xff);
                assertInvalid(kem, coefficient);
            }
        }
    }

    private void assertInvalid(Kem kem, byte[] publicKey) {
        ProtocolException refused = assertThrows(ProtocolException.class, () -> KemSender.generate(kem, random).encapsulate(publicKey), kem.text());
        assertEquals("public_key_invalid", refused.code());
    }

    private static byte[] config(int kem, byte[] publicKey, byte... suites) {
        return Bytes.join(new byte[] {7, (byte) (kem >> 8), (byte) kem}, publicKey, suites);
    }

    @Test
    void aKeyConfigurationHasExactlyOneSuite() {
        byte[] key = X25519.encode(X25519.generate(random).getPublic());
        byte[] good = config(Kem.X25519.id(), key, (byte) 0, (byte) 4, (byte) 0, (byte) 1, (byte) 0, (byte) 2);
        KeyConfig read = KeyConfig.read(good);
        assertEquals(Kem.X25519, read.kem());
        assertArrayEquals(key, read.publicKey());
        assertTrue(KeyConfig.isKid(read.kid()) && !KeyConfig.isKid(read.name()));
        for (byte[] wrong : new byte[][] {{}, Arrays.copyOf(good, good.length - 1), Bytes.join(good, new byte[1]),
                config(Kem.X25519.id(), key, (byte) 0, (byte) 0), config(Kem.X25519.id(), key, (byte) 0, (byte) 4, (byte) 0, (byte) 1, (byte) 0, (byte) 1),
                config(Kem.X25519.id(), key, (byte) 0, (byte) 8, (byte) 0, (byte) 1, (byte) 0, (byte) 1, (byte) 0, (byte) 1, (byte) 0, (byte) 2)}) {
            assertEquals("field_invalid", assertThrows(ProtocolException.class, () -> KeyConfig.read(wrong)).code());
        }
        assertEquals(null, KeyConfig.read(config(0x0021, new byte[56], (byte) 0, (byte) 4, (byte) 0, (byte) 1, (byte) 0, (byte) 2)).kem());
        // Inputs for one KEM do not serve another.
        assertThrows(ProtocolException.class, () -> OneShotKeys.agree(read, null, KemSender.generate(Kem.P256, random)));
    }

    @Test
    void nothingSecretIsPrinted() {
        KemSender.Encapsulated made = new KemSender.Encapsulated(new byte[] {1}, new byte[] {77});
        assertFalse(made.toString().contains("77"));
        assertEquals("Psk(redacted)", new Hpke.Psk(PSK_ID, SecretBytes.owning(new byte[] {77})).toString());
    }
}
