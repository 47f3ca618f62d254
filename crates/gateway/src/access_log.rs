//! The access log: a line of JSON for each request that a route was asked for, written when its answer is over. It holds no
//! query, no header but those that can be chosen here, and nothing of a body: tokens and session data stand in those.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use metrics::counter;
use sealway_runtime::clock::{Clock, SystemClock, iso8601};
use sealway_runtime::http::{Body, BodyError, Origin};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Lines that may wait to be written; more are dropped and counted.
const LINES_MAX: usize = 4096;
/// How much is written at once, in bytes.
const BATCH_MAX: usize = 64 * 1024;
/// Longest text of a client's in a line, in characters; the rest is cut off.
const TEXT_MAX: usize = 1024;

/// What a line may say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Field {
    /// When it came, in UTC.
    Time,
    /// The listener's name.
    Listener,
    /// The other end of the connection.
    Peer,
    /// The client's address: the peer's, or what a trusted proxy says.
    Client,
    /// The subject of the client's verified certificate.
    Certificate,
    /// The method.
    Method,
    /// The target's host, or `Host`.
    Host,
    /// The path without its query.
    Path,
    /// The version of HTTP.
    Version,
    /// `User-Agent`.
    UserAgent,
    /// The route's name, `none` where there was none.
    Route,
    /// The upstream's name.
    Upstream,
    /// The answer's status; null if the client went away before there was one.
    Status,
    /// From the request's head to the end of its answer, in milliseconds.
    DurationMs,
    /// Bytes of the answer's body that were given to the connection.
    BytesSent,
    /// Whether the answer came to its end.
    Complete,
}

/// What is logged unless the configuration chooses.
pub(crate) const DEFAULT_FIELDS: [Field; 10] = [
    Field::Time,
    Field::Peer,
    Field::Method,
    Field::Path,
    Field::Route,
    Field::Upstream,
    Field::Status,
    Field::DurationMs,
    Field::BytesSent,
    Field::Complete,
];

/// Where lines go, and what they say.
#[derive(Debug)]
pub(crate) struct AccessLog {
    fields: Vec<Field>,
    lines: SyncSender<String>,
}

impl AccessLog {
    /// Opens the file to append to, or standard output without one. A thread of its own writes: a disk that is slow delays
    /// nobody.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn open(file: Option<&Path>, fields: Vec<Field>) -> io::Result<Self> {
        let to: Box<dyn Write + Send> = match file {
            Some(path) => Box::new(OpenOptions::new().create(true).append(true).mode(0o600).open(path)?),
            None => Box::new(io::stdout()),
        };
        let (lines, waiting) = sync_channel(LINES_MAX);
        std::thread::Builder::new().name("access log".into()).spawn(move || write(&waiting, to))?;
        Ok(AccessLog { fields, lines })
    }

    /// Begins a line with what the request says.
    pub(crate) fn begin(&self, parts: &Parts) -> Entry {
        let known = self.fields.iter().map(|field| (*field, request_value(*field, parts))).collect();
        Entry {
            known,
            lines: self.lines.clone(),
            began: Instant::now(),
            status: None,
            bytes_sent: 0,
            is_complete: false,
        }
    }
}

fn write(waiting: &Receiver<String>, mut to: Box<dyn Write + Send>) {
    while let Ok(mut batch) = waiting.recv() {
        while batch.len() < BATCH_MAX
            && let Ok(line) = waiting.try_recv()
        {
            batch.push_str(&line);
        }
        if let Err(err) = to.write_all(batch.as_bytes()).and_then(|()| to.flush()) {
            let lost = batch.lines().count() as u64;
            counter!("sealway_access_log_lost_total").increment(lost);
            tracing::debug!(%err, lost, "the access log cannot be written");
        }
    }
}

fn text(value: &str) -> Value {
    value.chars().take(TEXT_MAX).collect::<String>().into()
}

/// What is known of a field when the request comes; null for what is known later, or not there.
fn request_value(field: Field, parts: &Parts) -> Value {
    let origin = parts.extensions.get::<Origin>();
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    match field {
        Field::Time => iso8601(SystemClock.now_ms()).into(),
        Field::Listener => origin.map_or(Value::Null, |origin| text(&origin.listener)),
        Field::Peer => origin.map_or(Value::Null, |origin| origin.peer.to_string().into()),
        Field::Client => origin.and_then(|origin| origin.client).map_or(Value::Null, |ip| ip.to_string().into()),
        Field::Certificate => {
            let certificate = origin.and_then(|origin| origin.certificate.as_ref());
            certificate.map_or(Value::Null, |certificate| text(&certificate.subject))
        }
        Field::Method => text(parts.method.as_str()),
        Field::Host => parts.uri.host().or_else(|| header(HOST)).map_or(Value::Null, text),
        Field::Path => text(parts.uri.path()),
        Field::Version => format!("{:?}", parts.version).into(),
        Field::UserAgent => header(USER_AGENT).map_or(Value::Null, text),
        Field::Route | Field::Upstream | Field::Status => Value::Null,
        Field::DurationMs | Field::BytesSent | Field::Complete => Value::Null,
    }
}

/// A line that grows until the answer is over, or the client has gone.
#[derive(Debug)]
pub(crate) struct Entry {
    known: Vec<(Field, Value)>,
    lines: SyncSender<String>,
    began: Instant,
    status: Option<StatusCode>,
    bytes_sent: u64,
    is_complete: bool,
}

impl Entry {
    /// Says which route was found.
    pub(crate) fn routed(&mut self, route: &str, upstream: &str) {
        for (field, value) in &mut self.known {
            match field {
                Field::Route => *value = route.into(),
                Field::Upstream if !upstream.is_empty() => *value = upstream.into(),
                _ => {}
            }
        }
    }

    /// Follows the answer to its end.
    pub(crate) fn follow(mut self, response: Response<Body>) -> Response<Body> {
        self.status = Some(response.status());
        self.is_complete = response.body().is_end_stream();
        if self.is_complete { response } else { response.map(|body| Followed { body, entry: self }.boxed_unsync()) }
    }

    fn line(&self) -> String {
        let mut line = String::with_capacity(256);
        for (field, known) in &self.known {
            let value = match field {
                Field::Status => self.status.map_or(Value::Null, |status| status.as_u16().into()),
                Field::DurationMs => (self.began.elapsed().as_micros() as f64 / 1000.0).into(),
                Field::BytesSent => self.bytes_sent.into(),
                Field::Complete => self.is_complete.into(),
                _ => known.clone(),
            };
            line.push(if line.is_empty() { '{' } else { ',' });
            let name = serde_json::to_value(field).unwrap_or_default();
            line.push_str(&format!("{name}:{value}"));
        }
        line.push_str("}\n");
        line
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.lines.try_send(self.line()).is_err() {
            counter!("sealway_access_log_lost_total").increment(1);
        }
    }
}

/// An answer's body that is counted.
struct Followed {
    body: Body,
    entry: Entry,
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.entry.bytes_sent += frame.data_ref().map_or(0, |data| data.len() as u64);
                self.entry.is_complete = self.body.is_end_stream();
            }
            Poll::Ready(None) => self.entry.is_complete = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
