//! The reasons for which an Oblivious HTTP gateway or relay rejects a request, and the problems that say so (RFC 9457).

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, DATE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use metrics::counter;
use parking_lot::Mutex;
use sealway_proto::bhttp::BhttpError;
use sealway_runtime::clock::http_date;
use sealway_runtime::http::notices::Gate;
use sealway_runtime::http::{Body, full};
use sealway_sessions::answer::Refusal;

/// A reason to reject a request. All requests of one reason get the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    status: StatusCode,
    class: &'static str,
    /// The type of the problem.
    kind: &'static str,
    title: &'static str,
    /// Time after which the peer may send again, in seconds; 0 if that is no matter of time.
    retry_after_sec: u64,
}

/// A limit of the peer's network, which is reached before anything is opened.
impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        let Refusal::RateLimited(retry_after_sec) = refusal else { return Rejection::STORE };
        let title = "too many requests from this network";
        Rejection { retry_after_sec, ..Rejection::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", title) }
    }
}

impl Rejection {
    const fn new(status: StatusCode, class: &'static str, title: &'static str) -> Self {
        Rejection { status, class, kind: "about:blank", title, retry_after_sec: 0 }
    }

    /// Header, key and ciphertext do not belong together (RFC 9458 section 5.3).
    pub(super) const KEY: Rejection = Rejection {
        kind: "https://iana.org/assignments/http-problem-types#ohttp-key",
        ..Rejection::new(StatusCode::BAD_REQUEST, "key", "key identifier unknown, or the request does not open")
    };
    /// The inner `Date` is missing, or off (RFC 9458 section 6.5.2).
    pub(super) const DATE: Rejection = Rejection {
        kind: "https://iana.org/assignments/http-problem-types#date",
        ..Rejection::new(StatusCode::BAD_REQUEST, "date", "date field in request outside of acceptable range")
    };
    /// The encapsulated request ends too early.
    pub(super) const CUT: Rejection =
        Rejection::new(StatusCode::BAD_REQUEST, "cut", "the encapsulated request ends too early");
    /// The media type is none of the route's.
    pub(super) const TYPE: Rejection =
        Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", "the media type is not served here");
    /// The method outside is not `POST`.
    pub(super) const OUTER_METHOD: Rejection =
        Rejection::new(StatusCode::METHOD_NOT_ALLOWED, "outer_method", "POST is expected");
    /// The method inside is `CONNECT`, `TRACE`, or none.
    pub(super) const METHOD: Rejection =
        Rejection::new(StatusCode::METHOD_NOT_ALLOWED, "method", "the method is not forwarded");
    /// The target is not allowed.
    pub(super) const TARGET: Rejection = Rejection::new(StatusCode::FORBIDDEN, "target", "the target is not allowed");
    /// `host` and the authority name different targets.
    pub(super) const HOST: Rejection =
        Rejection::new(StatusCode::BAD_REQUEST, "host", "host and authority name different targets");
    /// The path has dot segments or characters that a target cannot have.
    pub(super) const PATH: Rejection = Rejection::new(StatusCode::BAD_REQUEST, "path", "the path is not forwarded");
    /// A field cannot be forwarded.
    pub(super) const FIELD: Rejection = Rejection::new(StatusCode::BAD_REQUEST, "field", "a field is not forwarded");
    /// The request was received before.
    pub(super) const REPLAYED: Rejection =
        Rejection::new(StatusCode::CONFLICT, "replayed", "the request was received before");
    /// The store of claims cannot answer.
    pub(super) const STORE: Rejection = Rejection::new(StatusCode::SERVICE_UNAVAILABLE, "store", "try again later");
    /// The answer of the service, or of the gateway behind a relay, cannot be passed on.
    pub(super) const ANSWER: Rejection =
        Rejection::new(StatusCode::BAD_GATEWAY, "answer", "the answer cannot be passed on");

    /// Returns the rejection of a message of Binary HTTP.
    pub(super) fn of_message(error: BhttpError) -> Rejection {
        let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
        Rejection::new(status, "message", "the message within is not of the form of RFC 9292")
    }

    /// Returns whether the message within is at fault, after it has opened.
    pub(super) fn is_of_message(&self) -> bool {
        self.class == "message"
    }

    /// Returns a rejection by status alone: of a body, or of a service that did not answer.
    pub(super) fn of_status(status: StatusCode) -> Rejection {
        Rejection::new(status, "unanswered", status.canonical_reason().unwrap_or("no answer"))
    }

    /// Counts the rejection, and logs it in a limited number of lines: the peer decides how often it sends one.
    pub(super) fn report(&self, route: &str) {
        static NOTICES: LazyLock<Mutex<HashMap<&'static str, Gate>>> = LazyLock::new(Mutex::default);
        let class = self.class;
        counter!("sealway_refusals_total", "on" => "ohttp", "class" => class).increment(1);
        if *self == Rejection::TARGET {
            counter!("sealway_ohttp_targets_refused_total").increment(1);
        }
        let kept_back = NOTICES.lock().entry(class).or_default().pass(Instant::now());
        if let Some(kept_back) = kept_back {
            let status = self.status.as_u16();
            tracing::info!(on = "ohttp", class, route, status, kept_back, "refused: {}", self.title);
        }
    }

    /// Returns the problem, for an answer within.
    pub(super) fn problem(&self, now_ms: u64) -> Response<Bytes> {
        let Rejection { status, kind, title, .. } = *self;
        let text = serde_json::json!({"type": kind, "title": title, "status": status.as_u16()}).to_string();
        let mut answer = Response::new(Bytes::from(text));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Ok(date) = HeaderValue::try_from(http_date(now_ms)) {
            headers.insert(DATE, date);
        }
        answer
    }

    /// Returns the answer outside of any encapsulation.
    pub(super) fn outside(&self, now_ms: u64) -> Response<Body> {
        let mut answer = self.problem(now_ms).map(full);
        if *self == Rejection::OUTER_METHOD {
            answer.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static("POST"));
        }
        if self.retry_after_sec > 0 {
            answer.headers_mut().insert(RETRY_AFTER, self.retry_after_sec.into());
        }
        answer
    }
}
