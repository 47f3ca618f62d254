//! Why a call of a sealed session failed.

use std::time::Duration;

use http::StatusCode;
use sealway_proto::session::three::problem::PROBLEMS;
use serde_json::{Map, Value};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL or an option cannot be used.
    #[error("{0}")]
    Usage(String),
    /// No answer: no connection, TLS, or it broke off.
    #[error("no answer from {url}: {reason}")]
    Transport {
        /// What was called.
        url: String,
        /// Why, in one line.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer from {url} within {} ms", .after.as_millis())]
    Timeout {
        /// What was called.
        url: String,
        /// The bound.
        after: Duration,
    },
    /// The service refused to agree a session.
    #[error("session refused: {status} {body}")]
    InitRefused {
        /// The answer's status.
        status: StatusCode,
        /// The answer's body, cut at 300 characters.
        body: String,
    },
    /// The service refused the call, in plain.
    #[error("call refused: {status} {body}")]
    Refused {
        /// The answer's status.
        status: StatusCode,
        /// The answer's body, cut at 300 characters.
        body: String,
    },
    /// Wire 3: a refusal with a code. It is not sealed, so anybody on the path can have said it.
    #[error("refused: {} {code}{}", .status.as_u16(), sentence(.code, .more))]
    Problem {
        /// The answer's status.
        status: StatusCode,
        /// One of the codes of `spec/session-3.md#problems`.
        code: String,
        /// What else it says.
        more: Map<String, Value>,
    },
    /// Wire 3: the service signs with an identity key that this client has no reason to trust.
    #[error("the service's identity key {key_id} is not trusted: {way}")]
    KeyUntrusted {
        /// The key's id.
        key_id: String,
        /// Why, and what to do.
        way: String,
    },
    /// The service says that none of the identity keys which this client trusts is live. It is another service, an impostor, or
    /// the service after a replacement of its keys; nothing proves which.
    #[error(
        "this is another service, or an impostor, or its keys were replaced: it has none of the trusted identity keys. Its keys \
         are {}. {way}",
        .key_ids.join(", ")
    )]
    KeyRetired {
        /// The keys that the service names.
        key_ids: Vec<String>,
        /// What to do.
        way: String,
    },
    /// Wire 3: a root's key set, or the file of what is trusted, cannot be used.
    #[error("{0}")]
    Trust(String),
    /// The answer does not open, or is not an answer to this request.
    #[error("the answer cannot be trusted: {0}")]
    Untrusted(sealway_proto::Error),
    /// The crypto module, or a value that the wire cannot carry.
    #[error(transparent)]
    Seal(sealway_proto::Error),
}

/// What a problem's code means, and the one member that says more to a person.
fn sentence(code: &str, more: &Map<String, Value>) -> String {
    let title = PROBLEMS.iter().find(|(known, ..)| *known == code).map_or("", |(_, _, title)| *title);
    let mut text = if title.is_empty() { String::new() } else { format!(": {title}") };
    if let Some(field) = more.get("field").and_then(Value::as_str) {
        text.push_str(&format!(" At fault: {}", excerpt(field.as_bytes())));
    }
    // Whoever is in between can have had the request served before it was refused.
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

/// What can be shown of a stranger's bytes: 300 characters without control characters.
pub(crate) fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(300).collect()
}

/// The whole story of an error, in one line.
pub(crate) fn chain(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        text.push_str(": ");
        text.push_str(&err.to_string());
        cause = err.source();
    }
    text
}
