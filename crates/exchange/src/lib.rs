//! Sealed requests over HTTP: drives the value of [`sealway_proto::exchange`] with a body, a clock and a store, asks a service,
//! and seals what it answers. The gateway, the session authority and the tower layer are its callers.
//!
//! * [`serve()`] — answers one sealed request; [`Sessions`] is what it asks of a store and a clock, [`Rules`] what differs by route.
//! * [`body`] — bodies; [`headers`] — which headers cross the seal; [`KeptAnswers`] — answers for requests sent once more.
//! * [`error_answer`], [`timing`] — what a refused client is told, and `Server-Timing`.
//!
//! It may not know: listeners, upstreams, configuration, how sessions are agreed, a byte of a wire.
#![warn(missing_docs)]

pub mod body;
mod cut;
pub mod headers;
mod kept;
mod open;
mod seal;
mod serve;
mod sessions;
pub mod timing;

pub use kept::KeptAnswers;
pub use serve::{Failure, Rules, serve};
pub use sessions::{Sessions, over};

use body::{Body, full};
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use sealway_proto::exchange::ErrorAnswer;

/// An error as an answer.
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
