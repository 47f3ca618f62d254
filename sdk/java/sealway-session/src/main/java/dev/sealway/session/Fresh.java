package dev.sealway.session;

/** A store's word that a claim was granted, now and to nobody before. Only stores make one. */
public final class Fresh {
    private final Claim claim;

    private Fresh(Claim claim) {
        this.claim = claim;
    }

    /** For a store that has just reserved this claim. */
    public static Fresh granted(Claim claim) {
        return new Fresh(claim);
    }

    Claim claim() {
        return claim;
    }
}
