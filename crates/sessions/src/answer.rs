//! Refusals: counted and logged here, told to the peer by [`Rejection::answer`]; and the answers of endpoints.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use parking_lot::Mutex;
use sealway_exchange::body::Body as ExchangeBody;
use sealway_exchange::error_answer;
use sealway_proto::Error;
pub use sealway_proto::exchange::{BodyFault, ErrorAnswer, Form, Refusal, Rejection};
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

/// What a body that could not be read is as a refusal.
pub fn body_fault(refusal: BodyRefusal) -> BodyFault {
    match refusal {
        BodyRefusal::TooLarge => BodyFault::TooLarge,
        BodyRefusal::TooSlow => BodyFault::TooSlow,
        BodyRefusal::Broken => BodyFault::Broken,
        BodyRefusal::NoRoom => BodyFault::NoRoom,
    }
}

/// Counts a refusal and logs its class: of each class some lines, the next with the number of those that were kept back. `what` is
/// `init`, `call`, `seal` or `authority`.
pub fn report(refusal: &Refusal, what: &'static str) {
    metrics::counter!("sealway_refusals_total", "on" => what, "class" => refusal.class()).increment(1);
    if matches!(refusal, Refusal::Wire(Error::Replayed)) {
        REPLAYS.fetch_add(1, Ordering::Relaxed);
    }
    let kept_back = NOTICES.lock().entry((what, refusal.class())).or_default().pass(Instant::now());
    if let Some(kept_back) = kept_back {
        tracing::info!(on = what, class = refusal.class(), kept_back, "refused: {refusal}");
    }
}

/// What a client is told of a refusal.
pub fn rejected(rejection: impl Into<Rejection>, form: Form) -> Response<Body> {
    told(rejection.into().answer(form))
}

/// An error as an answer.
pub fn told(error: ErrorAnswer) -> Response<Body> {
    error_answer(error).map(ExchangeBody::into_boxed)
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
    told(ErrorAnswer::plain(status.as_u16(), code))
}

/// 405 with `Allow`.
pub(crate) fn method_not_allowed(allow: &'static str, form: Form) -> Response<Body> {
    rejected(Refusal::Method(allow), form)
}

/// `503 {"error":"SERVICE_UNAVAILABLE"}`, with the word to come again in a second.
pub fn busy() -> Response<Body> {
    rejected(Refusal::Unanswered(503), Form::Plain)
}

/// `{"error": reason phrase, "message": message}`.
pub fn v1_error(status: StatusCode, message: &str) -> Response<Body> {
    told(ErrorAnswer::v1(status.as_u16(), message))
}
