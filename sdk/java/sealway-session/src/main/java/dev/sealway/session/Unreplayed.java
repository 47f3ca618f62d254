package dev.sealway.session;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;

/** What a message says, out of reach until its nonce is known to be new: no handler can see a replay by forgetting a check. */
public final class Unreplayed<T> {
    private final T value;
    private final Claim claim;

    /** Held back until this claim is granted. */
    public Unreplayed(T value, Claim claim) {
        this.value = value;
        this.claim = claim;
    }

    /** What is to be reserved. */
    public Claim claim() {
        return claim;
    }

    /** What was held back.
     *
     * @throws ProtocolException {@code reservation_mismatch} for the grant of another claim
     */
    public T release(Fresh fresh) {
        if (fresh.claim() != claim && !fresh.claim().equals(claim)) {
            throw new ProtocolException(Code.RESERVATION_MISMATCH);
        }
        return value;
    }

    @Override
    public String toString() {
        return "Unreplayed[" + claim + "]";
    }
}
