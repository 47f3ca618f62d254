//! Every reason for which a server refuses an init or a sealed request.

use alloc::string::String;

use crate::error::Error;
use crate::wire::Wire;

/// A fault in the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// Longer than its bound.
    #[error("body is over its bound")]
    TooLarge,
    /// Not there within its time.
    #[error("body came too slowly")]
    TooSlow,
    /// The connection broke, or the framing is wrong.
    #[error("body broke off")]
    Broken,
    /// Its client holds as much as it may, or all clients together do.
    #[error("no room is left for the body")]
    NoRoom,
}

/// The reason for which a server refuses a request. It carries no secret and nothing that was decrypted. The client is told a coarser word,
/// [`super::Rejection::answer`]; the log and the metrics have [`Refusal::class`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The wire's own rules.
    #[error(transparent)]
    Wire(#[from] Error),
    /// A store that cannot be reached, and why.
    #[error("store is unavailable: {0}")]
    StoreUnavailable(String),
    /// A store that holds as many sessions as it may.
    #[error("store is full")]
    StoreFull,
    /// A store that holds as many nonces as it may.
    #[error("nonce store is full")]
    NoncesFull,
    /// A body that could not be read.
    #[error(transparent)]
    Body(#[from] BodyFault),
    /// An anonymous session outside its allow-list.
    #[error("anonymous sessions may not use this path")]
    Forbidden,
    /// A wire that is switched off.
    #[error("wire {} is switched off", .0.name())]
    WireOff(Wire),
    /// A session of another client than the connection's certificate names.
    #[error("the client's certificate names another client id")]
    AnotherClient,
    /// Too many requests; try again after so many seconds.
    #[error("too many requests")]
    RateLimited(u64),
    /// A token that does not verify.
    #[error("token does not verify: {0}")]
    Token(&'static str),
    /// No introspection endpoint says whether a token is good.
    #[error("introspection is unavailable: {0}")]
    IntrospectionUnavailable(String),
    /// `/v1`: a body that is not declared as JSON.
    #[error("content type is not JSON")]
    ContentType,
    /// Another method than those named, in the form of `Allow`.
    #[error("only {0} may be used here")]
    Method(&'static str),
    /// The service behind gave no answer that can be passed on; what its failure is as a status.
    #[error("no answer of the service, told as {0}")]
    Unanswered(u16),
}

impl Refusal {
    /// The stable class, for logs and metrics.
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
