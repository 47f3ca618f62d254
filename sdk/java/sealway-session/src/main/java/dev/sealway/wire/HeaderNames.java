package dev.sealway.wire;

import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;

/** Names of the registry's headers, and of those that identify the client to a service. */
public final class HeaderNames {
    /** The session of a message. */
    public static final String X_KID = "X-Kid";
    /** {@code timestamp.nonce}, wires 2 and 3. */
    public static final String X_IDEMPOTENCY_KEY = "X-Idempotency-Key";
    /** The client id of wire 2. */
    public static final String X_CLIENT_ID = "X-ClientId";
    /** The nonce of wire 1. */
    public static final String X_NONCE = "X-Nonce";
    /** The timestamp of wire 1. */
    public static final String X_TIMESTAMP = "X-Timestamp";
    /** The algorithm of wire 1. */
    public static final String X_ENC_ALG = "X-Enc-Alg";
    /** The initialisation vector of wire 1. */
    public static final String X_IV = "X-IV";
    /** The tag of wire 1. */
    public static final String X_TAG = "X-Tag";
    /** The additional authenticated data of wire 1. */
    public static final String X_AAD = "X-AAD";
    /** The mark of wire 3. */
    public static final String X_SEAL = "X-Seal";
    /** The stream of a message of wire 3 that has no body. */
    public static final String X_SEALED = "X-Sealed";
    /** All headers of sealing: none of them reaches the service behind. */
    public static final List<String> SEALING = List.of(X_KID, X_IDEMPOTENCY_KEY, X_CLIENT_ID, X_NONCE, X_TIMESTAMP,
            X_ENC_ALG, X_IV, X_TAG, X_AAD, X_SEAL, X_SEALED);

    private static final Set<String> LOWER = SEALING.stream().map(name -> name.toLowerCase(Locale.ROOT)).collect(Collectors.toUnmodifiableSet());

    /** Headers that describe one body. A digest of a plaintext beside a token would let it be guessed. */
    private static final Set<String> OF_BODY = Set.of("accept-ranges", "content-encoding", "content-length", "content-range", "content-type", "etag",
            "last-modified", "trailer", "transfer-encoding", "content-digest", "repr-digest", "digest", "content-md5");

    private HeaderNames() {
    }

    /** Returns true for a header that describes one body, in any case. */
    public static boolean isOfBody(String name) {
        return OF_BODY.contains(name.toLowerCase(Locale.ROOT));
    }

    /** Returns true for a header of sealing, in any case. */
    public static boolean isSealing(String name) {
        return LOWER.contains(name.toLowerCase(Locale.ROOT));
    }
}
