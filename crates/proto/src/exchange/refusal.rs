//! Every reason for which a server refuses an init or a sealed request.

use alloc::string::String;

use crate::error::Error;
use crate::wire::Wire;

/// A fault in the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// The body is longer than its bound.
    #[error("body is over its bound")]
    TooLarge,
    /// The body did not arrive in time.
    #[error("body came too slowly")]
    TooSlow,
    /// The connection broke, or the framing is invalid.
    #[error("body broke off")]
    Broken,
    /// The bodies of this client, or of all clients together, fill the memory allowed for them.
    #[error("no room is left for the body")]
    NoRoom,
}

/// The reason for which a server rejects a request. It contains no secret and no decrypted data. The client receives a coarser
/// code, [`super::Rejection::answer`]; logs and metrics show [`Refusal::class`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A violation of the protocol's own rules.
    #[error(transparent)]
    Wire(#[from] Error),
    /// The store cannot be reached. Contains the cause.
    #[error("store is unavailable: {0}")]
    StoreUnavailable(String),
    /// The store holds its maximum of sessions.
    #[error("store is full")]
    StoreFull,
    /// The store holds its maximum of nonces.
    #[error("nonce store is full")]
    NoncesFull,
    /// A body that could not be read.
    #[error(transparent)]
    Body(#[from] BodyFault),
    /// An anonymous session used a path outside its allow-list.
    #[error("anonymous sessions may not use this path")]
    Forbidden,
    /// The protocol is switched off on this server.
    #[error("wire {} is switched off", .0.name())]
    WireOff(Wire),
    /// The session belongs to another client id than the connection's certificate names.
    #[error("the client's certificate names another client id")]
    AnotherClient,
    /// Too many requests. Contains the seconds until the client may retry.
    #[error("too many requests")]
    RateLimited(u64),
    /// The token does not verify. Contains the cause.
    #[error("token does not verify: {0}")]
    Token(&'static str),
    /// No introspection endpoint answered, so the token's state is unknown. Contains the cause.
    #[error("introspection is unavailable: {0}")]
    IntrospectionUnavailable(String),
    /// The body of a `/v1` request is not declared as JSON.
    #[error("content type is not JSON")]
    ContentType,
    /// The method is not allowed. Contains the allowed ones, in the form of the `Allow` header.
    #[error("only {0} may be used here")]
    Method(&'static str),
    /// The service behind the gateway gave no answer that can be forwarded. Contains the HTTP status for the client.
    #[error("no answer of the service, told as {0}")]
    Unanswered(u16),
}

impl Refusal {
    /// Returns the stable class for logs and metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Refusal::Wire(err) => err.code(),
            Refusal::StoreUnavailable(_) => "store_unavailable",
            Refusal::StoreFull => "store_full",
            Refusal::NoncesFull => "nonces_full",
            Refusal::Body(BodyFault::TooLarge) => "body_too_large",
            Refusal::Body(BodyFault::TooSlow) => "body_too_slow",
            Refusal::Body(BodyFault::Broken) => "body_broken",
            Refusal::Body(BodyFault::NoRoom) => "body_no_room",
            Refusal::Forbidden => "anonymous_path",
            Refusal::WireOff(_) => "wire_off",
            Refusal::AnotherClient => "another_client",
            Refusal::RateLimited(_) => "rate_limited",
            Refusal::Token(_) => "token",
            Refusal::IntrospectionUnavailable(_) => "introspection_unavailable",
            Refusal::ContentType => "content_type",
            Refusal::Method(_) => "method",
            Refusal::Unanswered(_) => "unanswered",
        }
    }
}
