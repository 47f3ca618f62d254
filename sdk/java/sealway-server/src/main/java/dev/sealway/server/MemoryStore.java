package dev.sealway.server;

import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.SessionRecord;
import dev.sealway.wire.Code;
import dev.sealway.wire.RefusedException;
import java.util.HashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/** Sessions and nonces of one process, bounded. It forgets everything at a restart: then no session is known any more. */
public final class MemoryStore implements SessionStore {
    private final Map<String, SessionRecord> sessions = new HashMap<>();
    private final Map<String, Long> claims = new HashMap<>();
    private final int max;
    private final LongSupplier clockMs;

    /** @param max the most sessions, and the most nonces; one more is refused, none is evicted */
    public MemoryStore(int max, LongSupplier clockMs) {
        this.max = max;
        this.clockMs = clockMs;
    }

    /** Keeps a session. */
    public synchronized void put(SessionRecord session) {
        long nowMs = clockMs.getAsLong();
        sessions.values().removeIf(kept -> sessions.size() >= max && kept.isExpired(nowMs));
        if (sessions.size() >= max) {
            throw new StoreException(true, "the store of sessions is full", null);
        }
        sessions.put(session.id(), session);
    }

    /** Forgets a session. */
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
        Long until = claims.get(claim.key());
        if (until != null && until > nowMs) {
            throw new RefusedException(Code.REPLAYED);
        }
        if (claims.size() >= max) {
            claims.values().removeIf(kept -> kept <= nowMs);
        }
        if (claims.size() >= max) {
            throw new StoreException(true, "the store of nonces is full", null);
        }
        claims.put(claim.key(), claim.expiresMs());
        return Fresh.granted(claim);
    }
}
