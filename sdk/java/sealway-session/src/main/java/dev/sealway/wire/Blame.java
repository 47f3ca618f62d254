package dev.sealway.wire;

/** Causes of errors: the {@code blame} of {@code spec/registry.toml}. */
public enum Blame {
    /** The other side, or a machine in between. */
    PEER,
    /** Time: a session or key is over, or a clock is wrong. */
    EXPIRY,
    /** A bound was exceeded. */
    LIMIT,
    /** Cryptography: a tag or signature does not verify. */
    CRYPTO,
    /** The caller of this library. */
    CALLER,
    /** The network, or a service that is unavailable. */
    TRANSPORT
}
