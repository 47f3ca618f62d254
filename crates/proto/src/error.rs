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

/// Declares an enum of errors, a row for each: its code, and its sentence, in which `{0}` is the payload.
macro_rules! errors {
    ($(#[$doc:meta])* pub enum $name:ident {
        $($(#[$row_doc:meta])* $row:ident$(($payload:ty))? = $code:literal, $text:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$row_doc])* #[error($text)] $row$(($payload))?,)*
        }

        impl $name {
            /// One of each, for the tests that compare them with `spec/registry.toml`.
            pub const ALL: &'static [$name] = &[$($name::$row$(({ const EMPTY: $payload = ""; EMPTY }))?),*];

            /// The stable code, for logs and metrics.
            pub fn code(&self) -> &'static str {
                match self {
                    $($name::$row { .. } => $code,)*
                }
            }
        }
    };
}
#[cfg(feature = "channel")]
pub(crate) use errors;

errors! {
    /// An error of a session wire. It carries no secret and no decrypted bytes.
    pub enum Error {
        /// A header that the wire needs is absent or empty.
        HeaderMissing(&'static str) = "header_missing", "header {0} is absent or empty";
        /// A header occurs more than once, is not visible ASCII, or breaks its own form.
        HeaderInvalid(&'static str) = "header_invalid", "header {0} is malformed or repeated";
        /// `X-Idempotency-Key` is not of the form `timestamp.nonce`.
        IdempotencyKeyShape = "idempotency_key_shape", "X-Idempotency-Key is not timestamp.nonce";
        /// A nonce has a wrong length or alphabet.
        NonceInvalid = "nonce_invalid", "nonce has a wrong length or alphabet";
        /// A request carries a nonce of the kind that only answers carry: a peer returns an answer as a request.
        NonceReserved = "nonce_reserved", "nonce is reserved for answers";
        /// A timestamp is not a bounded run of decimal digits.
        TimestampInvalid = "timestamp_invalid", "timestamp is not decimal digits";
        /// A timestamp is outside the window around the server's clock.
        TimestampOutsideWindow = "timestamp_outside_window", "timestamp is outside the window";
        /// `X-Kid` does not begin with `session:`.
        KidPrefix = "kid_prefix", "X-Kid has no session: prefix";
        /// `X-Kid` contains no session id of the right form, or one that the store does not know.
        SessionUnknown = "session_unknown", "session is unknown";
        /// The session's lifetime is over.
        SessionExpired = "session_expired", "session has expired";
        /// The session belongs to another client id.
        ClientMismatch = "client_mismatch", "session belongs to another client";
        /// The session was agreed on another wire.
        WireMismatch = "wire_mismatch", "session belongs to another wire";
        /// A sealed body is shorter than an empty message.
        BodyTooShort = "body_too_short", "sealed body is too short";
        /// A body is longer than its bound.
        BodyTooLarge = "body_too_large", "body is over its bound";
        /// A sealed body or header is not the base64 that the wire asks for.
        Base64Invalid = "base64_invalid", "not canonical base64";
        /// Wire 1: `X-AAD` differs from the value that the request itself gives.
        AadMismatch = "aad_mismatch", "X-AAD does not match the request";
        /// The tag does not verify: wrong key, changed bytes, or changed context.
        Unsealable = "unsealable", "message does not open";
        /// The nonce was seen before.
        Replayed = "replayed", "nonce was seen before";
        /// A body is not JSON.
        JsonInvalid = "json_invalid", "body is not JSON";
        /// A member of a JSON body is absent or of a wrong type.
        FieldInvalid(&'static str) = "field_invalid", "member {0} is absent or of a wrong type";
        /// A public key does not have the form of its algorithm: its length, or a point off the curve.
        PublicKeyInvalid = "public_key_invalid", "public key is not one of its algorithm";
        /// An answer does not belong to its request.
        AnswerMismatch = "answer_mismatch", "answer does not belong to this request";
        /// A reservation was presented for another nonce than the one it was made for.
        ReservationMismatch = "reservation_mismatch", "reservation belongs to another nonce";
        /// The suite of the share is not the first of the client's list that the server supports.
        SuiteRequired = "suite_required", "the server wants another suite";
        /// The suite of an answer is not the first of the client's list that the server's list contains.
        SuiteDowngraded = "suite_downgraded", "the answer's suite is not the one that both lists give";
        /// No live identity key is one that the client pinned, and of an algorithm that it accepts.
        KeyRetired = "key_retired", "no live identity key is one that the client pins and accepts";
        /// An answer is signed by a key that the client does not trust.
        KeyUntrusted = "key_untrusted", "the identity key is not trusted";
        /// A signature is not of the expected key.
        SignatureInvalid = "signature_invalid", "signature does not verify";
        /// The server's confirmation does not match the agreed keys.
        Unconfirmed = "unconfirmed", "the agreed keys are not confirmed";
        /// A sealed stream ends without its last frame.
        StreamTruncated = "stream_truncated", "sealed stream ends without its last frame";
        /// A frame has a wrong length, is empty and not the last, or follows the last one.
        FrameInvalid = "frame_invalid", "frame is malformed";
        /// The headers within a seal are malformed, too many, or of a forbidden name.
        InnerHeadersInvalid = "inner_headers_invalid", "inner headers are malformed";
        /// The answer to a sealed request is not sealed.
        Unsealed = "unsealed", "answer is not sealed";
        /// The client's policy denies it.
        Policy = "policy", "not allowed by policy";
        /// The client did not prove its identity.
        Unauthenticated = "unauthenticated", "client is not authenticated";
        /// The crypto module reported a failure.
        Provider = "provider", "crypto module failure";
    }
}

impl Error {
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
