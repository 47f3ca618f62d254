//! One connection to one socket, opened by the first call that needs it and reopened after it has ended.
//!
//! It uses hyper's HTTP/2 and not tonic's channel, because only hyper tells if a failed call was sent.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use http_body_util::combinators::MapErr;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sealway_proto::error;
use tokio::net::UnixStream;
use tonic::body::Body;
use tonic::codegen::Service;

use super::traffic::{CountingStream, Traffic};

/// Flow-control windows: bytes that the broker may send ahead on one stream, and on all streams.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// Longest headers of an answer, in bytes.
const HEADERS_LEN_MAX: u32 = 16 * 1024;

/// Failure of the connection, as opposed to an error that the broker answered.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionError {
    pub(crate) text: String,
    /// True if no byte of the call was sent.
    pub(crate) is_unsent: bool,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConnectionError {}

/// A connection; its clones share it.
#[derive(Clone)]
pub(crate) struct Connection(Arc<State>);

struct State {
    socket: PathBuf,
    /// User id that the broker must run as, if configured.
    uid: Option<u32>,
    line: Mutex<Option<SendRequest<Body>>>,
    /// Held by the call that opens the connection; the other calls wait, each until its own deadline.
    opening: tokio::sync::Mutex<()>,
    traffic: Arc<Traffic>,
}

impl Connection {
    pub(crate) fn new(socket: PathBuf, uid: Option<u32>) -> Self {
        Connection(Arc::new(State {
            socket,
            uid,
            line: Mutex::new(None),
            opening: tokio::sync::Mutex::new(()),
            traffic: Arc::default(),
        }))
    }

    /// Returns bytes sent and bytes received.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.0.traffic.read()
    }

    /// True if a call made now finds an open connection.
    pub(crate) fn is_open(&self) -> bool {
        self.standing().is_some()
    }

    fn standing(&self) -> Option<Line> {
        let line = self.0.line.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = line.as_ref().filter(|sender| !sender.is_closed())?.clone();
        Some(Line { sender, shared: self.0.clone() })
    }

    /// Returns the open connection, or opens one.
    ///
    /// # Errors
    /// [`ConnectionError`] if it cannot be opened; nothing was sent then.
    pub(crate) async fn line(&self) -> Result<Line, ConnectionError> {
        if let Some(line) = self.standing() {
            return Ok(line);
        }
        let _opening = self.0.opening.lock().await;
        if let Some(line) = self.standing() {
            return Ok(line);
        }
        let sender = self.0.open().await.map_err(|text| ConnectionError { text, is_unsent: true })?;
        *self.0.line.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender.clone());
        Ok(Line { sender, shared: self.0.clone() })
    }
}

/// Sender on a connection that was open when it was taken.
#[derive(Clone)]
pub(crate) struct Line {
    sender: SendRequest<Body>,
    shared: Arc<State>,
}

impl Line {
    async fn send(mut self, request: Request<Body>) -> Result<Answer, ConnectionError> {
        if let Err(err) = self.sender.ready().await {
            return Err(ConnectionError { text: self.shared.told(&err), is_unsent: true });
        }
        match self.sender.try_send_request(request).await {
            Ok(answer) => Ok(answer.map(|body| body.map_err(broke_off as fn(hyper::Error) -> ConnectionError))),
            Err(mut err) => {
                let is_unsent = err.take_message().is_some();
                Err(ConnectionError { text: self.shared.told(err.error()), is_unsent })
            }
        }
    }
}

/// Placeholder authority of calls: a Unix socket has no host.
pub(crate) fn origin() -> Uri {
    Uri::from_static("http://broker")
}

impl State {
    async fn open(&self) -> Result<SendRequest<Body>, String> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|err| format!("no connection to {}: {err}", self.socket.display()))?;
        if let Some(expected) = self.uid {
            // Another user may have put a socket at the broker's path to receive secrets.
            let found = stream.peer_cred().map_err(|err| format!("cannot tell who listens: {err}"))?.uid();
            if found != expected {
                return Err(format!("{} is user {found}'s, not user {expected}'s", self.socket.display()));
            }
        }
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS_LEN_MAX)
            .handshake(TokioIo::new(CountingStream::new(stream, self.traffic.clone())))
            .await
            .map_err(|err| self.told(&err))?;
        // The calls on the connection report its end.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    fn told(&self, err: &hyper::Error) -> String {
        format!("the connection to {} ended: {}", self.socket.display(), chain(err))
    }
}

/// Answer whose body fails with [`ConnectionError`].
pub(crate) type Answer = Response<MapErr<Incoming, fn(hyper::Error) -> ConnectionError>>;

fn broke_off(err: hyper::Error) -> ConnectionError {
    ConnectionError { text: format!("the answer broke off: {}", chain(&err)), is_unsent: false }
}

/// An error and its causes, in one line of up to 300 characters.
fn chain(err: &dyn std::error::Error) -> String {
    error::chain(err).chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

impl Service<Request<Body>> for Line {
    type Response = Answer;
    type Error = ConnectionError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, ConnectionError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("socket", &self.0.socket).finish_non_exhaustive()
    }
}
