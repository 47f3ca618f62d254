package dev.sealway.client;

import dev.sealway.wire.Blame;
import dev.sealway.wire.SealwayException;

/** A request that is not this client's to seal. Nothing of it was sent. */
public final class UsageException extends SealwayException {
    private static final long serialVersionUID = 1;

    /** @param message what is wrong with it; no part of a plaintext */
    public UsageException(String message) {
        super(message, null);
    }

    /** Always {@code usage}. */
    @Override
    public String code() {
        return "usage";
    }

    @Override
    public Blame blame() {
        return Blame.CALLER;
    }
}
