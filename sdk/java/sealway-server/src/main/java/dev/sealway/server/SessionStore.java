package dev.sealway.server;

import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.SessionRecord;

/** A store of sessions and used nonces. Safe for use by any number of threads. */
public interface SessionStore {
    /** Returns the session of an id, even if it is over; null if there is none.
     *
     * @throws StoreException if the store is unavailable
     */
    SessionRecord find(String id);

    /** Reserves a claim: of any number of equal ones exactly one is granted.
     *
     * @throws dev.sealway.wire.ProtocolException {@code replayed}, {@code timestamp_outside_window}
     * @throws StoreException if the store is unavailable or full; the claim may have been granted, and is not retried
     */
    Fresh reserve(Claim claim);
}
