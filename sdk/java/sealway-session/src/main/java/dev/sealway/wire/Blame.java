package dev.sealway.wire;

/** Who is to blame for a refusal; the {@code blame} of {@code spec/registry.toml}. */
public enum Blame {
    /** The other side, or whoever stands in between. */
    PEER,
    /** Time: something is over, or a clock is off. */
    EXPIRY,
    /** A bound was met. */
    LIMIT,
    /** Cryptography: what should verify does not. */
    CRYPTO,
    /** The caller of this library. */
    CALLER,
    /** The network, or a service that is away. */
    TRANSPORT
}
