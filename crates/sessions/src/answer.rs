//! The one place that says what a refusal looks like over HTTP: coarse to the peer, precise to the log and metrics.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use parking_lot::Mutex;
use sealway_proto::Error;
use sealway_proto::wire::Wire;
use sealway_runtime::http::notices::Gate;
use sealway_runtime::http::{Body, BodyRefusal, full};

use crate::store::{ReserveError, StoreError};

static REPLAYS: AtomicU64 = AtomicU64::new(0);

/// Bounds on lines of the log, by what was refused and its class: whoever is refused decides how often.
static NOTICES: LazyLock<Mutex<HashMap<(&'static str, &'static str), Gate>>> = LazyLock::new(Mutex::default);

/// How many replays this process has refused.
pub fn replays_refused() -> u64 {
    REPLAYS.load(Ordering::Relaxed)
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The wire's own rules.
    #[error(transparent)]
    Wire(#[from] Error),
    /// A store that cannot be reached, or holds as many sessions as it may.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The nonce store holds as many as it may.
    #[error("nonce store is full")]
    NoncesFull,
    /// A body that could not be read.
    #[error(transparent)]
    Body(#[from] BodyRefusal),
    /// An anonymous session outside its allow-list.
    #[error("anonymous sessions may not use this path")]
    Forbidden,
    /// A wire that is switched off.
    #[error("wire {} is switched off", .0.name())]
    WireOff(Wire),
    /// A session of another client than the connection's certificate names.
    #[error("the client's certificate names another client id")]
    AnotherClient,
    /// Too many inits; try again after so many seconds.
    #[error("too many requests")]
    RateLimited(u64),
    /// A token that does not verify.
    #[error("token does not verify: {0}")]
    Token(&'static str),
    /// Nobody says whether a token is good.
    #[error("introspection is unavailable: {0}")]
    IntrospectionUnavailable(String),
    /// `/v1`: a body that is not declared as JSON.
    #[error("content type is not JSON")]
    ContentType,
}

impl From<ReserveError> for Refusal {
    fn from(err: ReserveError) -> Self {
        match err {
            ReserveError::Replayed => Error::Replayed.into(),
            ReserveError::Full => Refusal::NoncesFull,
            ReserveError::Unavailable(reason) => StoreError::Unavailable(reason).into(),
        }
    }
}

impl Refusal {
    /// The stable class, for logs and metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Refusal::Wire(err) => err.code(),
            Refusal::Store(StoreError::Unavailable(_)) => "store_unavailable",
            Refusal::Store(StoreError::Full) => "store_full",
            Refusal::NoncesFull => "nonces_full",
            Refusal::Body(BodyRefusal::TooLarge) => "body_too_large",
            Refusal::Body(BodyRefusal::TooSlow) => "body_too_slow",
            Refusal::Body(BodyRefusal::Broken) => "body_broken",
            Refusal::Body(BodyRefusal::NoRoom) => "body_no_room",
            Refusal::Forbidden => "anonymous_path",
            Refusal::WireOff(_) => "wire_off",
            Refusal::AnotherClient => "another_client",
            Refusal::RateLimited(_) => "rate_limited",
            Refusal::Token(_) => "token",
            Refusal::IntrospectionUnavailable(_) => "introspection_unavailable",
            Refusal::ContentType => "content_type",
        }
    }

    /// Counts the refusal and logs its class: of each class some lines, the next with the number of those that were kept back.
    /// `what` is `init`, `call` or `seal`.
    pub fn report(&self, what: &'static str) {
        metrics::counter!("sealway_refusals_total", "on" => what, "class" => self.class()).increment(1);
        if matches!(self, Refusal::Wire(Error::Replayed)) {
            REPLAYS.fetch_add(1, Ordering::Relaxed);
        }
        let kept_back = NOTICES.lock().entry((what, self.class())).or_default().pass(Instant::now());
        if let Some(kept_back) = kept_back {
            tracing::info!(on = what, class = self.class(), kept_back, "refused: {self}");
        }
    }

    /// What `/session/init`, `/session/init/anon` and sealed calls answer: `{"error": CODE}`.
    pub fn plain(&self) -> Response<Body> {
        match self {
            Refusal::Wire(Error::Provider)
            | Refusal::Store(_)
            | Refusal::IntrospectionUnavailable(_)
            | Refusal::Body(BodyRefusal::NoRoom) => busy(),
            Refusal::Wire(err) => {
                let (status, code) = err.plain();
                plain_error(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), code)
            }
            Refusal::Body(BodyRefusal::TooLarge) => plain_error(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
            Refusal::Forbidden | Refusal::AnotherClient => plain_error(StatusCode::FORBIDDEN, "SESSION_FORBIDDEN"),
            Refusal::WireOff(_) => plain_error(StatusCode::FORBIDDEN, "WIRE_DISABLED"),
            Refusal::RateLimited(sec) => retry_after(plain_error(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED"), *sec),
            Refusal::NoncesFull | Refusal::Body(_) | Refusal::Token(_) | Refusal::ContentType => {
                plain_error(StatusCode::BAD_REQUEST, "CRYPTO_ERROR")
            }
        }
    }

    /// What `/v1` answers: `{"error": reason phrase, "message": text}`.
    pub fn v1(&self) -> Response<Body> {
        let bad = |message: &str| v1_error(StatusCode::BAD_REQUEST, message);
        match self {
            Refusal::Wire(err) => match err {
                Error::HeaderMissing("x-idempotency-key") => bad("X-Idempotency-Key header is required"),
                Error::HeaderMissing(_) => bad("X-ClientId header is required"),
                Error::HeaderInvalid(_) => bad("Invalid X-ClientId header"),
                Error::IdempotencyKeyShape => bad("Invalid X-Idempotency-Key format (expected: timestamp.nonce)"),
                Error::NonceInvalid | Error::NonceReserved => bad("Invalid nonce format"),
                Error::TimestampInvalid | Error::TimestampOutsideWindow => bad("Invalid or expired timestamp"),
                Error::PublicKeyInvalid => bad("Invalid client public key"),
                Error::FieldInvalid(_) => bad("clientPublicKey is required"),
                Error::Unauthenticated => v1_error(StatusCode::UNAUTHORIZED, "Authorization is required"),
                Error::Policy => v1_error(StatusCode::FORBIDDEN, "Not authorized"),
                Error::Replayed => v1_error(StatusCode::CONFLICT, "Request already processed (replay detected)"),
                Error::Provider => {
                    retry_soon(v1_error(StatusCode::SERVICE_UNAVAILABLE, "Service temporarily unavailable"))
                }
                _ => bad("Request body is not valid JSON"),
            },
            Refusal::NoncesFull => retry_soon(v1_error(
                StatusCode::SERVICE_UNAVAILABLE,
                "Replay protection service temporarily unavailable",
            )),
            Refusal::Store(_) => {
                retry_soon(v1_error(StatusCode::SERVICE_UNAVAILABLE, "Session store temporarily unavailable"))
            }
            Refusal::IntrospectionUnavailable(_) => {
                retry_soon(v1_error(StatusCode::SERVICE_UNAVAILABLE, "Token verification temporarily unavailable"))
            }
            Refusal::Body(BodyRefusal::TooLarge) => {
                v1_error(StatusCode::PAYLOAD_TOO_LARGE, "Request body is too large")
            }
            Refusal::Body(BodyRefusal::TooSlow) => {
                v1_error(StatusCode::REQUEST_TIMEOUT, "Request body came too slowly")
            }
            Refusal::Body(BodyRefusal::Broken) => bad("Request body broke off"),
            Refusal::Body(BodyRefusal::NoRoom) => {
                retry_soon(v1_error(StatusCode::SERVICE_UNAVAILABLE, "Service temporarily unavailable"))
            }
            Refusal::ContentType => {
                v1_error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json")
            }
            Refusal::Token(_) => v1_error(StatusCode::UNAUTHORIZED, "Invalid or expired token"),
            Refusal::Forbidden | Refusal::AnotherClient => v1_error(StatusCode::FORBIDDEN, "Not authorized"),
            Refusal::WireOff(_) => v1_error(StatusCode::FORBIDDEN, "This wire is disabled"),
            Refusal::RateLimited(sec) => {
                retry_after(v1_error(StatusCode::TOO_MANY_REQUESTS, "Too many requests"), *sec)
            }
        }
    }
}

/// An answer of JSON text.
pub fn json(status: StatusCode, text: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// `{"error": code}`.
pub fn plain_error(status: StatusCode, code: &'static str) -> Response<Body> {
    json(status, format!(r#"{{"error":"{code}"}}"#))
}

/// `503 {"error":"SERVICE_UNAVAILABLE"}`.
pub fn unavailable() -> Response<Body> {
    plain_error(StatusCode::SERVICE_UNAVAILABLE, "SERVICE_UNAVAILABLE")
}

/// The same, with the word to come again in a second.
pub fn busy() -> Response<Body> {
    retry_soon(unavailable())
}

/// `{"error": reason phrase, "message": message}`.
pub fn v1_error(status: StatusCode, message: &str) -> Response<Body> {
    let error = status.canonical_reason().unwrap_or("Error");
    json(status, serde_json::json!({"error": error, "message": message}).to_string())
}

fn retry_soon(response: Response<Body>) -> Response<Body> {
    retry_after(response, 1)
}

fn retry_after(mut response: Response<Body>, sec: u64) -> Response<Body> {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(sec));
    response
}
