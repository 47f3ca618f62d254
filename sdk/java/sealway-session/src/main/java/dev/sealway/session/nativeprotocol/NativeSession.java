package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.SecretBytes;

/** A client's session of wire 3. */
public final class NativeSession extends RequestKeys {
    private final InitAnswer agreed;
    private final String clientId;
    private final SessionKeys keys;

    NativeSession(InitAnswer agreed, String clientId, SessionKeys keys) {
        super(Protocol.SESSION, agreed.sessionId(), keys.c2s, keys.s2c, new byte[0]);
        this.agreed = agreed;
        this.clientId = clientId;
        this.keys = keys;
    }

    /** Returns the terms of the session, all under the service's signature. */
    public InitAnswer agreed() {
        return agreed;
    }

    /** Returns the client id of the agreement. */
    public String clientId() {
        return clientId;
    }

    /** Returns the end of its life by the server's clock, in milliseconds of the epoch. */
    public long expiresMs() {
        return agreed.serverTimeMs() + agreed.expiresInSec() * 1000;
    }

    SecretBytes exporter() {
        return keys.exporter();
    }

    /** Returns a copy of its {@code prk}, for tests and stores. */
    public byte[] copyPrk() {
        return keys.prk.copy();
    }

    /** Wipes the keys: nothing can be sealed or opened any more. */
    @Override
    public void close() {
        keys.close();
    }

    @Override
    public String toString() {
        return "NativeSession[" + id() + "]";
    }
}
