//! Errors of calls and of the agreement of sessions.

use std::time::Duration;

use http::StatusCode;
pub(crate) use sealway_proto::error::chain;
use sealway_proto::session::native::problem::PROBLEMS;
use serde_json::{Map, Value};

/// Failure of a call, or of the agreement of its session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL, a setting or a request cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The transport failed: no connection, a TLS error, or an answer that broke off.
    #[error("no answer from {url}: {reason}")]
    Transport {
        /// URL of the failed call.
        url: String,
        /// The cause, in one line of text.
        reason: String,
    },
    /// The answer did not arrive within the bound.
    #[error("no answer from {url} within {} ms", .after.as_millis())]
    Timeout {
        /// The URL of the call.
        url: String,
        /// The configured bound of the call.
        after: Duration,
    },
    /// The service refused to agree a session.
    #[error("session refused: {status} {body}")]
    InitRefused {
        /// HTTP status code of the answer.
        status: StatusCode,
        /// The answer's body, cut at 300 characters.
        body: String,
    },
    /// The service rejected the call with an unsealed answer.
    #[error("call refused: {status} {body}")]
    Refused {
        /// HTTP status code of the answer.
        status: StatusCode,
        /// The answer's body, cut at 300 characters.
        body: String,
    },
    /// Wire 3: a rejection with a code. It is not sealed: any party on the path can have written it.
    #[error("refused: {} {code}{}", .status.as_u16(), sentence(.code, .more))]
    Problem {
        /// HTTP status code of the answer.
        status: StatusCode,
        /// One of the codes of `spec/session-3.md#problems`.
        code: String,
        /// The problem's other members, as the service sent them.
        more: Map<String, Value>,
    },
    /// Wire 3: the service signs with an identity key that this client has no reason to trust.
    #[error("the service's identity key {key_id} is not trusted: {way}")]
    KeyUntrusted {
        /// Id of the service's identity key.
        key_id: String,
        /// The reason, and what the user can do.
        way: String,
    },
    /// The service reports that none of the identity keys that this client trusts is live. The service may be another
    /// one, an impostor, or the same one after its keys were replaced; no proof tells which.
    #[error(
        "this is another service, or an impostor, or its keys were replaced: it has none of the trusted identity keys. Its keys \
         are {}. {way}",
        .key_ids.join(", ")
    )]
    KeyRetired {
        /// Ids of the keys that the service names.
        key_ids: Vec<String>,
        /// Steps that the user can take.
        way: String,
    },
    /// No token came from [`Builder::authorization`](crate::Builder::authorization).
    #[error("no token for the session: {0}")]
    Authorization(String),
    /// Wire 3: a root's key set or the trust file cannot be used.
    #[error("{0}")]
    Trust(String),
    /// The answer does not open, or is not an answer to this request.
    #[error("the answer cannot be trusted: {0}")]
    Untrusted(sealway_proto::Error),
    /// The crypto module failed, or the wire cannot carry a value.
    #[error(transparent)]
    Seal(sealway_proto::Error),
    /// A value has no form in JSON, or a body is not the JSON that was expected.
    #[cfg(feature = "json")]
    #[error("JSON: {0}")]
    Json(String),
}

/// Text for a problem's code: the code's title, and the member `field` where the problem has it.
fn sentence(code: &str, more: &Map<String, Value>) -> String {
    let title = PROBLEMS.iter().find(|(known, ..)| *known == code).map_or("", |(_, _, title)| *title);
    let mut text = if title.is_empty() { String::new() } else { format!(": {title}") };
    if let Some(field) = more.get("field").and_then(Value::as_str) {
        text.push_str(&format!(" At fault: {}", excerpt(field.as_bytes())));
    }
    // A party between client and service can have had the request executed before it rejected it.
    text.push_str(match code {
        "session_expired" => {
            " It is unknown whether the service has executed this request. The next call begins a new session."
        }
        "clock_skew" => {
            " It is unknown whether the service has executed this request. The next call is stamped by the service's clock \
             where that was proven."
        }
        _ => "",
    });
    text
}

/// Excerpt of untrusted bytes that is safe to show: at most 300 characters, without control characters.
pub(crate) fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(300).collect()
}
