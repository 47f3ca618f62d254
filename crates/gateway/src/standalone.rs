//! Answers of a gateway without a service behind it: those of Lite Gateway, and refusals.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use sealway_runtime::http::{Body, BodyRefusal, RequestBody, full, read_body};
use sealway_sessions::answer::{busy, plain_error};
use std::time::Duration;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Maximum length of a body that is echoed, in bytes.
const ECHO_BODY_MAX: usize = 16 * 1024 * 1024;
const OK: &[u8] = br#"{"status":"ok","mode":"standalone"}"#;

/// Kind of answer of a standalone route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standalone {
    /// 200 and a fixed body for every request; the request's body is not read.
    Ok,
    /// 200 and the body of the request.
    Echo,
    /// 404, so that no later route takes the request.
    NotFound,
    /// 500: the service behind is not known. Other spellings of the route's paths are rejected, as those of a sealed route are.
    Unavailable,
}

impl Standalone {
    /// Returns the maximum of a body that it holds in memory, in bytes; 0 if the body is not read.
    pub(crate) fn body_max(self) -> usize {
        match self {
            Standalone::Echo => ECHO_BODY_MAX,
            Standalone::Ok | Standalone::NotFound | Standalone::Unavailable => 0,
        }
    }

    /// Answers a request. For an echo the body may have at most `body_max` bytes and take at most `deadline`; then the
    /// answer is delayed by `delay`.
    pub(crate) async fn answer(
        self,
        parts: &Parts,
        body: RequestBody,
        body_max: usize,
        deadline: Duration,
        delay: Duration,
    ) -> Response<Body> {
        let (bytes, content_type) = match self {
            Standalone::Ok => (bytes::Bytes::from_static(OK), JSON),
            Standalone::NotFound => return plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
            Standalone::Unavailable => return plain_error(StatusCode::INTERNAL_SERVER_ERROR, "SERVICE_UNAVAILABLE"),
            Standalone::Echo => match read_body(body, body_max, deadline).await {
                Ok(bytes) => (bytes.into(), parts.headers.get(CONTENT_TYPE).cloned().unwrap_or(JSON)),
                Err(BodyRefusal::TooLarge) => return plain_error(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
                Err(BodyRefusal::TooSlow) => return plain_error(StatusCode::REQUEST_TIMEOUT, "BAD_REQUEST"),
                Err(BodyRefusal::NoRoom) => return busy(),
                Err(BodyRefusal::Broken) => return plain_error(StatusCode::BAD_REQUEST, "BAD_REQUEST"),
            },
        };
        tokio::time::sleep(delay).await;
        let mut response = Response::new(full(bytes));
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}
