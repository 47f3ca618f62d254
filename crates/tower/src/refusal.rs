//! What a refusal looks like over HTTP: coarse to the peer, precise to the log. `spec/session.md#open`,
//! `spec/session-3.md#problems`.

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use sealway_proto::Error;
use sealway_proto::session::three::Problem;
use sealway_proto::session::three::problem::PROBLEM_TYPE;
use serde_json::Value;

use crate::body::{Body, BodyRefusal, full};
use crate::store::{ReserveError, StoreError};

/// Why a request was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Wire(#[from] Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("nonce store is full")]
    NoncesFull,
    #[error(transparent)]
    Body(#[from] BodyRefusal),
    #[error("anonymous sessions may not use this path")]
    Forbidden,
    #[error("this wire is switched off")]
    WireOff,
}

impl From<ReserveError> for Refusal {
    fn from(err: ReserveError) -> Self {
        match err {
            ReserveError::Replayed => Error::Replayed.into(),
            ReserveError::OutsideWindow => Error::TimestampOutsideWindow.into(),
            ReserveError::Full => Refusal::NoncesFull,
            ReserveError::Unavailable(reason) => StoreError::Unavailable(reason).into(),
        }
    }
}

impl Refusal {
    /// The stable class, for the log.
    fn class(&self) -> &'static str {
        match self {
            Refusal::Wire(err) => err.code(),
            Refusal::Store(_) => "store_unavailable",
            Refusal::NoncesFull => "nonces_full",
            Refusal::Body(BodyRefusal::TooLarge) => "body_too_large",
            Refusal::Body(BodyRefusal::TooSlow) => "body_too_slow",
            Refusal::Body(BodyRefusal::Broken) => "body_broken",
            Refusal::Forbidden => "anonymous_path",
            Refusal::WireOff => "wire_off",
        }
    }

    fn report(&self) {
        tracing::info!(class = self.class(), "sealed request refused: {self}");
    }

    /// What wires 1 and 2 are told.
    pub(crate) fn plain(&self) -> Response<Body> {
        self.report();
        match self {
            Refusal::Wire(Error::Provider) | Refusal::Store(_) => {
                let mut response = plain_error(StatusCode::SERVICE_UNAVAILABLE, "SERVICE_UNAVAILABLE");
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                response
            }
            Refusal::Wire(err) => {
                let (status, code) = err.plain();
                plain_error(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), code)
            }
            Refusal::Body(BodyRefusal::TooLarge) => plain_error(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
            Refusal::Forbidden => plain_error(StatusCode::FORBIDDEN, "SESSION_FORBIDDEN"),
            Refusal::WireOff => plain_error(StatusCode::FORBIDDEN, "WIRE_DISABLED"),
            Refusal::NoncesFull | Refusal::Body(_) => plain_error(StatusCode::BAD_REQUEST, "CRYPTO_ERROR"),
        }
    }

    fn problem(&self) -> Problem {
        match self {
            Refusal::Wire(err) => Problem::of(err),
            Refusal::Store(_) | Refusal::NoncesFull => Problem::new("store_unavailable"),
            Refusal::Body(BodyRefusal::TooLarge) => Problem::new("too_large"),
            Refusal::Body(_) => Problem::new("unsealable"),
            Refusal::Forbidden => Problem::new("policy"),
            Refusal::WireOff => Problem::new("wire_disabled"),
        }
    }
}

/// A refusal on wire 3, with what proves it.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    more: Vec<(&'static str, Value)>,
}

impl<R: Into<Refusal>> From<R> for Refused {
    fn from(refusal: R) -> Self {
        Refused { refusal: refusal.into(), more: Vec::new() }
    }
}

impl Refused {
    /// Adds a member to the problem.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((name, value.into()));
        self
    }

    /// As an answer.
    pub(crate) fn response(self) -> Response<Body> {
        self.refusal.report();
        let problem =
            self.more.into_iter().fold(self.refusal.problem(), |problem, (name, value)| problem.with(name, value));
        problem_response(&problem)
    }
}

/// A problem as an answer.
pub(crate) fn problem_response(problem: &Problem) -> Response<Body> {
    let mut response = Response::new(full(problem.encode()));
    *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if problem.code == "store_unavailable" {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// `{"error": code}`.
pub(crate) fn plain_error(status: StatusCode, code: &'static str) -> Response<Body> {
    let mut response = Response::new(full(format!(r#"{{"error":"{code}"}}"#)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// 405, naming what may be.
pub(crate) fn method_not_allowed(allow: &'static str) -> Response<Body> {
    let mut response = plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}
