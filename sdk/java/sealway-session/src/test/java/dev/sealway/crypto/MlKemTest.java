package dev.sealway.crypto;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.sealway.session.nativeprotocol.Acceptance;
import dev.sealway.session.nativeprotocol.Agreement;
import dev.sealway.session.nativeprotocol.ClientShare;
import dev.sealway.session.nativeprotocol.Identity;
import dev.sealway.session.nativeprotocol.InitRequest;
import dev.sealway.session.nativeprotocol.NativeSession;
import dev.sealway.session.nativeprotocol.ServerShare;
import dev.sealway.session.nativeprotocol.Suite;
import dev.sealway.wire.ProtocolException;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The library against the JDK where it has ML-KEM, and alone as on a JDK that has none. */
class MlKemTest {
    private final SecureRandom random = new SecureRandom();

    @AfterEach
    void showPlatform() {
        MlKem.hidePlatform(false);
    }

    private static List<MlKem.Kem> kems() {
        List<MlKem.Kem> out = new ArrayList<>(List.of(new LibraryMlKem()));
        if (PlatformMlKem.isThere()) {
            out.add(new PlatformMlKem());
        }
        return out;
    }

    @Test
    void eachImplementationDecapsulatesCiphertextsOfTheOther() {
        for (MlKem set : MlKem.values()) {
            for (MlKem.Kem one : kems()) {
                for (MlKem.Kem other : kems()) {
                    KeyPair pair = one.generate(set, random);
                    byte[] key = set.encode(pair.getPublic());
                    set.check(key);
                    MlKem.Encapsulation made = other.encapsulate(set, key, random);
                    assertEquals(set.ciphertextLen(), made.ciphertext().length);
                    assertArrayEquals(made.secret(), one.decapsulate(set, pair.getPrivate(), made.ciphertext()));
                    made.ciphertext()[0] ^= 1;
                    byte[] rejected = one.decapsulate(set, pair.getPrivate(), made.ciphertext());
                    assertEquals(32, rejected.length);
                    assertFalse(Arrays.equals(made.secret(), rejected));
                }
            }
        }
    }

    @Test
    void theLibraryServesEverySuiteWithoutTheJdksMlKem() {
        MlKem.hidePlatform(true);
        KeyPair signer = Curve.P256.generate(random);
        Identity identity = new Identity(Curve.P256.encode((ECPublicKey) signer.getPublic()), 0, Long.MAX_VALUE,
                message -> Curve.P256.sign(signer.getPrivate(), message, random));
        for (Suite suite : Suite.values()) {
            Agreement agreement = new Agreement(new Agreement.Offer(List.of(suite.text()), "client-1", null, List.of(), null),
                    ClientShare.generate(suite, random), (UnaryOperator<InitRequest>) null);
            Acceptance.Grant accepted = Acceptance.accept(agreement.request(), null,
                    new Acceptance.Decision(new byte[16], 60, 1_000, "none", null, null), List.of(suite.text()), List.of(identity),
                    chosen -> ServerShare.generate(chosen, random), null);
            NativeSession session = agreement.finish(201, accepted.body(), id -> identity.publicKey());
            assertArrayEquals(accepted.session().key().copy(), session.copyPrk());
        }
        KeyPair pair = MlKem.ML_KEM_768.generate(random);
        assertThrows(ProtocolException.class, () -> MlKem.ML_KEM_768.decapsulate(pair.getPrivate(), new byte[7]));
        assertThrows(ProtocolException.class, () -> MlKem.ML_KEM_768.encapsulate(new byte[7], random));
    }
}
