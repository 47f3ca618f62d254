package dev.sealway.session;

/** The grant of a claim, which a store gives once. Only stores create it. */
public final class Fresh {
    private final Claim claim;

    private Fresh(Claim claim) {
        this.claim = claim;
    }

    /** Creates the grant of a claim that a store has just reserved. */
    public static Fresh granted(Claim claim) {
        return new Fresh(claim);
    }

    Claim claim() {
        return claim;
    }
}
