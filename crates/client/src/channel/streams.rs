//! Streams on a channel: the task that owns the connection, and the commands of its handles.
//!
//! The module does not know what streams carry, apart from their prologue.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::io::AsyncWrite as _;
use sealway_proto::rpc::{HEADER_LEN, HELLO_LEN_MAX, Hello, frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, timeout};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt};
use yamux::{Connection, Mode};

use super::ends::Ends;
use super::error::{Error, Stage};
use super::pulse::{Due, Pulse};
use super::secure::{Records, Secure};

/// Concurrent streams on a channel for each side that opens them.
pub const STREAMS_MAX: usize = 128;
/// Concurrent streams with a peer of v1, where 200 are usual.
pub const V1_STREAMS_MAX: usize = 256;
/// Factor of [`STREAMS_MAX`] for the streams that the multiplexing library may hold: those of both sides, and those
/// whose end it has yet to notice. Beyond the bound it ends the connection.
const KNOWN_TIMES: usize = 3;
/// Streams of the peer that wait for `accept`; requests for new streams that wait.
const BACKLOG: usize = 64;
/// Initial receive window of a stream, in bytes, which the library promises to each stream that it may hold. It grows
/// over long distances.
const WINDOW: usize = 256 << 10;
/// Receive window of all streams together, in bytes.
const WINDOW_MAX: usize = 128 << 20;
/// Longest time for the peer's prologue on a stream.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// Time without progress after which a channel that this side ends is dropped, and the longest time in all.
const CLOSE_TIME: Duration = Duration::from_secs(5);
const CLOSE_TIME_MAX: Duration = Duration::from_secs(60);
/// Longest wait for the peer's close.
const LAST_WORDS_TIME: Duration = Duration::from_secs(1);
/// Length of the header of a streams' frame, in bytes.
const STREAM_HEADER_LEN: usize = 12;
/// Longest payload of a frame, in bytes: with its header it fills the largest record of the native profile.
const FRAME_LEN_MAX: usize = (64 << 10) - STREAM_HEADER_LEN;

/// Bounds for the ping interval: timers reject zero and overflow on huge values.
const PING_EVERY_MIN: Duration = Duration::from_millis(1);
const PING_EVERY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Detection of a peer that has gone silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Interval of pings, default 20 s. A relay ends idle channels after 60 s, so the interval should be shorter.
    pub ping_every: Duration,
    /// Longest silence of the peer. Default 45 s.
    pub silent_max: Duration,
}

impl Default for Liveness {
    fn default() -> Self {
        Liveness { ping_every: Duration::from_secs(20), silent_max: Duration::from_secs(45) }
    }
}

/// Byte stream in both directions, within a channel. Dropping it before this side has finished resets it.
///
/// A read ends once the peer has finished its direction. If the stream was reset or its channel is over before that,
/// reads and writes fail with [`io::ErrorKind::ConnectionReset`] and, as the inner error, an [`Error`] with the reason.
pub struct Stream {
    io: Compat<yamux::Stream>,
    id: u32,
    shared: ChannelState,
    /// True once this side has finished its direction.
    is_finished: bool,
    _place: OwnedSemaphorePermit,
}

/// State that a stream shares with its channel's task.
#[derive(Clone)]
struct ChannelState {
    ends: Arc<Ends>,
    pulse: Arc<Pulse>,
}

impl Stream {
    fn new(stream: yamux::Stream, shared: ChannelState, place: OwnedSemaphorePermit) -> Self {
        let id = stream.id().val();
        shared.ends.opened(id);
        Stream { io: stream.compat(), id, shared, is_finished: false, _place: place }
    }

    /// Number of the stream on its channel: odd if the client opened it.
    pub fn id(&self) -> u32 {
        self.id
    }

    fn broken_off(&self) -> io::Error {
        let why = self.shared.pulse.why();
        let why = why.unwrap_or_else(|| Error::new(Stage::Stream, "broken_off", "the stream was broken off"));
        io::Error::new(io::ErrorKind::ConnectionReset, why)
    }

    /// Error for a failed write: the library's own error has no reason, and is the same in all cases.
    fn unwritable(&self) -> io::Error {
        if self.is_finished {
            return io::Error::new(io::ErrorKind::BrokenPipe, "this direction of the stream is finished");
        }
        self.broken_off()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_finished || self.io.get_ref().is_closed() {
            self.shared.ends.forget(self.id);
        } else {
            self.shared.ends.abandon(self.id);
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({})", self.id)
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(cx, buf));
        if read.is_ok() && (buf.filled().len() > before || buf.remaining() == 0) {
            return Poll::Ready(Ok(()));
        }
        // The library reports the end of the channel and a reset as the end of the stream.
        Poll::Ready(if self.shared.ends.peer_finished(self.id) { Ok(()) } else { Err(self.broken_off()) })
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, buf));
        Poll::Ready(written.map_err(|_| self.unwritable()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.io).poll_flush(cx));
        Poll::Ready(flushed.map_err(|_| self.unwritable()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_finished && self.io.get_ref().is_closed() {
            return Poll::Ready(Err(self.broken_off()));
        }
        let finished = ready!(Pin::new(&mut self.io).poll_shutdown(cx));
        self.is_finished |= finished.is_ok();
        Poll::Ready(finished.map_err(|_| self.broken_off()))
    }
}

/// A stream that the peer opened, with its prologue.
#[derive(Debug)]
pub struct Incoming {
    /// Purpose of the stream, from its prologue.
    pub hello: Hello,
    /// The stream after its prologue.
    pub stream: Stream,
}

/// Commands of the handles to the task.
pub(crate) enum Command {
    Open(Opening),
    Close,
}

/// Request for a stream, with its place within the bound.
pub(crate) struct Opening {
    pub(crate) answer: oneshot::Sender<Result<Stream, Error>>,
    pub(crate) place: OwnedSemaphorePermit,
}

/// Ends of the task's queues for the handles.
pub(crate) struct Handles {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) incoming: mpsc::Receiver<Incoming>,
    pub(crate) over: watch::Receiver<bool>,
}

/// Bound of concurrent streams of each side.
pub(crate) fn streams_max(is_native: bool) -> usize {
    if is_native { STREAMS_MAX } else { V1_STREAMS_MAX }
}

/// Starts the task of a channel.
pub(crate) fn start(records: Records, is_client: bool, pulse: Arc<Pulse>, liveness: Liveness) -> Handles {
    let mut config = yamux::Config::default();
    let streams_max = streams_max(records.is_native());
    let known_max = KNOWN_TIMES * streams_max;
    config.set_max_num_streams(known_max);
    // Peers of v1 end the session if a window grows beyond its initial size.
    let window_max = if records.is_native() { WINDOW_MAX } else { known_max * WINDOW };
    config.set_max_connection_receive_window(Some(window_max));
    config.set_split_send_size(FRAME_LEN_MAX);
    let mode = if is_client { Mode::Client } else { Mode::Server };
    let (commands, asked) = mpsc::channel(16);
    let (taken, incoming) = mpsc::channel(BACKLOG);
    let (over, is_over) = watch::channel(false);
    let every = liveness.ping_every.clamp(PING_EVERY_MIN, PING_EVERY_MAX);
    let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let moved = records.moved();
    let shared = ChannelState { ends: records.ends(), pulse: pulse.clone() };
    let (secure, taken_back) = Secure::new(records);
    let task = Task {
        connection: Connection::new(secure, config, mode),
        taken_back,
        moved,
        asked,
        opening: VecDeque::new(),
        taken,
        places: Arc::new(Semaphore::new(streams_max)),
        shared,
        pulse,
        liveness,
        ticks,
        ping: 0,
    };
    tokio::spawn(async move {
        task.run().await;
        over.send_replace(true);
    });
    Handles { commands, incoming, over: is_over }
}

struct Task {
    connection: Connection<Secure>,
    taken_back: oneshot::Receiver<Records>,
    /// Counter of bytes on the connection so far, both directions together.
    moved: Arc<AtomicU64>,
    asked: mpsc::Receiver<Command>,
    opening: VecDeque<Opening>,
    taken: mpsc::Sender<Incoming>,
    /// Places for streams of the peer.
    places: Arc<Semaphore>,
    shared: ChannelState,
    pulse: Arc<Pulse>,
    liveness: Liveness,
    ticks: Interval,
    ping: u64,
}

/// Event that the task handles next.
enum Event {
    Inbound(yamux::Stream),
    Ended,
    Command(Option<Command>),
    Tick,
}

impl Task {
    async fn run(mut self) {
        self.serve().await;
        if self.pulse.why().is_none() {
            // The peer has ended the streams in order, and sends the reason after that.
            let _ = timeout(LAST_WORDS_TIME, async {
                if let Ok(records) = (&mut self.taken_back).await {
                    records.hear_last_words().await;
                }
            })
            .await;
        }
        self.pulse.ends(Error::closed(Stage::Record, None));
        for opening in self.opening.drain(..) {
            let _ = opening.answer.send(Err(over(&self.pulse)));
        }
    }

    async fn serve(&mut self) {
        loop {
            match poll_fn(|cx| self.poll(cx)).await {
                Event::Inbound(stream) => self.welcome(stream),
                Event::Command(Some(Command::Open(opening))) => self.opening.push_back(opening),
                Event::Command(Some(Command::Close) | None) => return self.close().await,
                Event::Tick => {
                    if self.pulse.silent_for() > self.liveness.silent_max {
                        let text = format!("nothing came for {:?}", self.pulse.silent_for());
                        return self.pulse.ends(Error::new(Stage::Record, "peer_silent", text));
                    }
                    self.ping += 1;
                    self.pulse.send(Due::Ping(self.ping));
                }
                Event::Ended => return,
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        while let Some(opening) = self.opening.pop_front() {
            match self.connection.poll_new_outbound(cx) {
                Poll::Ready(Ok(stream)) => {
                    let _ = opening.answer.send(Ok(Stream::new(stream, self.shared.clone(), opening.place)));
                }
                Poll::Ready(Err(_)) => {
                    let _ = opening.answer.send(Err(over(&self.pulse)));
                    return Poll::Ready(Event::Ended);
                }
                Poll::Pending => {
                    self.opening.push_front(opening);
                    break;
                }
            }
        }
        match self.connection.poll_next_inbound(cx) {
            Poll::Ready(Some(Ok(stream))) => return Poll::Ready(Event::Inbound(stream)),
            Poll::Ready(Some(Err(err))) => {
                self.pulse.ends(Error::new(Stage::Stream, "streams_malformed", format!("streams broke: {err}")));
                return Poll::Ready(Event::Ended);
            }
            Poll::Ready(None) => return Poll::Ready(Event::Ended),
            Poll::Pending => {}
        }
        if self.opening.len() < BACKLOG
            && let Poll::Ready(command) = self.asked.poll_recv(cx)
        {
            return Poll::Ready(Event::Command(command));
        }
        self.ticks.poll_tick(cx).map(|_| Event::Tick)
    }

    /// Acknowledges a stream of the peer and reads its prologue; resets it if the peer has too many.
    fn welcome(&self, mut stream: yamux::Stream) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.shared.ends.abandon(stream.id().val());
            return;
        };
        let (taken, shared) = (self.taken.clone(), self.shared.clone());
        tokio::spawn(async move {
            // An empty frame carries the acknowledgement: the library sends it only with the first frame, and peers end
            // a connection whose stream is not acknowledged in time.
            let acknowledged = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, &[])).await;
            let mut stream = Stream::new(stream, shared, place);
            let hello = timeout(HELLO_TIME, read_hello(&mut stream)).await;
            if let (Ok(_), Ok(Ok(hello))) = (acknowledged, hello) {
                let _ = taken.send(Incoming { hello, stream }).await;
            }
        });
    }

    /// Sends the streams' remaining bytes and the close, and stays until the peer or the relay has closed too: a
    /// connection that is closed with unread data is reset, and sent data that has not arrived is lost.
    async fn close(&mut self) {
        self.pulse.ends(Error::new(Stage::Record, "ended", "this side ended the channel"));
        let _ = timeout(CLOSE_TIME_MAX, async {
            let mut before = None;
            while timeout(CLOSE_TIME, poll_fn(|cx| self.connection.poll_close(cx))).await.is_err() {
                let moved = Some(self.moved.load(Ordering::Relaxed));
                if moved == before {
                    return;
                }
                before = moved;
            }
            if let Ok(records) = (&mut self.taken_back).await {
                records.hear_out(CLOSE_TIME).await;
            }
        })
        .await;
    }
}

/// Reason why a channel is over, as an error.
pub(crate) fn over(pulse: &Pulse) -> Error {
    pulse.why().unwrap_or_else(|| Error::closed(Stage::Record, None))
}

async fn read_hello(stream: &mut Stream) -> Result<Hello, Error> {
    let broken = |text: String| Error::new(Stage::Stream, "hello_invalid", text);
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).await.map_err(|err| broken(err.to_string()))?;
    let len = frame::body_len(header, HELLO_LEN_MAX).map_err(|err| broken(err.to_string()))?;
    let mut json = vec![0; len];
    stream.read_exact(&mut json).await.map_err(|err| broken(err.to_string()))?;
    Hello::parse(&json).map_err(|err| broken(err.to_string()))
}
