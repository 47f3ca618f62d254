//! Rejections and answers of endpoints. Rejections are counted and logged here; [`Rejection::answer`] makes what the
//! peer sees.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use metrics::{Counter, counter};
use parking_lot::Mutex;
use sealway_exchange::body::Body as ExchangeBody;
use sealway_exchange::error_answer;
use sealway_proto::Error;
pub use sealway_proto::exchange::{BodyFault, ErrorAnswer, Form, Refusal, Rejection};
use sealway_runtime::http::notices::Gate;
use sealway_runtime::http::{Body, BodyRefusal, full};

use crate::store::{ReserveError, StoreError};

static REPLAYS: AtomicU64 = AtomicU64::new(0);

/// Limits for log lines, by endpoint and class of rejection, because the peer decides how often a request is rejected.
static NOTICES: LazyLock<Mutex<HashMap<(&'static str, &'static str), Gate>>> = LazyLock::new(Mutex::default);

/// Returns the number of replays that this process has rejected.
pub fn replays_refused() -> u64 {
    REPLAYS.load(Ordering::Relaxed)
}

impl From<StoreError> for Refusal {
    fn from(err: StoreError) -> Self {
        match err {
            StoreError::Unavailable(reason) => Refusal::StoreUnavailable(reason),
            StoreError::Full => Refusal::StoreFull,
        }
    }
}

impl From<ReserveError> for Refusal {
    fn from(err: ReserveError) -> Self {
        match err {
            ReserveError::Replayed => Error::Replayed.into(),
            ReserveError::Full => Refusal::NoncesFull,
            ReserveError::Unavailable(reason) => Refusal::StoreUnavailable(reason),
        }
    }
}

/// Maps the rejection of a request body to its wire error.
pub fn body_fault(refusal: BodyRefusal) -> BodyFault {
    match refusal {
        BodyRefusal::TooLarge => BodyFault::TooLarge,
        BodyRefusal::TooSlow => BodyFault::TooSlow,
        BodyRefusal::Broken => BodyFault::Broken,
        BodyRefusal::NoRoom => BodyFault::NoRoom,
    }
}

/// Classes of rejections that deploy/prometheus/rules.yaml alerts on.
const ALERTED: [&str; 8] = [
    "replayed",
    "nonce_reserved",
    "unsealable",
    "aad_mismatch",
    "timestamp_outside_window",
    "store_unavailable",
    "store_full",
    "nonces_full",
];

fn count(what: &'static str, class: &'static str) -> Counter {
    counter!("sealway_refusals_total", "on" => what, "class" => class)
}

/// Creates the counters of classes with an alert at 0: a scraper sees no increment of a counter that begins with it.
pub(crate) fn register() {
    for class in ALERTED {
        let _ = [count("init", class), count("call", class)];
    }
}

/// Counts a rejection and logs its class. Per class a limited number of lines is logged; the next line has the number
/// of lines that were kept back. `what` is `init`, `call`, `seal` or `authority`.
pub fn report(refusal: &Refusal, what: &'static str) {
    count(what, refusal.class()).increment(1);
    if matches!(refusal, Refusal::Wire(Error::Replayed)) {
        REPLAYS.fetch_add(1, Ordering::Relaxed);
    }
    let kept_back = NOTICES.lock().entry((what, refusal.class())).or_default().pass(Instant::now());
    if let Some(kept_back) = kept_back {
        tracing::info!(on = what, class = refusal.class(), kept_back, "refused: {refusal}");
    }
}

/// Builds the response that a client gets for a rejection, in the given form.
pub fn rejected(rejection: impl Into<Rejection>, form: Form) -> Response<Body> {
    told(rejection.into().answer(form))
}

/// Builds a response from an error answer.
pub fn told(error: ErrorAnswer) -> Response<Body> {
    error_answer(error).map(ExchangeBody::into_boxed)
}

/// Builds a response with a body of JSON text.
pub fn json(status: StatusCode, text: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Builds a response with the body `{"error": code}`.
pub fn plain_error(status: StatusCode, code: &'static str) -> Response<Body> {
    told(ErrorAnswer::plain(status.as_u16(), code))
}

/// Builds a 405 with the header `Allow`.
pub(crate) fn method_not_allowed(allow: &'static str, form: Form) -> Response<Body> {
    rejected(Refusal::Method(allow), form)
}

/// Builds `503 {"error":"SERVICE_UNAVAILABLE"}`, with `Retry-After` of one second.
pub fn busy() -> Response<Body> {
    rejected(Refusal::Unanswered(503), Form::Plain)
}

/// Builds a response with the body `{"error": reason phrase, "message": message}`.
pub fn v1_error(status: StatusCode, message: &str) -> Response<Body> {
    told(ErrorAnswer::v1(status.as_u16(), message))
}
