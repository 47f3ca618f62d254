//! Errors of the session wires, all in one place.
//!
//! [`Error::code`] is stable, listed in `spec/registry.toml`, and meant for logs and metrics. The peer gets a coarser code
//! (each server maps it in one place): all opening failures look alike from outside.

use alloc::string::{String, ToString};

/// Formats an error and all its sources in one line.
pub fn chain(err: &dyn core::error::Error) -> String {
    let sources = core::iter::successors(err.source(), |err| err.source());
    sources.fold(err.to_string(), |text, err| text + ": " + &err.to_string())
}

/// The party at fault for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The other side sent something wrong.
    Peer,
    /// The program that calls this crate used it wrongly.
    Caller,
    /// A configured or fixed bound was reached.
    Limit,
    /// Something was valid once and is no more.
    Expiry,
    /// A key, a tag or the crypto module failed.
    Crypto,
}

/// An error of a session wire. It carries no secret and no decrypted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A header that the wire needs is absent or empty.
    #[error("header {0} is absent or empty")]
    HeaderMissing(&'static str),
    /// A header occurs more than once, is not visible ASCII, or breaks its own form.
    #[error("header {0} is malformed or repeated")]
    HeaderInvalid(&'static str),
    /// `X-Idempotency-Key` is not of the form `timestamp.nonce`.
    #[error("X-Idempotency-Key is not timestamp.nonce")]
    IdempotencyKeyShape,
    /// A nonce has a wrong length or alphabet.
    #[error("nonce has a wrong length or alphabet")]
    NonceInvalid,
    /// A request carries a nonce of the kind that only answers carry: a peer returns an answer as a request.
    #[error("nonce is reserved for answers")]
    NonceReserved,
    /// A timestamp is not a bounded run of decimal digits.
    #[error("timestamp is not decimal digits")]
    TimestampInvalid,
    /// A timestamp is outside the window around the server's clock.
    #[error("timestamp is outside the window")]
    TimestampOutsideWindow,
    /// `X-Kid` does not begin with `session:`.
    #[error("X-Kid has no session: prefix")]
    KidPrefix,
    /// `X-Kid` contains no session id of the right form, or one that the store does not know.
    #[error("session is unknown")]
    SessionUnknown,
    /// The session's lifetime is over.
    #[error("session has expired")]
    SessionExpired,
    /// The session belongs to another client id.
    #[error("session belongs to another client")]
    ClientMismatch,
    /// The session was agreed on another wire.
    #[error("session belongs to another wire")]
    WireMismatch,
    /// A sealed body is shorter than an empty message.
    #[error("sealed body is too short")]
    BodyTooShort,
    /// A body is longer than its bound.
    #[error("body is over its bound")]
    BodyTooLarge,
    /// A sealed body or header is not the base64 that the wire asks for.
    #[error("not canonical base64")]
    Base64Invalid,
    /// Wire 1: `X-AAD` differs from the value that the request itself gives.
    #[error("X-AAD does not match the request")]
    AadMismatch,
    /// The tag does not verify: wrong key, changed bytes, or changed context.
    #[error("message does not open")]
    Unsealable,
    /// The nonce was seen before.
    #[error("nonce was seen before")]
    Replayed,
    /// A body is not JSON.
    #[error("body is not JSON")]
    JsonInvalid,
    /// A member of a JSON body is absent or of a wrong type.
    #[error("member {0} is absent or of a wrong type")]
    FieldInvalid(&'static str),
    /// A public key is not an uncompressed point of P-256.
    #[error("public key is not an uncompressed P-256 point")]
    PublicKeyInvalid,
    /// An answer does not belong to its request.
    #[error("answer does not belong to this request")]
    AnswerMismatch,
    /// A reservation was presented for another nonce than the one it was made for.
    #[error("reservation belongs to another nonce")]
    ReservationMismatch,
    /// The suite of the share is not the first of the client's list that the server supports.
    #[error("the server wants another suite")]
    SuiteRequired,
    /// The suite of an answer is not the first of the client's list that the server's list contains.
    #[error("the answer's suite is not the one that both lists give")]
    SuiteDowngraded,
    /// None of the identity keys that the client pinned is live.
    #[error("no pinned identity key is live")]
    KeyRetired,
    /// An answer is signed by a key that the client does not trust.
    #[error("the identity key is not trusted")]
    KeyUntrusted,
    /// A signature is not of the expected key.
    #[error("signature does not verify")]
    SignatureInvalid,
    /// The server's confirmation does not match the agreed keys.
    #[error("the agreed keys are not confirmed")]
    Unconfirmed,
    /// A sealed stream ends without its last frame.
    #[error("sealed stream ends without its last frame")]
    StreamTruncated,
    /// A frame has a wrong length, is empty and not the last, or follows the last one.
    #[error("frame is malformed")]
    FrameInvalid,
    /// The headers within a seal are malformed, too many, or of a forbidden name.
    #[error("inner headers are malformed")]
    InnerHeadersInvalid,
    /// The answer to a sealed request is not sealed.
    #[error("answer is not sealed")]
    Unsealed,
    /// The client's policy denies it.
    #[error("not allowed by policy")]
    Policy,
    /// The client did not prove its identity.
    #[error("client is not authenticated")]
    Unauthenticated,
    /// The crypto module reported a failure.
    #[error("crypto module failure")]
    Provider,
}

impl Error {
    /// Every code that [`Error::code`] can return, for the test that compares them with `spec/registry.toml`.
    pub const CODES: &'static [&'static str] = &[
        "header_missing",
        "header_invalid",
        "idempotency_key_shape",
        "nonce_invalid",
        "nonce_reserved",
        "timestamp_invalid",
        "timestamp_outside_window",
        "kid_prefix",
        "session_unknown",
        "session_expired",
        "client_mismatch",
        "wire_mismatch",
        "body_too_short",
        "body_too_large",
        "base64_invalid",
        "aad_mismatch",
        "unsealable",
        "replayed",
        "json_invalid",
        "field_invalid",
        "public_key_invalid",
        "answer_mismatch",
        "reservation_mismatch",
        "suite_required",
        "suite_downgraded",
        "key_retired",
        "key_untrusted",
        "signature_invalid",
        "unconfirmed",
        "stream_truncated",
        "frame_invalid",
        "inner_headers_invalid",
        "unsealed",
        "policy",
        "unauthenticated",
        "provider",
    ];

    /// The stable code, for logs and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Error::HeaderMissing(_) => "header_missing",
            Error::HeaderInvalid(_) => "header_invalid",
            Error::IdempotencyKeyShape => "idempotency_key_shape",
            Error::NonceInvalid => "nonce_invalid",
            Error::NonceReserved => "nonce_reserved",
            Error::TimestampInvalid => "timestamp_invalid",
            Error::TimestampOutsideWindow => "timestamp_outside_window",
            Error::KidPrefix => "kid_prefix",
            Error::SessionUnknown => "session_unknown",
            Error::SessionExpired => "session_expired",
            Error::ClientMismatch => "client_mismatch",
            Error::WireMismatch => "wire_mismatch",
            Error::BodyTooShort => "body_too_short",
            Error::BodyTooLarge => "body_too_large",
            Error::Base64Invalid => "base64_invalid",
            Error::AadMismatch => "aad_mismatch",
            Error::Unsealable => "unsealable",
            Error::Replayed => "replayed",
            Error::JsonInvalid => "json_invalid",
            Error::FieldInvalid(_) => "field_invalid",
            Error::PublicKeyInvalid => "public_key_invalid",
            Error::AnswerMismatch => "answer_mismatch",
            Error::ReservationMismatch => "reservation_mismatch",
            Error::SuiteRequired => "suite_required",
            Error::SuiteDowngraded => "suite_downgraded",
            Error::KeyRetired => "key_retired",
            Error::KeyUntrusted => "key_untrusted",
            Error::SignatureInvalid => "signature_invalid",
            Error::Unconfirmed => "unconfirmed",
            Error::StreamTruncated => "stream_truncated",
            Error::FrameInvalid => "frame_invalid",
            Error::InnerHeadersInvalid => "inner_headers_invalid",
            Error::Unsealed => "unsealed",
            Error::Policy => "policy",
            Error::Unauthenticated => "unauthenticated",
            Error::Provider => "provider",
        }
    }

    /// Returns the answer of `/session/init` and sealed calls of wires 1 and 2: the status, and the word under `error`. All
    /// failures to open share one word: no peer learns how far its message came.
    // SPEC session.md#open
    pub fn plain(&self) -> (u16, &'static str) {
        match self {
            Error::SessionUnknown | Error::SessionExpired => (401, "SESSION_EXPIRED"),
            Error::BodyTooLarge => (413, "PAYLOAD_TOO_LARGE"),
            Error::Provider | Error::ReservationMismatch => (503, "SERVICE_UNAVAILABLE"),
            Error::Policy => (403, "SESSION_FORBIDDEN"),
            _ => (400, "CRYPTO_ERROR"),
        }
    }

    /// The party at fault for the error.
    pub fn blame(&self) -> Blame {
        match self {
            Error::BodyTooLarge => Blame::Limit,
            Error::SessionExpired | Error::TimestampOutsideWindow | Error::KeyRetired => Blame::Expiry,
            Error::Unsealable
            | Error::PublicKeyInvalid
            | Error::SuiteDowngraded
            | Error::KeyUntrusted
            | Error::SignatureInvalid
            | Error::Unconfirmed
            | Error::Provider => Blame::Crypto,
            Error::ReservationMismatch => Blame::Caller,
            _ => Blame::Peer,
        }
    }
}
