package dev.sealway.wire;

/** Error codes of {@code spec/registry.toml} for sessions. */
public enum Code {
    /** A required sealing header is absent or empty. */
    HEADER_MISSING("header_missing", Blame.PEER, "A required sealing header is absent or empty."),
    /** A sealing header is repeated, holds bytes beyond ASCII, or breaks its format. */
    HEADER_INVALID("header_invalid", Blame.PEER, "A sealing header is repeated, holds bytes beyond ASCII, or breaks its format."),
    /** X-Idempotency-Key is not timestamp.nonce; on an init, also if the header is repeated. */
    IDEMPOTENCY_KEY_SHAPE("idempotency_key_shape", Blame.PEER, "X-Idempotency-Key is not timestamp.nonce; on an init, also if the header is repeated."),
    /** A nonce has a wrong length or alphabet. */
    NONCE_INVALID("nonce_invalid", Blame.PEER, "A nonce has a wrong length or alphabet."),
    /** A request carries a nonce of the form that is reserved for responses. */
    NONCE_RESERVED("nonce_reserved", Blame.PEER, "A request carries a nonce of the form that is reserved for responses."),
    /** A timestamp is not 1 to 15 decimal digits. */
    TIMESTAMP_INVALID("timestamp_invalid", Blame.PEER, "A timestamp is not 1 to 15 decimal digits."),
    /** A timestamp differs from the server's clock by more than the replay window. */
    TIMESTAMP_OUTSIDE_WINDOW("timestamp_outside_window", Blame.EXPIRY, "A timestamp differs from the server's clock by more than the replay window."),
    /** X-Kid does not begin with `session:`. */
    KID_PREFIX("kid_prefix", Blame.PEER, "X-Kid does not begin with `session:`."),
    /** X-Kid is not a well-formed session id, or no store has the session. */
    SESSION_UNKNOWN("session_unknown", Blame.PEER, "X-Kid is not a well-formed session id, or no store has the session."),
    /** The session has reached the end of its lifetime. */
    SESSION_EXPIRED("session_expired", Blame.EXPIRY, "The session has reached the end of its lifetime."),
    /** The session belongs to another client id. */
    CLIENT_MISMATCH("client_mismatch", Blame.PEER, "The session belongs to another client id."),
    /** The session was agreed under another protocol than the one of the request. */
    WIRE_MISMATCH("wire_mismatch", Blame.PEER, "The session was agreed under another protocol than the one of the request."),
    /** A sealed body is shorter than the seal of an empty message. */
    BODY_TOO_SHORT("body_too_short", Blame.PEER, "A sealed body is shorter than the seal of an empty message."),
    /** A body, or a path that v1 authenticates, exceeds its bound. */
    BODY_TOO_LARGE("body_too_large", Blame.LIMIT, "A body, or a path that v1 authenticates, exceeds its bound."),
    /** A sealed body is not the base64 that the protocol requires. */
    BASE64_INVALID("base64_invalid", Blame.PEER, "A sealed body is not the base64 that the protocol requires."),
    /** v1: X-AAD differs from the additional data that the message itself gives. */
    AAD_MISMATCH("aad_mismatch", Blame.PEER, "v1: X-AAD differs from the additional data that the message itself gives."),
    /** The authentication tag does not verify: another key, changed bytes or a changed context (method, path, headers). */
    UNSEALABLE("unsealable", Blame.CRYPTO, "The authentication tag does not verify: another key, changed bytes or a changed context (method, path, headers)."),
    /** The nonce was received before. */
    REPLAYED("replayed", Blame.PEER, "The nonce was received before."),
    /** A body is not JSON, or is nested too deeply. */
    JSON_INVALID("json_invalid", Blame.PEER, "A body is not JSON, or is nested too deeply."),
    /** A member of a JSON body is absent or has a wrong type. */
    FIELD_INVALID("field_invalid", Blame.PEER, "A member of a JSON body is absent or has a wrong type."),
    /** A public key is not the base64 of an uncompressed P-256 point. */
    PUBLIC_KEY_INVALID("public_key_invalid", Blame.CRYPTO, "A public key is not the base64 of an uncompressed P-256 point."),
    /** A response belongs to another session, or carries the nonce of a request. */
    ANSWER_MISMATCH("answer_mismatch", Blame.PEER, "A response belongs to another session, or carries the nonce of a request."),
    /** A reservation was presented for a nonce that it was not made for: a defect of the server. */
    RESERVATION_MISMATCH("reservation_mismatch", Blame.CALLER, "A reservation was presented for a nonce that it was not made for: a defect of the server."),
    /** The key share is not for the first suite of the client's list that the server supports. */
    SUITE_REQUIRED("suite_required", Blame.PEER, "The key share is not for the first suite of the client's list that the server supports."),
    /** The suite of a response is not the first of the client's list that the server supports. */
    SUITE_DOWNGRADED("suite_downgraded", Blame.CRYPTO, "The suite of a response is not the first of the client's list that the server supports."),
    /** None of the identity keys that the client pinned is in use any more. */
    KEY_RETIRED("key_retired", Blame.EXPIRY, "None of the identity keys that the client pinned is in use any more."),
    /** A response is signed by an identity key that the client does not trust. */
    KEY_UNTRUSTED("key_untrusted", Blame.CRYPTO, "A response is signed by an identity key that the client does not trust."),
    /** A signature does not verify under the identity key that it names. */
    SIGNATURE_INVALID("signature_invalid", Blame.CRYPTO, "A signature does not verify under the identity key that it names."),
    /** The server's key confirmation does not follow from the agreed keys. */
    UNCONFIRMED("unconfirmed", Blame.CRYPTO, "The server's key confirmation does not follow from the agreed keys."),
    /** A sealed stream ended before its last frame. */
    STREAM_TRUNCATED("stream_truncated", Blame.PEER, "A sealed stream ended before its last frame."),
    /** A frame has a wrong length, is empty without being the last, or follows the last one. */
    FRAME_INVALID("frame_invalid", Blame.PEER, "A frame has a wrong length, is empty without being the last, or follows the last one."),
    /** The headers inside the seal are malformed, too many, or have a name that is not allowed there. */
    INNER_HEADERS_INVALID("inner_headers_invalid", Blame.PEER, "The headers inside the seal are malformed, too many, or have a name that is not allowed there."),
    /** The response to a sealed request is not sealed. */
    UNSEALED("unsealed", Blame.PEER, "The response to a sealed request is not sealed."),
    /** The policy of this client does not allow the request. */
    POLICY("policy", Blame.PEER, "The policy of this client does not allow the request."),
    /** The client did not authenticate. */
    UNAUTHENTICATED("unauthenticated", Blame.PEER, "The client did not authenticate."),
    /** The cryptographic module failed. */
    PROVIDER("provider", Blame.CRYPTO, "The cryptographic module failed.");

    private final String text;
    private final Blame blame;
    private final String meaning;

    Code(String text, Blame blame, String meaning) {
        this.text = text;
        this.blame = blame;
        this.meaning = meaning;
    }

    /** Returns the code as the registry spells it. */
    public String text() {
        return text;
    }

    /** Returns the cause. */
    public Blame blame() {
        return blame;
    }

    /** Returns the meaning, in a sentence. */
    public String meaning() {
        return meaning;
    }
}
