//! What a refusal on wire 3 looks like over HTTP: a problem (RFC 9457), with its proof. `spec/session-3.md#problems`.

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use sealway_proto::Error;
use sealway_proto::session::Session;
use sealway_proto::session::three::problem::{PROBLEM_TYPE, prove_clock};
use sealway_proto::session::three::{Problem, SealedRequest};
use sealway_proto::wire::base64;
use sealway_runtime::http::{Body, BodyRefusal, full};

use super::Refused;
use crate::answer::Refusal;
use crate::authority::Authority;
use crate::store::StoreError;

impl Refusal {
    /// The problem that a client of wire 3 is told.
    pub fn problem(&self) -> Problem {
        let problem = Problem::new;
        match self {
            Refusal::Wire(err) => Problem::of(err),
            Refusal::Body(BodyRefusal::TooLarge) => problem("too_large"),
            Refusal::Body(BodyRefusal::NoRoom) => problem("store_unavailable"),
            Refusal::Body(_) | Refusal::ContentType => problem("unsealable"),
            Refusal::Store(StoreError::Unavailable(_) | StoreError::Full)
            | Refusal::NoncesFull
            | Refusal::IntrospectionUnavailable(_) => problem("store_unavailable"),
            Refusal::Forbidden | Refusal::AnotherClient => problem("policy"),
            Refusal::WireOff(_) => problem("wire_disabled"),
            Refusal::RateLimited(_) => problem("rate_limited"),
            Refusal::Token(_) => problem("unauthenticated"),
        }
    }
}

/// A problem as an answer.
pub fn problem_response(problem: &Problem) -> Response<Body> {
    let mut response = Response::new(full(problem.encode()));
    *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match problem.code.as_str() {
        "unauthenticated" => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer, DPoP"))),
        "store_unavailable" => drop(headers.insert(RETRY_AFTER, HeaderValue::from_static("1"))),
        _ => {}
    }
    response
}

/// A refusal as an answer; counts it and logs its class. `what` is `init`, `call` or `seal`.
pub fn refusal_response(refused: &Refused, what: &'static str) -> Response<Body> {
    refused.refusal.report(what);
    let mut problem = refused.refusal.problem();
    for (name, value) in &refused.more {
        problem = problem.with(name, value.clone());
    }
    let mut response = problem_response(&problem);
    if let Refusal::RateLimited(sec) = refused.refusal {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(sec));
    }
    response
}

/// The answer to another method than `allow`.
pub(super) fn method_not_allowed(allow: &'static str) -> Response<Body> {
    let mut response = problem_response(&Problem::new("method_not_allowed"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

impl Refused {
    /// Adds a member to the problem.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        self.more.push((name, value.into()));
        self
    }
}

impl Authority {
    /// A stamp outside the window: the client is told the time, and that it is this server which tells.
    pub(super) fn skewed(&self, session: &Session, request: &SealedRequest<'_>, now_ms: u64) -> Refused {
        let refused = Refused::from(Error::TimestampOutsideWindow).with("server_time_ms", now_ms);
        let (stamp, nonce) = request.stamp_and_nonce();
        match prove_clock(self.provider(), session, stamp, nonce, now_ms) {
            Ok(mac) => refused.with("mac", base64::encode(&mac)),
            Err(_) => refused,
        }
    }
}
