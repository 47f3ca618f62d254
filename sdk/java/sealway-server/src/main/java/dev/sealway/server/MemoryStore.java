package dev.sealway.server;

import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Code;
import dev.sealway.wire.Options;
import dev.sealway.wire.ProtocolException;
import java.util.HashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/** A store in memory, for tests and single processes. It forgets all sessions and nonces at a restart. */
public final class MemoryStore implements SessionStore {
    private final Map<String, SessionRecord> sessions = new HashMap<>();
    /** Those whose tag verified apart from the others, which strangers can make. */
    private final Map<Boolean, Map<String, Long>> claims = Map.of(true, new HashMap<>(), false, new HashMap<>());
    private final int max;
    private final LongSupplier clockMs;

    /** Creates an empty store.
     *
     * @param max bound on sessions, and on nonces of sealed calls and of inits each; one more is rejected, none is evicted */
    public MemoryStore(int max, LongSupplier clockMs) {
        this.max = (int) Options.atLeast(max, 1, "max");
        this.clockMs = Options.present(clockMs, "clockMs", "give System::currentTimeMillis");
    }

    /** Adds a session. */
    public synchronized void put(SessionRecord session) {
        long nowMs = clockMs.getAsLong();
        sessions.values().removeIf(kept -> sessions.size() >= max && kept.isExpired(nowMs));
        if (sessions.size() >= max) {
            throw new StoreException(true, "the store of sessions is full", null);
        }
        sessions.put(session.id(), session);
    }

    /** Removes a session. */
    public synchronized void delete(String id) {
        sessions.remove(id);
    }

    @Override
    public synchronized SessionRecord find(String id) {
        return sessions.get(id);
    }

    @Override
    public synchronized Fresh reserve(Claim claim) {
        long nowMs = clockMs.getAsLong();
        // By the clock by which claims are forgotten, and at one moment with it: what was asked long ago may have been granted before.
        if (nowMs > claim.stampMs() + claim.windowMs()) {
            throw new ProtocolException(Code.TIMESTAMP_OUTSIDE_WINDOW);
        }
        Map<String, Long> kind = claims.get(claim.isSealed());
        Long until = kind.get(claim.key());
        if (until != null && until > nowMs) {
            throw new ProtocolException(Code.REPLAYED);
        }
        if (kind.size() >= max) {
            kind.values().removeIf(kept -> kept <= nowMs);
        }
        if (kind.size() >= max) {
            throw new StoreException(true, "the store of nonces is full", null);
        }
        kind.put(claim.key(), claim.expiresMs());
        return Fresh.granted(claim);
    }
}
