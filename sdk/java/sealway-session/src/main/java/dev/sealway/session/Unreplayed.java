package dev.sealway.session;

import dev.sealway.wire.Code;
import dev.sealway.wire.ProtocolException;

/** A value that is out of reach until its nonce has been reserved: no handler can see a replay by forgetting a check. */
public final class Unreplayed<T> {
    private final T value;
    private final Claim claim;

    /** Holds a value back until this claim is granted. */
    public Unreplayed(T value, Claim claim) {
        this.value = value;
        this.claim = claim;
    }

    /** Returns the claim to reserve. */
    public Claim claim() {
        return claim;
    }

    /** Releases the value.
     *
     * @throws ProtocolException {@code reservation_mismatch} for the grant of another claim
     */
    public T release(Fresh fresh) {
        if (!fresh.claim().equals(claim)) {
            throw new ProtocolException(Code.RESERVATION_MISMATCH);
        }
        return value;
    }

    @Override
    public String toString() {
        return "Unreplayed[" + claim + "]";
    }
}
