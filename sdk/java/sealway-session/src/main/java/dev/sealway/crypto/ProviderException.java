package dev.sealway.crypto;

import dev.sealway.wire.Code;
import dev.sealway.wire.RefusedException;
import java.security.GeneralSecurityException;

/** What a crypto library that does not work is told as. */
final class ProviderException {
    private ProviderException() {
    }

    static RefusedException of(GeneralSecurityException cause) {
        RefusedException refused = new RefusedException(Code.PROVIDER);
        refused.initCause(cause);
        return refused;
    }
}
