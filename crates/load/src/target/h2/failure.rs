//! Failures of requests over HTTP/2, by the end of their stream and by that of their connection.

use sealway_runtime::http::h2::{Connection, Reason, StreamError};

use crate::record::{Class, Failure};
use crate::target::observed::StreamRecord;

/// Returns whether the server says that it did not process the request: a stream after the last one of a `GOAWAY` without an
/// error, or a refused stream.
pub(super) fn is_unseen(err: StreamError, connection: &Connection) -> bool {
    err == StreamError::Unprocessed && connection.peer_go_away().is_none_or(|(_, reason)| reason == Reason::NoError)
}

/// Classifies the end of a stream.
pub(super) fn of(err: StreamError, connection: &Connection, seen: &StreamRecord) -> Failure {
    let to = seen.to();
    let go_away = connection.peer_go_away().map(|(_, reason)| reason);
    let reset = |reason| Failure::new(Class::Reset, format!("{to} reset the stream: {reason}"));
    let goodbye = |reason| Failure::new(Class::Closed, format!("{to} closed the connection (GOAWAY): {reason}"));
    match (err, go_away) {
        (StreamError::Reset(reason), _) => reset(reason),
        (StreamError::Unprocessed, None) => reset(Reason::RefusedStream),
        (StreamError::Unprocessed, Some(reason)) => goodbye(reason),
        (StreamError::Malformed(_) | StreamError::Connection(_), _) => {
            Failure::new(Class::Malformed, format!("{to} violated HTTP/2: {err}"))
        }
        (StreamError::Closed, Some(reason)) if reason != Reason::NoError => goodbye(reason),
        // The stream has recorded why it broke.
        (StreamError::Closed | StreamError::GivenUp(_), _) => seen.failure().unwrap_or_else(|| {
            Failure::new(Class::Closed, format!("{to} closed the connection before its response was complete"))
        }),
    }
}
