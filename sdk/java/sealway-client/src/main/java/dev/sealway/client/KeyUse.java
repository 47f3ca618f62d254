package dev.sealway.client;

import dev.sealway.session.nativeprotocol.RequestKeys;

/** Keys in use by one try of a call. */
interface KeyUse {
    /** Returns the keys, which {@link #release} may wipe. */
    RequestKeys keys();

    /** Returns the time to stamp a request with, milliseconds of the epoch. */
    long stampMs();

    /** Ends the use. */
    void release();
}
