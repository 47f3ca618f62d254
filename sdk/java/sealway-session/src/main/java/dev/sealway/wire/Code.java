package dev.sealway.wire;

/** Why something is refused: the error codes of {@code spec/registry.toml} that the wires of sessions know. */
public enum Code {
    /** A header that the wire needs is absent or empty. */
    HEADER_MISSING("header_missing", Blame.PEER, "A header that the wire needs is absent or empty."),
    /** A header is repeated, holds bytes beyond ASCII, or breaks its own form. */
    HEADER_INVALID("header_invalid", Blame.PEER, "A header is repeated, holds bytes beyond ASCII, or breaks its own form."),
    /** X-Idempotency-Key is not timestamp.nonce; on an init, also when it is repeated. */
    IDEMPOTENCY_KEY_SHAPE("idempotency_key_shape", Blame.PEER, "X-Idempotency-Key is not timestamp.nonce; on an init, also when it is repeated."),
    /** A nonce has a wrong length or alphabet. */
    NONCE_INVALID("nonce_invalid", Blame.PEER, "A nonce has a wrong length or alphabet."),
    /** A request carries a nonce of the kind that only answers carry. */
    NONCE_RESERVED("nonce_reserved", Blame.PEER, "A request carries a nonce of the kind that only answers carry."),
    /** A timestamp is not 1 to 15 decimal digits. */
    TIMESTAMP_INVALID("timestamp_invalid", Blame.PEER, "A timestamp is not 1 to 15 decimal digits."),
    /** A timestamp is too far from the reader's clock. */
    TIMESTAMP_OUTSIDE_WINDOW("timestamp_outside_window", Blame.EXPIRY, "A timestamp is too far from the reader's clock."),
    /** X-Kid does not begin with session:. */
    KID_PREFIX("kid_prefix", Blame.PEER, "X-Kid does not begin with session:."),
    /** X-Kid names no session id of the right form, or one that no store knows. */
    SESSION_UNKNOWN("session_unknown", Blame.PEER, "X-Kid names no session id of the right form, or one that no store knows."),
    /** The session's time is over. */
    SESSION_EXPIRED("session_expired", Blame.EXPIRY, "The session's time is over."),
    /** The session belongs to another client id. */
    CLIENT_MISMATCH("client_mismatch", Blame.PEER, "The session belongs to another client id."),
    /** The session was agreed on another wire. */
    WIRE_MISMATCH("wire_mismatch", Blame.PEER, "The session was agreed on another wire."),
    /** A sealed body is shorter than an empty message. */
    BODY_TOO_SHORT("body_too_short", Blame.PEER, "A sealed body is shorter than an empty message."),
    /** A body, or a path that wire 1 authenticates, is over its bound. */
    BODY_TOO_LARGE("body_too_large", Blame.LIMIT, "A body, or a path that wire 1 authenticates, is over its bound."),
    /** A sealed body is not the base64 that the wire asks for. */
    BASE64_INVALID("base64_invalid", Blame.PEER, "A sealed body is not the base64 that the wire asks for."),
    /** Wire 1: X-AAD is not what the message itself gives. */
    AAD_MISMATCH("aad_mismatch", Blame.PEER, "Wire 1: X-AAD is not what the message itself gives."),
    /** The tag does not verify: wrong key, changed bytes or changed context. */
    UNSEALABLE("unsealable", Blame.CRYPTO, "The tag does not verify: wrong key, changed bytes or changed context."),
    /** The nonce was seen before. */
    REPLAYED("replayed", Blame.PEER, "The nonce was seen before."),
    /** A body is not JSON, or is nested too deep. */
    JSON_INVALID("json_invalid", Blame.PEER, "A body is not JSON, or is nested too deep."),
    /** A member of a JSON body is absent or of a wrong type. */
    FIELD_INVALID("field_invalid", Blame.PEER, "A member of a JSON body is absent or of a wrong type."),
    /** A public key is not the base64 of an uncompressed point of P-256. */
    PUBLIC_KEY_INVALID("public_key_invalid", Blame.CRYPTO, "A public key is not the base64 of an uncompressed point of P-256."),
    /** An answer is of another session, or carries the nonce of a request. */
    ANSWER_MISMATCH("answer_mismatch", Blame.PEER, "An answer is of another session, or carries the nonce of a request."),
    /** A reservation was presented for another nonce than its own: a defect of the server. */
    RESERVATION_MISMATCH("reservation_mismatch", Blame.CALLER, "A reservation was presented for another nonce than its own: a defect of the server."),
    /** The suite of the share is not the first of the client's list that the server takes. */
    SUITE_REQUIRED("suite_required", Blame.PEER, "The suite of the share is not the first of the client's list that the server takes."),
    /** The suite of an answer is not the first of the client's list that is in the server's. */
    SUITE_DOWNGRADED("suite_downgraded", Blame.CRYPTO, "The suite of an answer is not the first of the client's list that is in the server's."),
    /** None of the identity keys that the client pinned is live. */
    KEY_RETIRED("key_retired", Blame.EXPIRY, "None of the identity keys that the client pinned is live."),
    /** An answer is signed by a key that the client does not trust. */
    KEY_UNTRUSTED("key_untrusted", Blame.CRYPTO, "An answer is signed by a key that the client does not trust."),
    /** A signature is not of the key that it should be of. */
    SIGNATURE_INVALID("signature_invalid", Blame.CRYPTO, "A signature is not of the key that it should be of."),
    /** The server's confirmation is not what the agreed keys give. */
    UNCONFIRMED("unconfirmed", Blame.CRYPTO, "The server's confirmation is not what the agreed keys give."),
    /** A sealed stream ends without its last frame. */
    STREAM_TRUNCATED("stream_truncated", Blame.PEER, "A sealed stream ends without its last frame."),
    /** A frame has a wrong length, is empty and not the last, or stands behind the last one. */
    FRAME_INVALID("frame_invalid", Blame.PEER, "A frame has a wrong length, is empty and not the last, or stands behind the last one."),
    /** The headers within a seal are malformed, too many, or of a name that may not be there. */
    INNER_HEADERS_INVALID("inner_headers_invalid", Blame.PEER, "The headers within a seal are malformed, too many, or of a name that may not be there."),
    /** An answer to a sealed request is not sealed. */
    UNSEALED("unsealed", Blame.PEER, "An answer to a sealed request is not sealed."),
    /** The client's policy does not allow it. */
    POLICY("policy", Blame.PEER, "The client's policy does not allow it."),
    /** The client did not prove who it is. */
    UNAUTHENTICATED("unauthenticated", Blame.PEER, "The client did not prove who it is."),
    /** The crypto module refused to work. */
    PROVIDER("provider", Blame.CRYPTO, "The crypto module refused to work.");

    private final String text;
    private final Blame blame;
    private final String meaning;

    Code(String text, Blame blame, String meaning) {
        this.text = text;
        this.blame = blame;
        this.meaning = meaning;
    }

    /** The code as the registry spells it. */
    public String text() {
        return text;
    }

    /** Who is to blame. */
    public Blame blame() {
        return blame;
    }

    /** What it means, in a sentence. */
    public String meaning() {
        return meaning;
    }
}
