//! Sealed requests over HTTP: drives [`sealway_proto::exchange`] with a body, a clock and a store, calls a service, and
//! seals its answer. The gateway, the session authority and the tower layer are its callers.
//!
//! * [`serve()`] — answers one sealed request; [`Sessions`] is its interface to a store and a clock, [`Rules`] has the
//!   settings of a route.
//! * [`one_shot`] — keys of requests without a session (wire 4).
//! * [`body`] — bodies; [`headers`] — headers that cross the seal; [`KeptAnswers`] — answers for repeated requests.
//! * [`error_answer`], [`timing`] — the answer to a rejected client, and `Server-Timing`.
//!
//! It may not know listeners, upstreams, configuration, the agreement of sessions, or a byte of a wire.
#![warn(missing_docs)]

pub mod body;
mod cut;
pub mod headers;
mod kept;
pub mod one_shot;
mod open;
mod problems;
mod seal;
mod serve;
mod sessions;
pub mod timing;

pub use kept::KeptAnswers;
pub use one_shot::{OneShotKeys, OneShotRules};
pub use problems::Problems;
pub use serve::{Cause, Failure, Rules, serve};
pub use sessions::{Sessions, over};

use body::{Body, full};
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use sealway_proto::exchange::ErrorAnswer;

/// Builds a response from an error answer.
pub fn error_answer(error: ErrorAnswer) -> Response<Body> {
    let mut response = Response::new(full(error.body));
    *response.status_mut() = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in error.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}
