//! Refusals as HTTP answers: coarse to the client, in the form that its protocol reads.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::refusal::{BodyFault, Refusal};
use crate::error::Error;
use crate::session::native::Problem;
use crate::session::native::problem::PROBLEM_TYPE;
use crate::wire::Wire;

/// Codes of problems that a server puts under the seal of wire 4, once the request has opened.
// SPEC one-shot.md#problems
#[cfg(feature = "one-shot")]
pub const SEALED_PROBLEMS: [&str; 6] =
    ["clock_skew", "policy", "replayed", "store_unavailable", "upstream_unreachable", "upstream_timeout"];

/// The form of an error's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `{"error": CODE}`: `/session/…`, and sealed calls of wires 1 and 2.
    Plain,
    /// `{"error": reason phrase, "message": text}`: `/v1/…`.
    V1,
    /// `application/problem+json` (RFC 9457): wires 3 and 4.
    Problem,
}

impl Form {
    /// Returns the form in which clients of a protocol read the rejection of a sealed request.
    pub fn of(wire: Wire) -> Self {
        match wire {
            Wire::V1 | Wire::V2 => Form::Plain,
            Wire::Native | Wire::OneShot => Form::Problem,
        }
    }
}

/// A complete error answer: its status, headers and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorAnswer {
    /// The HTTP status code of the answer.
    pub status: u16,
    /// Header names in lower case and their values, `content-type` included.
    pub headers: Vec<(&'static str, String)>,
    /// The body, which is JSON.
    pub body: String,
}

impl ErrorAnswer {
    /// Returns an answer in [`Form::Plain`]: `{"error": code}`.
    pub fn plain(status: u16, code: &str) -> Self {
        ErrorAnswer::json(status, format!(r#"{{"error":"{code}"}}"#))
    }

    /// Returns an answer in [`Form::V1`]: `{"error": reason phrase, "message": message}`.
    pub fn v1(status: u16, message: &str) -> Self {
        ErrorAnswer::json(status, json!({"error": reason_phrase(status), "message": message}).to_string())
    }

    /// Returns an answer in [`Form::Problem`], with the headers that its code requires.
    pub fn problem(problem: &Problem) -> Self {
        let mut headers = alloc::vec![("content-type", PROBLEM_TYPE.into()), ("cache-control", "no-store".into())];
        match problem.code.as_str() {
            "unauthenticated" => headers.push(("www-authenticate", "Bearer, DPoP".into())),
            "store_unavailable" => headers.push(("retry-after", "1".into())),
            _ => {}
        }
        ErrorAnswer { status: problem.status, headers, body: problem.encode() }
    }

    fn json(status: u16, body: String) -> Self {
        ErrorAnswer { status, headers: alloc::vec![("content-type", "application/json".into())], body }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

/// Returns the reason phrase (RFC 9110 section 15) of a status that servers send.
fn reason_phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Payload Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Error",
    }
}

/// A refusal with details for the client, such as proofs and lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The reason for which the request is rejected.
    pub refusal: Refusal,
    /// Additional members of the problem document.
    more: Vec<(&'static str, Value)>,
}

impl<R: Into<Refusal>> From<R> for Rejection {
    fn from(refusal: R) -> Self {
        Rejection { refusal: refusal.into(), more: Vec::new() }
    }
}

impl Rejection {
    /// Adds a member to the problem document. The other forms omit it.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((name, value.into()));
        self
    }

    /// Returns whether the problem goes under the seal on wire 4, once the request has opened.
    // SPEC one-shot.md#problems
    #[cfg(feature = "one-shot")]
    pub fn is_sealed(&self) -> bool {
        let code = problem(&self.refusal).code;
        SEALED_PROBLEMS.contains(&code.as_str())
    }

    /// Returns the answer for the client. `Retry-After` and `Allow` are set where the refusal names them.
    pub fn answer(&self, form: Form) -> ErrorAnswer {
        let answer = match form {
            Form::Plain => plain(&self.refusal),
            Form::V1 => v1(&self.refusal),
            Form::Problem => {
                let more = self.more.iter().cloned();
                let problem = more.fold(problem(&self.refusal), |problem, (name, value)| problem.with(name, value));
                ErrorAnswer::problem(&problem)
            }
        };
        match self.refusal {
            Refusal::RateLimited(sec) => answer.with("retry-after", sec),
            Refusal::Method(allow) => answer.with("allow", allow),
            _ => answer,
        }
    }
}

fn plain(refusal: &Refusal) -> ErrorAnswer {
    let error = ErrorAnswer::plain;
    let busy = || error(503, "SERVICE_UNAVAILABLE").with("retry-after", 1);
    match refusal {
        Refusal::Wire(Error::Provider | Error::ReservationMismatch)
        | Refusal::StoreUnavailable(_)
        | Refusal::StoreFull
        | Refusal::IntrospectionUnavailable(_)
        | Refusal::Body(BodyFault::NoRoom)
        | Refusal::Unanswered(503) => busy(),
        Refusal::Wire(err) => {
            let (status, code) = err.plain();
            error(status, code)
        }
        Refusal::Body(BodyFault::TooLarge) | Refusal::Unanswered(413) => error(413, "PAYLOAD_TOO_LARGE"),
        Refusal::Forbidden | Refusal::AnotherClient => error(403, "SESSION_FORBIDDEN"),
        Refusal::WireOff(_) => error(403, "WIRE_DISABLED"),
        Refusal::RateLimited(_) => error(429, "RATE_LIMITED"),
        Refusal::Method(_) => error(405, "METHOD_NOT_ALLOWED"),
        Refusal::Unanswered(status @ (400 | 408)) => error(*status, "BAD_REQUEST"),
        Refusal::Unanswered(status) => error(*status, "SERVICE_UNAVAILABLE"),
        Refusal::NoncesFull | Refusal::Body(_) | Refusal::Token(_) | Refusal::ContentType => error(400, "CRYPTO_ERROR"),
    }
}

fn problem(refusal: &Refusal) -> Problem {
    Problem::new(match refusal {
        Refusal::Wire(err) => return Problem::of(err),
        Refusal::Body(BodyFault::TooLarge) | Refusal::Unanswered(413) => "too_large",
        Refusal::Body(BodyFault::NoRoom)
        | Refusal::StoreUnavailable(_)
        | Refusal::StoreFull
        | Refusal::NoncesFull
        | Refusal::IntrospectionUnavailable(_)
        | Refusal::Unanswered(503) => "store_unavailable",
        Refusal::Body(_) | Refusal::ContentType | Refusal::Unanswered(400 | 408) => "unsealable",
        Refusal::Forbidden | Refusal::AnotherClient => "policy",
        Refusal::WireOff(_) => "wire_disabled",
        Refusal::RateLimited(_) => "rate_limited",
        Refusal::Token(_) => "unauthenticated",
        Refusal::Method(_) => "method_not_allowed",
        Refusal::Unanswered(504) => "upstream_timeout",
        Refusal::Unanswered(_) => "upstream_unreachable",
    })
}

fn v1(refusal: &Refusal) -> ErrorAnswer {
    let error = ErrorAnswer::v1;
    let unavailable = |what: &str| error(503, &format!("{what} temporarily unavailable")).with("retry-after", 1);
    match refusal {
        Refusal::Wire(Error::Provider | Error::ReservationMismatch) | Refusal::Body(BodyFault::NoRoom) => {
            unavailable("Service")
        }
        Refusal::Wire(err) => {
            let (status, message) = v1_wire(err);
            error(status, message)
        }
        Refusal::NoncesFull => unavailable("Replay protection service"),
        Refusal::StoreUnavailable(_) | Refusal::StoreFull => unavailable("Session store"),
        Refusal::IntrospectionUnavailable(_) => unavailable("Token verification"),
        Refusal::Body(BodyFault::TooLarge) => error(413, "Request body is too large"),
        Refusal::Body(BodyFault::TooSlow) => error(408, "Request body came too slowly"),
        Refusal::Body(BodyFault::Broken) => error(400, "Request body broke off"),
        Refusal::ContentType => error(415, "Content-Type must be application/json"),
        Refusal::Token(_) => error(401, "Invalid or expired token"),
        Refusal::Forbidden | Refusal::AnotherClient => error(403, "Not authorized"),
        Refusal::WireOff(_) => error(403, "This wire is disabled"),
        Refusal::RateLimited(_) => error(429, "Too many requests"),
        Refusal::Method(_) => error(405, "Another method is needed"),
        Refusal::Unanswered(status) => error(*status, "The service did not answer"),
    }
}

fn v1_wire(err: &Error) -> (u16, &'static str) {
    match err {
        Error::HeaderMissing("x-idempotency-key") => (400, "X-Idempotency-Key header is required"),
        Error::HeaderMissing(_) => (400, "X-ClientId header is required"),
        Error::HeaderInvalid(_) => (400, "Invalid X-ClientId header"),
        Error::IdempotencyKeyShape => (400, "Invalid X-Idempotency-Key format (expected: timestamp.nonce)"),
        Error::NonceInvalid | Error::NonceReserved => (400, "Invalid nonce format"),
        Error::TimestampInvalid | Error::TimestampOutsideWindow => (400, "Invalid or expired timestamp"),
        Error::PublicKeyInvalid => (400, "Invalid client public key"),
        Error::FieldInvalid(_) => (400, "clientPublicKey is required"),
        Error::Unauthenticated => (401, "Authorization is required"),
        Error::BodyTooLarge => (413, "Request body is too large"),
        Error::Policy => (403, "Not authorized"),
        Error::Replayed => (409, "Request already processed (replay detected)"),
        _ => (400, "Request body is not valid JSON"),
    }
}
