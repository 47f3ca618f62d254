package dev.sealway.exchange;

import dev.sealway.wire.Code;

/** Reasons for which a server rejects a request. The client gets a coarser word: {@link Rejection#answer}.
 *
 * @param label the stable class, for logs and metrics
 * @param status HTTP status of {@code plain}
 * @param plain the word of {@link Form#PLAIN}
 * @param problem the code of {@link Form#PROBLEM} */
public record Refusal(String label, int status, String plain, String problem) {
    /** A store that cannot be reached. */
    public static final Refusal STORE_UNAVAILABLE = busy("store_unavailable");
    /** A store that holds as many nonces as it may. */
    public static final Refusal NONCES_FULL = new Refusal("nonces_full", 400, "CRYPTO_ERROR", "store_unavailable");
    /** A body that is longer than its bound. */
    public static final Refusal BODY_TOO_LARGE = tooLarge("body_too_large");
    /** A body that was not there within its time. */
    public static final Refusal BODY_TOO_SLOW = unsealable("body_too_slow");
    /** A body whose connection broke. */
    public static final Refusal BODY_BROKEN = unsealable("body_broken");
    /** A body whose client holds as much as it may, or all clients together do. */
    public static final Refusal BODY_NO_ROOM = busy("body_no_room");
    /** An anonymous session outside its allow-list. */
    public static final Refusal FORBIDDEN = forbidden("anonymous_path");
    /** A method that the protocol does not seal. */
    public static final Refusal METHOD = new Refusal("method", 405, "METHOD_NOT_ALLOWED", "method_not_allowed");
    /** A path that may be read as one that must be sealed. */
    public static final Refusal DISGUISED = unsealable("disguised_path");
    /** A plaintext that the handler could not read, where the client expects to hear of that in plain. */
    public static final Refusal UNREADABLE = unsealable("unreadable");
    /** A handler that gave no answer that can be sealed. */
    public static final Refusal UNANSWERED = new Refusal("unanswered", 502, "SERVICE_UNAVAILABLE", "upstream_unreachable");

    /** A message that was compressed after it was sealed. */
    public static final Refusal COMPRESSED = new Refusal("content_encoding", 415, "CRYPTO_ERROR", "unsealable");

    /** Returns the reason for a code of the protocol. */
    public static Refusal of(Code code) {
        String label = code.text();
        return switch (code) {
            case SESSION_UNKNOWN, SESSION_EXPIRED -> new Refusal(label, 401, "SESSION_EXPIRED", "session_expired");
            case TIMESTAMP_OUTSIDE_WINDOW -> new Refusal(label, 400, "CRYPTO_ERROR", "clock_skew");
            case REPLAYED -> new Refusal(label, 400, "CRYPTO_ERROR", "replayed");
            case BODY_TOO_LARGE -> tooLarge(label);
            case POLICY -> forbidden(label);
            case PROVIDER, RESERVATION_MISMATCH -> busy(label);
            default -> unsealable(label);
        };
    }

    /** Returns the reason for a message that does not open, by its class. */
    public static Refusal unsealable(String label) {
        return new Refusal(label, 400, "CRYPTO_ERROR", "unsealable");
    }

    private static Refusal busy(String label) {
        return new Refusal(label, 503, "SERVICE_UNAVAILABLE", "store_unavailable");
    }

    private static Refusal tooLarge(String label) {
        return new Refusal(label, 413, "PAYLOAD_TOO_LARGE", "too_large");
    }

    private static Refusal forbidden(String label) {
        return new Refusal(label, 403, "SESSION_FORBIDDEN", "policy");
    }
}
