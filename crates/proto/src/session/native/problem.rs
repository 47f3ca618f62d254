//! The problems by which wire 3 rejects (RFC 9457), and the proof that one of them carries. `spec/session-3.md#problems`.

use alloc::string::{String, ToString};

use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::Fields;
use super::schedule::Keys;
use crate::crypto::Provider;
use crate::error::Error;
use crate::session::record::Session;

/// The media type of problems.
pub const PROBLEM_TYPE: &str = "application/problem+json";
/// Prefix of `type`; the code follows.
pub const PROBLEM_URN: &str = "urn:sealway:problem:";
/// Largest problem that is parsed, in bytes: it may contain a key set.
pub const PROBLEM_LEN_MAX: usize = 96 * 1024;

/// A problem, as it goes over the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// One of the codes of the spec.
    pub code: String,
    /// The HTTP status of the problem.
    pub status: u16,
    /// All members but `type`, `title`, `status` and `code`.
    pub more: Map<String, Value>,
}

/// Codes, with the status and the title of each.
pub const PROBLEMS: &[(&str, u16, &str)] = &[
    ("session_expired", 401, "The session is over or unknown: agree a new one."),
    ("unsealable", 400, "The request does not open."),
    ("replayed", 409, "The request was received before."),
    ("clock_skew", 400, "The request's time is too far from the server's."),
    ("suite_required", 409, "Begin anew with another suite."),
    ("key_retired", 409, "No key that the client pinned or sealed to is live any more."),
    ("unauthenticated", 401, "The client did not prove who it is."),
    ("policy", 403, "The client may not do this."),
    ("wire_disabled", 403, "This wire is not served here."),
    ("too_large", 413, "The message is over its bound."),
    ("malformed", 400, "The message is not what it should be."),
    ("not_found", 404, "There is no such thing here."),
    ("method_not_allowed", 405, "Another method is needed."),
    ("rate_limited", 429, "Too many requests: wait."),
    ("store_unavailable", 503, "Try again later."),
    ("upstream_unreachable", 502, "The service behind did not answer."),
    ("upstream_timeout", 504, "The service behind did not answer in time."),
];

impl Problem {
    /// Creates the problem of a code in [`PROBLEMS`]; status 500 for a code that is not among them.
    pub fn new(code: &str) -> Self {
        let status = PROBLEMS.iter().find(|(known, ..)| *known == code).map_or(500, |(_, status, _)| *status);
        Problem { code: code.to_string(), status, more: Map::new() }
    }

    /// Maps an error to the problem that a client receives by the rules of the wire; the caller adds proofs.
    // SPEC session-3.md#problems
    pub fn of(err: &Error) -> Self {
        let problem = Problem::new;
        match err {
            Error::SessionUnknown | Error::SessionExpired => problem("session_expired"),
            Error::TimestampOutsideWindow => problem("clock_skew"),
            Error::Replayed => problem("replayed"),
            Error::BodyTooLarge => problem("too_large"),
            Error::Provider => problem("store_unavailable"),
            Error::Policy => problem("policy"),
            Error::Unauthenticated => problem("unauthenticated"),
            Error::SuiteRequired => problem("suite_required"),
            Error::KeyRetired => problem("key_retired"),
            Error::JsonInvalid => problem("malformed"),
            Error::FieldInvalid(field) => problem("malformed").with("field", *field),
            Error::PublicKeyInvalid => problem("malformed").with("field", "share"),
            _ => problem("unsealable"),
        }
    }

    /// Adds a member to the problem.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_string(), value.into());
        self
    }

    /// Encodes the body as JSON.
    pub fn encode(&self) -> String {
        let title = PROBLEMS.iter().find(|(known, ..)| *known == self.code).map_or("", |(_, _, title)| *title);
        let mut object = self.more.clone();
        let urn = [PROBLEM_URN, &self.code].concat();
        let own = json!({
            "type": urn,
            "title": title,
            "status": self.status,
            "code": self.code,
        });
        if let Value::Object(own) = own {
            object.extend(own);
        }
        Value::Object(object).to_string()
    }

    /// Parses a problem of Sealway; `None` for another's, or a body that is not a problem. The HTTP status counts, not the one
    /// in the body.
    pub fn parse(status: u16, body: &[u8]) -> Option<Self> {
        if body.len() > PROBLEM_LEN_MAX {
            return None;
        }
        let Ok(Value::Object(mut more)) = serde_json::from_slice(body) else { return None };
        let code = more.get("type")?.as_str()?.strip_prefix(PROBLEM_URN)?.to_string();
        ["type", "title", "status", "code"].iter().for_each(|name| drop(more.remove(*name)));
        Some(Problem { code, status, more })
    }
}

pub(super) fn clock_mac(
    provider: &dyn Provider,
    keys: &Keys,
    stamp: &str,
    nonce: &str,
    server_time_ms: u64,
) -> Zeroizing<[u8; 32]> {
    let said = Fields::new().field(nonce).field(stamp).number(server_time_ms);
    provider.hmac_sha256(keys.clock().as_slice(), &[said.as_bytes()])
}

/// Computes the proof of the time in a `clock_skew`: no other party can make a client stamp its requests with a future time.
///
/// # Errors
/// [`Error::WireMismatch`] for a session of another wire.
pub fn prove_clock(
    provider: &dyn Provider,
    session: &Session,
    stamp: &str,
    nonce: &str,
    server_time_ms: u64,
) -> Result<[u8; 32], Error> {
    Ok(*clock_mac(provider, session.native_keys()?, stamp, nonce, server_time_ms))
}
