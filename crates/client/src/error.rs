//! Errors of calls and of the agreement of sessions.

use std::fmt;
use std::time::Duration;

use http::{StatusCode, Uri};
pub(crate) use sealway_proto::error::chain;
use sealway_proto::session::native::problem::PROBLEMS;
use serde_json::{Map, Value};

use crate::native::host;
use crate::remedies::REMEDIES;

/// Part of a call in which an error arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A setting cannot be used, or a request cannot be sealed. Nothing was sent.
    Configuration,
    /// The agreement, renewal or end of a session, and the trust in the service. The request was not sent.
    Agreement,
    /// From the departure of the sealed request to the end of its answer.
    Call,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Configuration => "configuration",
            Stage::Agreement => "agreement",
            Stage::Call => "call",
        })
    }
}

/// Failure of a call, or of the agreement of its session. It holds no secret.
#[derive(Debug, thiserror::Error)]
#[error("{}", text(.kind, *.is_outcome_unknown))]
pub struct Error {
    kind: Box<ErrorKind>,
    stage: Stage,
    host: String,
    /// True if the exchange itself proved that the request may be sent again.
    may_repeat: bool,
    /// True if the text has to say that the request may have been executed.
    is_outcome_unknown: bool,
}

/// Cause of an [`Error`], with its details.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The URL, a setting or a request cannot be used.
    #[error("{0}")]
    Usage(String),
    /// No connection: an unknown name, a closed port, a TLS error, or [`Builder::connect_timeout`] passed.
    ///
    /// [`Builder::connect_timeout`]: crate::Builder::connect_timeout
    #[error("no connection for {url}: {reason}")]
    Unreachable {
        /// URL of the failed call.
        url: String,
        /// The cause, in one line of text.
        reason: String,
    },
    /// The connection failed before the end of the answer, or the answer is not HTTP.
    #[error("no answer from {url}: {reason}")]
    Network {
        /// URL of the failed call.
        url: String,
        /// The cause, in one line of text.
        reason: String,
    },
    /// The answer did not arrive within a bound.
    #[error("no answer from {url} within {} ms ({option})", .after.as_millis())]
    Timeout {
        /// The URL of the call.
        url: String,
        /// The configured bound of the wait.
        after: Duration,
        /// Name of the bound in [`Builder`](crate::Builder).
        option: &'static str,
    },
    /// The answer is longer than its bound.
    #[error("the answer from {url} is longer than {len_max} bytes")]
    TooLarge {
        /// The URL of the call.
        url: String,
        /// The bound in bytes: of an answer that is read whole, [`Builder::answer_max_bytes`].
        ///
        /// [`Builder::answer_max_bytes`]: crate::Builder::answer_max_bytes
        len_max: usize,
    },
    /// The service, or a server in between, rejected an init or a call with an unsealed answer.
    #[error("refused: {status} {body}")]
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
    /// The function of [`Builder::authorization`](crate::Builder::authorization) failed.
    #[error("no Authorization for the session: {0}")]
    Authorization(String),
    /// Wire 3: a root's key set or the trust store cannot be used.
    #[error("{0}")]
    Trust(String),
    /// The answer does not open, or is not an answer to this request.
    #[error("the answer cannot be trusted: {0}")]
    Untrusted(sealway_proto::Error),
    /// The crypto module failed, or the wire cannot carry a value.
    #[error(transparent)]
    Seal(sealway_proto::Error),
    /// The answer's body is not the JSON that the caller expects.
    #[cfg(feature = "json")]
    #[error("JSON: {0}")]
    Json(String),
}

impl Error {
    /// Part of the call in which the error arose.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// A code of `spec/registry.toml`, or one of those that all SDKs share beside them: `usage`, `unreachable`,
    /// `timeout`, `redirected` and `network`.
    pub fn code(&self) -> &str {
        match &*self.kind {
            ErrorKind::Usage(_) | ErrorKind::Authorization(_) => "usage",
            ErrorKind::Unreachable { .. } => "unreachable",
            ErrorKind::Network { .. } => "network",
            ErrorKind::Timeout { .. } => "timeout",
            ErrorKind::TooLarge { .. } => "body_too_large",
            ErrorKind::Refused { status, .. } if status.is_redirection() => "redirected",
            ErrorKind::Refused { body, .. } => public_code(body).unwrap_or("unsealed"),
            ErrorKind::Problem { code, .. } => code,
            ErrorKind::KeyUntrusted { .. } | ErrorKind::Trust(_) => "key_untrusted",
            ErrorKind::KeyRetired { .. } => "key_retired",
            ErrorKind::Untrusted(err) | ErrorKind::Seal(err) => err.code(),
            #[cfg(feature = "json")]
            ErrorKind::Json(_) => "json_invalid",
        }
    }

    /// True only if the same request may be sent again without a second execution, and may succeed then. False where
    /// the outcome is unknown.
    pub fn is_retryable(&self) -> bool {
        match (self.stage, self.code()) {
            (Stage::Configuration, _) => false,
            (_, "unreachable") => true,
            (Stage::Agreement, code) => PASSING.contains(&code),
            (Stage::Call, _) => self.may_repeat,
        }
    }

    /// Host and port that answered or should have; empty in [`Stage::Configuration`].
    pub fn host(&self) -> &str {
        &self.host
    }

    /// A sentence that says what to do; empty for a code that this version does not know.
    pub fn remedy(&self) -> &'static str {
        known(self.code()).map_or("", |(_, remedy)| remedy)
    }

    /// Cause of the error, with its details.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Completes an error with its stage and its host, unless nothing was sent.
    pub(crate) fn at(mut self, stage: Stage, url: &Uri) -> Self {
        if self.stage != Stage::Configuration {
            (self.stage, self.host) = (stage, host(url));
        }
        self
    }

    /// Marks an error after which the request may be sent again.
    pub(crate) fn repeatable(mut self, may_repeat: bool) -> Self {
        self.may_repeat = may_repeat;
        self
    }

    /// Marks an error of a request that was sent, whose method is not safe: unless it may be repeated, its outcome is unknown.
    #[cfg(feature = "one-shot")]
    pub(crate) fn unsafe_method(mut self) -> Self {
        self.is_outcome_unknown = self.stage == Stage::Call && !self.is_retryable();
        self
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        let stage = match &kind {
            ErrorKind::Usage(_) | ErrorKind::Seal(_) => Stage::Configuration,
            ErrorKind::KeyUntrusted { .. }
            | ErrorKind::KeyRetired { .. }
            | ErrorKind::Authorization(_)
            | ErrorKind::Trust(_) => Stage::Agreement,
            _ => Stage::Call,
        };
        Error { kind: Box::new(kind), stage, host: String::new(), may_repeat: false, is_outcome_unknown: false }
    }
}

/// Codes of an agreement whose reason may pass.
const PASSING: &[&str] = &[
    "network",
    "provider",
    "rate_limited",
    "store_unavailable",
    "timeout",
    "upstream_timeout",
    "upstream_unreachable",
    "RATE_LIMITED",
    "SERVICE_UNAVAILABLE",
];

fn known(code: &str) -> Option<&'static (&'static str, &'static str)> {
    REMEDIES.iter().find(|(known, _)| *known == code)
}

/// Code of a public error of wires 1 and 2 in an answer's body.
fn public_code(body: &str) -> Option<&'static str> {
    let body: Value = serde_json::from_str(body).ok()?;
    known(body.get("error")?.as_str()?).map(|(code, _)| *code)
}

/// Text of an error, with the sentence on its outcome where that is unknown.
fn text(kind: &ErrorKind, is_outcome_unknown: bool) -> String {
    let text = kind.to_string();
    match kind {
        // These have the sentence on every wire.
        ErrorKind::Problem { code, .. } if ["clock_skew", "session_expired"].contains(&code.as_str()) => text,
        _ if is_outcome_unknown => {
            format!("{}. It is unknown whether the service has executed this request.", text.trim_end_matches('.'))
        }
        _ => text,
    }
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
