package dev.sealway.server;

import dev.sealway.session.Claim;
import dev.sealway.session.Fresh;
import dev.sealway.session.SessionRecord;

/** Where sessions and used nonces are kept. Safe for use by any number of threads. */
public interface SessionStore {
    /** The session of an id, even one that is over; null where there is none.
     *
     * @throws StoreException
     */
    SessionRecord find(String id);

    /** Reserves a claim: of any number of equal ones exactly one is granted.
     *
     * @throws dev.sealway.wire.ProtocolException {@code replayed}, {@code timestamp_outside_window}
     * @throws StoreException then it may have been granted, and is not asked for again
     */
    Fresh reserve(Claim claim);
}
