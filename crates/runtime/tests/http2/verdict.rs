//! Record of a conversation at each side, compared with its plan.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, COOKIE, DATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;

use super::plan::{BodyPlan, Plan, Reading};

/// The end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All of it has arrived.
    Whole,
    /// The message ended before its end.
    Early,
    /// The reader of the message has left.
    Unread,
}

/// A body as it arrived.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) data: BytesMut,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) end: End,
}

impl Default for Got {
    fn default() -> Got {
        Got { data: BytesMut::new(), trailers: None, end: End::Unread }
    }
}

impl Got {
    pub(crate) fn push(&mut self, frame: http_body::Frame<Bytes>) {
        assert!(self.trailers.is_none(), "something follows the trailers");
        match frame.into_data() {
            Ok(data) => self.data.extend_from_slice(&data),
            Err(frame) => self.trailers = frame.into_trailers().ok(),
        }
    }
}

/// A request as the server has seen it.
#[derive(Debug)]
pub(crate) struct GotRequest {
    pub(crate) method: Method,
    pub(crate) authority: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Got,
}

/// The requests that a server has seen, by their number.
pub(crate) type Record = Mutex<BTreeMap<usize, GotRequest>>;

/// An answer as the client has seen it.
#[derive(Debug, Default)]
pub(crate) struct GotAnswer {
    pub(crate) interim: Vec<(StatusCode, HeaderMap)>,
    pub(crate) head: Option<(StatusCode, HeaderMap)>,
    pub(crate) body: Got,
    /// True if the client gave the request up.
    pub(crate) is_given_up: bool,
    /// The error that ended it early.
    pub(crate) error: Option<String>,
}

/// Compares what both sides have seen with the plan.
pub(crate) fn check(plan: &Plan, answers: &[GotAnswer], seen: &Record) {
    let seen = seen.lock();
    for (number, (exchange, answer)) in plan.exchanges.iter().zip(answers).enumerate() {
        let what = format!("seed {}, exchange {number}", plan.seed);
        let request = seen.get(&number);
        let is_sent_whole = !answer.is_given_up && exchange.body.fails_after.is_none();
        if let Some(request) = request {
            assert_eq!(request.method, exchange.method, "{what}");
            assert_eq!(request.authority, "a.example", "{what}");
            assert_eq!(request.path, exchange.path, "{what}");
            same_fields(&exchange.headers, &request.headers, &what);
            is_part(&exchange.body, &request.body, &what, "request");
            if is_sent_whole && exchange.reading == Reading::First {
                assert_eq!(request.body.end, End::Whole, "{what}: the request");
            }
            if exchange.body.fails_after.is_some() {
                assert_ne!(request.body.end, End::Whole, "{what}: a request that failed has arrived whole");
            }
        }
        if answer.is_given_up {
            continue;
        }
        let is_answered = is_sent_whole && exchange.answer.fails_after.is_none();
        if is_answered {
            assert!(request.is_some(), "{what}: the request has not arrived, {:?}", answer.error);
            let (status, headers) = answer.head.as_ref().unwrap_or_else(|| panic!("{what}: {:?}", answer.error));
            assert_eq!(*status, exchange.status, "{what}");
            same_fields(&exchange.answer_headers, headers, &what);
            assert_eq!(answer.body.end, End::Whole, "{what}: the answer, {:?}", answer.error);
            assert_eq!(answer.interim.len(), exchange.interim.len(), "{what}: interim answers");
            for ((status, headers), (got_status, got_headers)) in exchange.interim.iter().zip(&answer.interim) {
                assert_eq!(status, got_status, "{what}");
                same_fields(headers, got_headers, &what);
            }
        }
        is_part(&exchange.answer, &answer.body, &what, "answer");
        if exchange.answer.fails_after.is_some() {
            assert_ne!(answer.body.end, End::Whole, "{what}: an answer that failed has arrived whole");
        }
    }
}

/// Checks that a body is the beginning of the planned one, and all of it if it says so.
fn is_part(plan: &BodyPlan, got: &Got, what: &str, which: &str) {
    assert!(got.data.len() <= plan.len(), "{what}: the {which} has {} bytes of {}", got.data.len(), plan.len());
    assert!(got.data == plan.bytes(0, got.data.len()), "{what}: other bytes in the {which}");
    if got.end == End::Whole {
        assert_eq!(got.data.len(), plan.len(), "{what}: the length of the {which}");
        let expected = plan.trailers.as_ref().filter(|trailers| !trailers.is_empty());
        let trailers = got.trailers.as_ref().filter(|trailers| !trailers.is_empty());
        assert_eq!(trailers, expected, "{what}: the trailers of the {which}");
    }
}

/// Checks that all planned fields have arrived in their order, and no others but those that a library adds.
fn same_fields(planned: &HeaderMap, got: &HeaderMap, what: &str) {
    for name in planned.keys().filter(|name| **name != COOKIE) {
        let values = |headers: &HeaderMap| headers.get_all(name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(values(planned), values(got), "{what}: {name}");
    }
    // Its parts may be joined (RFC 9113 section 8.2.3); an empty one of several adds nothing.
    let cookie = |headers: &HeaderMap| {
        let mut parts: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
        if parts.len() > 1 {
            parts.retain(|part| !part.is_empty());
        }
        parts.join(&b"; "[..])
    };
    assert_eq!(cookie(planned), cookie(got), "{what}: cookie");
    let added = got.keys().filter(|name| !planned.contains_key(*name));
    let added: Vec<_> = added.filter(|name| **name != DATE && **name != CONTENT_LENGTH).collect();
    assert!(added.is_empty(), "{what}: {added:?} were not sent");
}
