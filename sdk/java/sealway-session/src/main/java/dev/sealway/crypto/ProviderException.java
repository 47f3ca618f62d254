package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;
import java.security.GeneralSecurityException;

/** A failure of the cryptographic library. */
final class ProviderException {
    private ProviderException() {
    }

    static ProtocolException of(GeneralSecurityException cause) {
        ProtocolException refused = new ProtocolException(Code.PROVIDER);
        refused.initCause(cause);
        return refused;
    }
}
