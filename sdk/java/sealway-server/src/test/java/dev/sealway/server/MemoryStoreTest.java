package dev.sealway.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.sealway.session.Claim;
import dev.sealway.session.ReplayPolicy;
import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class MemoryStoreTest {
    private final AtomicLong now = new AtomicLong(1_000_000);

    private Claim claim(Claim.Scope scope, String nonce, long stampMs) {
        return Claim.of(scope, "S-1", nonce, stampMs, now.get(), new ReplayPolicy(1_000));
    }

    @Test
    void grantsNoClaimThatItMayHaveForgotten() {
        MemoryStore store = new MemoryStore(1, now::get);
        store.reserve(claim(Claim.Scope.SESSION, "0123456789abcdef", 1_000_000));
        for (long later : new long[] {1, 1_000, 1_001, 2_001, 20_000, 1L << 40}) {
            now.set(1_000_000 + later);
            Code reason = assertThrows(ProtocolException.class, () -> store.reserve(claim(Claim.Scope.SESSION, "0123456789abcdef", 1_000_000))).reason();
            assertEquals(true, List.of(Code.REPLAYED, Code.TIMESTAMP_OUTSIDE_WINDOW).contains(reason), later + ": " + reason);
        }
    }

    @Test
    void initsOfStrangersUseNoRoomOfSealedCalls() {
        MemoryStore store = new MemoryStore(2, now::get);
        for (int at = 0; at < 3; at++) {
            Claim init = claim(Claim.Scope.CLIENT, "0123456789abcde" + at, now.get());
            if (at < 2) {
                store.reserve(init);
            } else {
                assertThrows(StoreException.class, () -> store.reserve(init));
            }
        }
        store.reserve(claim(Claim.Scope.SESSION, "0123456789abcdef", now.get()));
    }
}
