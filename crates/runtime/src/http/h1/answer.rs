//! The head of an answer: the framing of its body, and the fields that the connection adds.

use std::cell::RefCell;

use bytes::BytesMut;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderValue};
use http::{Method, StatusCode, Version};

use super::{Framing, encode_response, response_has_no_body};
use crate::clock::{Clock, SystemClock, http_date};

/// The form in which an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Plan {
    pub(in crate::http) framing: Framing,
    /// Set if the connection writes a body.
    pub(in crate::http) has_body: bool,
}

impl Plan {
    /// Plans an answer to a request of `method` and `version`, whose body has this length if it is known.
    pub(in crate::http) fn new(
        method: &Method,
        version: Version,
        status: StatusCode,
        headers: &mut HeaderMap,
        exact: Option<u64>,
    ) -> Self {
        if response_has_no_body(method, status) {
            if status == StatusCode::NO_CONTENT || status.is_informational() {
                headers.remove(CONTENT_LENGTH);
            }
            // A HEAD states the length that a GET would get, if it is known; an empty body may stand for one that was not made.
            let framing = match exact {
                Some(len) if len > 0 && *method == Method::HEAD && !headers.contains_key(CONTENT_LENGTH) => {
                    Framing::Length(len)
                }
                _ => Framing::None,
            };
            return Plan { framing, has_body: false };
        }
        let framing = match exact.or_else(|| announced(headers)) {
            Some(len) => Framing::Length(len),
            None if version == Version::HTTP_10 => Framing::Close,
            None => Framing::Chunked,
        };
        if !matches!(framing, Framing::Length(_)) {
            headers.remove(CONTENT_LENGTH);
        }
        Plan { framing, has_body: framing != Framing::Length(0) }
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns whether the service wants the connection closed after its answer.
pub(super) fn says_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Adds the connection's own fields, and writes the head.
pub(super) fn encode(
    out: &mut BytesMut,
    status: StatusCode,
    headers: &mut HeaderMap,
    framing: Framing,
    version: Version,
    keep: bool,
) {
    if !keep {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    } else if version == Version::HTTP_10 {
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive"));
    }
    if !headers.contains_key(DATE) {
        headers.insert(DATE, date());
    }
    encode_response(out, status, headers, framing);
}

/// Writes the answer of a connection that could not accept a request.
pub(super) fn encode_refusal(out: &mut BytesMut, status: StatusCode) {
    encode(out, status, &mut HeaderMap::new(), Framing::Length(0), Version::HTTP_11, false);
}

/// Returns the `Date` of now, computed once a second in every thread.
pub(in crate::http) fn date() -> HeaderValue {
    thread_local! {
        static LAST: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
    }
    let now_ms = SystemClock.now_ms();
    LAST.with_borrow_mut(|(second, value)| {
        if *second != now_ms / 1000 {
            *second = now_ms / 1000;
            *value = HeaderValue::try_from(http_date(now_ms)).unwrap_or(HeaderValue::from_static(""));
        }
        value.clone()
    })
}
