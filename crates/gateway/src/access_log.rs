//! The access log: a line of JSON for each request that reaches the routes, matched or not, written when its answer is
//! over. It contains no query, no headers except the selectable fields, and nothing of a body, since those hold tokens
//! and session data.

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

/// Maximum number of lines in the queue; more are dropped and counted.
const LINES_MAX: usize = 4096;
/// Maximum number of bytes in one write.
const BATCH_MAX: usize = 64 * 1024;
/// Maximum length of a client's text in a line, in characters; the rest is cut off.
const TEXT_MAX: usize = 1024;

/// Field of a line in the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Field {
    /// Time of the request's head, in UTC.
    Time,
    /// Name of the listener, as configured.
    Listener,
    /// Address of the connection's peer.
    Peer,
    /// Address of the client: the peer's, or the one that a trusted proxy reports.
    Client,
    /// Subject of the client's verified certificate.
    Certificate,
    /// Method of the request.
    Method,
    /// Host of the target, or the header `Host`.
    Host,
    /// Path without its query.
    Path,
    /// HTTP version of the request.
    Version,
    /// Value of the header `User-Agent`.
    UserAgent,
    /// Name of the route, `none` if none matched.
    Route,
    /// Name of the route's upstream.
    Upstream,
    /// Status of the answer; null if the client left before there was one.
    Status,
    /// Time from the request's head to the end of its answer, in milliseconds.
    DurationMs,
    /// Bytes of the answer's body that were passed to the connection.
    BytesSent,
    /// True if the answer was sent to its end.
    Complete,
}

/// Fields of a line by default.
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

/// Access log with its fields and the queue of its writer thread.
#[derive(Debug)]
pub(crate) struct AccessLog {
    fields: Vec<Field>,
    lines: SyncSender<String>,
}

impl AccessLog {
    /// Opens the file for appending, or standard output without a file. A separate thread writes, so that a slow disk
    /// delays no request.
    ///
    /// # Errors
    /// The error of opening the file.
    pub(crate) fn open(file: Option<&Path>, fields: Vec<Field>) -> io::Result<Self> {
        let to: Box<dyn Write + Send> = match file {
            Some(path) => Box::new(OpenOptions::new().create(true).append(true).mode(0o600).open(path)?),
            None => Box::new(io::stdout()),
        };
        let (lines, waiting) = sync_channel(LINES_MAX);
        // Created at 0: a scraper sees no increment of a counter that begins with it.
        let _ = counter!("sealway_access_log_lost_total");
        std::thread::Builder::new().name("access log".into()).spawn(move || write(&waiting, to))?;
        Ok(AccessLog { fields, lines })
    }

    /// Starts a line with the fields of the request.
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
            tracing::debug!(%err, lost, "writing the access log failed");
        }
    }
}

fn text(value: &str) -> Value {
    value.chars().take(TEXT_MAX).collect::<String>().into()
}

/// Returns a field's value as far as the request's head gives it; null for a value that is known later or absent.
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

/// A line in progress, written when the answer is over or the client has gone.
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
    /// Sets the route and upstream of the line.
    pub(crate) fn routed(&mut self, route: &str, upstream: &str) {
        for (field, value) in &mut self.known {
            match field {
                Field::Route => *value = route.into(),
                Field::Upstream if !upstream.is_empty() => *value = upstream.into(),
                _ => {}
            }
        }
    }

    /// Removes what tells one client from another: a relay of Oblivious HTTP would otherwise keep what its gateway must not know.
    pub(crate) fn forget_client(&mut self) {
        for (field, value) in &mut self.known {
            if let Field::Peer | Field::Client | Field::Certificate | Field::UserAgent = field {
                *value = Value::Null;
            }
        }
    }

    /// Attaches the line to the response, whose end completes it.
    pub(crate) fn follow(mut self, response: Response<Body>) -> Response<Body> {
        self.status = Some(response.status());
        self.is_complete = response.body().is_end_stream();
        if self.is_complete { response } else { response.map(|body| CountingBody { body, entry: self }.boxed_unsync()) }
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

/// An answer's body whose bytes are counted.
struct CountingBody {
    body: Body,
    entry: Entry,
}

impl HttpBody for CountingBody {
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
