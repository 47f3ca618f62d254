//! Drives one HTTP/2 connection towards a server, which many requests share: one task reads and writes, and each request is
//! sent by the task that awaits its answer.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::Body as HttpBody;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, MissedTickBehavior};

use super::{
    Config, Connection, ConnectionError, Piece, Reason, RequestHead, ResponseHead, Role, StreamError, Tunnel, poll_read,
};

/// Time without a byte from the server after which it is asked whether it is there, if it is checked at all.
const LOOK_PARTS: u32 = 2;
/// Time that the last frames may take to be written.
const LAST_WRITE_TIME: Duration = Duration::from_secs(2);

/// The cause for which a connection to a server ended.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The transport failed, below HTTP/2.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// The server violated the protocol.
    #[error("{0}")]
    Protocol(#[from] ConnectionError),
    /// The server has not answered a PING.
    #[error("the server does not answer")]
    Silent,
}

/// The cause for which a request got no answer, or no complete one.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError<E> {
    /// The stream ended before its answer did.
    #[error("{0}")]
    Stream(StreamError),
    /// The request's own body failed.
    #[error("request body: {0}")]
    Body(E),
}

/// Opens streams on a connection. The connection ends with its last `Sender` and its last stream.
#[derive(Clone, Debug)]
pub struct Sender(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Mutex<Connection>>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().retire();
    }
}

impl Sender {
    /// Returns whether the connection takes no further request.
    pub fn is_closed(&self) -> bool {
        !self.0.0.lock().is_open()
    }

    /// Waits for the server's settings, and returns whether it accepts extended CONNECT (RFC 8441).
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn accepts_connect(&self) -> Result<bool, StreamError> {
        let shared = &self.0.0;
        let mut wait = Wait { connection: shared, waker: None };
        let accepts = poll_fn(|cx| {
            let accepts = shared.lock().poll_accepts_connect(cx);
            wait.waker = accepts.is_pending().then(|| cx.waker().clone());
            accepts
        });
        accepts.await
    }

    /// Returns the most streams that the server allows at once.
    pub fn streams_max(&self) -> usize {
        self.0.0.lock().peer_streams_max()
    }

    /// Waits until the server allows one more request, and sends its head. Without a body, or with one that is already at its
    /// end, the request is complete. An extended CONNECT stays open: see [`Exchange::into_tunnel`].
    ///
    /// # Errors
    /// The connection takes no more requests; nothing was sent, and the request is returned.
    pub async fn send<B>(&self, head: RequestHead, body: Option<B>) -> Result<Exchange<B>, (StreamError, Option<B>)>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let shared = &self.0.0;
        let body = body.filter(|body| !body.is_end_stream());
        let is_whole = body.is_none() && head.protocol.is_none();
        let mut wait = Wait { connection: shared, waker: None };
        let opened = poll_fn(|cx| {
            let connection = &mut *shared.lock();
            let can_open = connection.poll_can_open(cx);
            wait.waker = can_open.is_pending().then(|| cx.waker().clone());
            can_open.map_ok(|()| connection.open(&head, is_whole))
        });
        match opened.await {
            Ok(stream) => {
                Ok(Exchange { connection: shared.clone(), stream, body, is_over: false, is_handed_over: false })
            }
            Err(err) => Err((err, body)),
        }
    }
}

/// The wait of a request for a stream. Dropped early, it leaves its turn to the next request.
struct Wait<'a> {
    connection: &'a Mutex<Connection>,
    waker: Option<Waker>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(waker) = &self.waker {
            self.connection.lock().cancel_open(waker);
        }
    }
}

/// A request in progress and its answer. Dropping it gives both up.
///
/// Each poll also sends what the request's body has.
#[derive(Debug)]
pub struct Exchange<B> {
    connection: Arc<Mutex<Connection>>,
    stream: u32,
    /// The request's body, until all of it was sent.
    body: Option<B>,
    /// True once the end of the answer was read.
    is_over: bool,
    /// True once a tunnel has the stream, and ends it.
    is_handed_over: bool,
}

impl<B> Drop for Exchange<B> {
    fn drop(&mut self) {
        if self.is_handed_over {
            return;
        }
        let connection = &mut *self.connection.lock();
        connection.drop_reader(self.stream);
        connection.drop_writer(self.stream, Reason::Cancel);
    }
}

impl<B> Exchange<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    /// Sends what the request's body has, as far as there is room.
    fn pump(&mut self, cx: &mut Context<'_>) -> Result<(), B::Error> {
        while self.body.is_some() {
            match self.connection.lock().poll_room(self.stream, cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => self.body = None,
                Poll::Pending => return Ok(()),
            }
            let Some(body) = &mut self.body else { return Ok(()) };
            let frame = match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => return Ok(()),
            };
            let is_last = body.is_end_stream();
            let connection = &mut *self.connection.lock();
            match frame.transpose() {
                Err(err) => {
                    connection.reset(self.stream, Reason::Cancel);
                    self.body = None;
                    return Err(err);
                }
                Ok(Some(frame)) => match frame.into_data() {
                    Ok(data) => {
                        connection.send(self.stream, data, is_last);
                        if !is_last {
                            continue;
                        }
                    }
                    Err(frame) => connection.send_trailers(self.stream, frame.into_trailers().unwrap_or_default()),
                },
                Ok(None) => connection.send(self.stream, Bytes::new(), true),
            }
            self.body = None;
        }
        Ok(())
    }

    /// Polls the next response: interim ones, then the final one.
    ///
    /// # Errors
    /// There is no response.
    pub fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, ExchangeError<B::Error>>> {
        self.pump(cx).map_err(ExchangeError::Body)?;
        self.connection.lock().poll_response(self.stream, cx).map_err(ExchangeError::Stream)
    }

    /// Polls the next part of the answer's body, or its trailers. `None` is its end, which the server has sent.
    ///
    /// # Errors
    /// The answer ended early.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ExchangeError<B::Error>>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        // An answer may be complete although its request failed.
        let pumped = self.pump(cx);
        let piece = self.connection.lock().poll_piece(self.stream, cx);
        self.is_over |= matches!(piece, Poll::Ready(None));
        match (piece, pumped) {
            (Poll::Ready(Some(Err(_))) | Poll::Pending, Err(err)) => Poll::Ready(Some(Err(ExchangeError::Body(err)))),
            (piece, _) => piece.map_err(ExchangeError::Stream),
        }
    }

    /// Returns the tunnel that an extended CONNECT has opened. Only after a success, and before its body is polled.
    pub fn into_tunnel(mut self) -> Tunnel {
        self.is_handed_over = true;
        Tunnel::new(self.connection.clone(), self.stream)
    }

    /// Ends an extended CONNECT that was answered by no success: nothing is sent.
    pub fn end_connect(&mut self) {
        self.connection.lock().send(self.stream, Bytes::new(), true);
    }

    /// Returns whether the whole answer was received and read.
    pub fn is_end(&self) -> bool {
        self.is_over || self.connection.lock().is_read(self.stream)
    }
}

/// Begins HTTP/2 on a connection. The future drives it, and must be polled until it ends. With `ping` the server is asked
/// whether it is there after that time without a byte from it, while requests wait; and has as long for its answer.
pub fn connect<IO>(
    mut io: IO,
    config: Config,
    ping: Option<Duration>,
) -> (Sender, impl Future<Output = Result<(), DriveError>> + use<IO>)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let connection = Arc::new(Mutex::new(Connection::new(Role::Client, config)));
    let sender = Sender(Arc::new(Handle(connection.clone())));
    let drive = async move {
        // Also if this future is dropped.
        let guard = Guard(connection);
        let began = Instant::now();
        let mut input = BytesMut::new();
        let mut looks = ping.map(|ping| {
            let mut looks = tokio::time::interval(ping / LOOK_PARTS);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            looks
        });
        let (mut heard_at, mut pinged_at) = (began, None::<Instant>);
        let driven = poll_fn(|cx| {
            loop {
                let connection = &mut *guard.0.lock();
                connection.take_driver();
                let mut has_read = false;
                if connection.takes_input() {
                    match poll_read(&mut io, cx, &mut input)? {
                        Poll::Ready(0) => return Poll::Ready(Ok(())),
                        Poll::Ready(_) => has_read = true,
                        Poll::Pending => {}
                    }
                }
                if has_read {
                    heard_at = Instant::now();
                    pinged_at = None;
                    if let Err(error) = connection.receive(&mut input, heard_at - began) {
                        connection.fail(error);
                        return Poll::Ready(Err(error.into()));
                    }
                    if input.is_empty() {
                        input = BytesMut::new();
                    }
                }
                let mut written = connection.poll_write(&mut io, cx)?;
                if written.is_ready() {
                    // While the transport cannot flush, the server may wait for this side to read.
                    written = match Pin::new(&mut io).poll_flush(cx) {
                        Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                        flushed => flushed.map(drop),
                    };
                }
                if connection.is_retired() && connection.open_streams() == 0 {
                    connection.say_go_away(true);
                    return Poll::Ready(Ok(()));
                }
                if connection.peer_go_away().is_some() && connection.open_streams() == 0 {
                    return Poll::Ready(Ok(()));
                }
                if has_read {
                    continue;
                }
                if let (Some(looks), Some(ping)) = (&mut looks, ping)
                    && looks.poll_tick(cx).is_ready()
                {
                    let now = Instant::now();
                    connection.set_now(now - began);
                    if pinged_at.is_some_and(|at| now - at >= ping) {
                        return Poll::Ready(Err(DriveError::Silent));
                    }
                    if pinged_at.is_none() && now - heard_at >= ping && connection.open_streams() > 0 {
                        pinged_at = Some(now);
                        connection.ping();
                    }
                    if connection.open_streams() == 0 {
                        connection.shrink();
                    }
                    continue;
                }
                connection.set_driver(cx);
                if written.is_ready() && connection.has_output() {
                    continue;
                }
                return Poll::Pending;
            }
        })
        .await;
        guard.0.lock().close();
        // The server gets whole frames, and the GOAWAY that says why.
        let rest = poll_fn(|cx| {
            std::task::ready!(guard.0.lock().poll_write(&mut io, cx))?;
            Pin::new(&mut io).poll_flush(cx)
        });
        let _ = tokio::time::timeout(LAST_WRITE_TIME, rest).await;
        driven
    };
    (sender, drive)
}

/// Ends all streams when the connection is not driven any more.
struct Guard(Arc<Mutex<Connection>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.lock().close();
    }
}
