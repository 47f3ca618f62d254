//! Streams on a channel: the task that owns the connection, and what handles of the channel ask of it.
//!
//! It may not know: what streams carry, apart from their prologue.

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

/// Streams at once on a channel that this side opened, and that the peer opened.
pub const STREAMS_MAX: usize = 128;
/// The same with a peer of v1, where 200 are usual.
pub const V1_STREAMS_MAX: usize = 256;
/// The library below may know so many times the streams of one side: those of both, and those whose end it has yet to notice. Beyond
/// this it ends the connection.
const KNOWN_TIMES: usize = 3;
/// Streams that were opened by the peer and nobody has taken yet; requests for new ones that wait.
const BACKLOG: usize = 64;
/// What the peer may send on a stream before it is read, in bytes, to begin with: what the library promises to each stream
/// that it may know. Over long ways it grows.
const WINDOW: usize = 256 << 10;
/// What the peer may send on all streams together before it is read, in bytes.
const WINDOW_MAX: usize = 128 << 20;
/// How long the peer may take to say what a stream is for.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// How long a channel that this side ends is kept while nothing of it moves, and how long in all.
const CLOSE_TIME: Duration = Duration::from_secs(5);
const CLOSE_TIME_MAX: Duration = Duration::from_secs(60);
/// How long hearing the peer's last words may take.
const LAST_WORDS_TIME: Duration = Duration::from_secs(1);
/// A frame of streams has a header of so many bytes.
const STREAM_HEADER_LEN: usize = 12;
/// Bytes of a stream in a frame at most: together with its header it fills the largest record of the native profile.
const FRAME_LEN_MAX: usize = (64 << 10) - STREAM_HEADER_LEN;

/// Clocks take neither no time nor any time at all, and settings may say both.
const PING_EVERY_MIN: Duration = Duration::from_millis(1);
const PING_EVERY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How it is noticed that the peer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// The peer is asked this often for a sign of life, 20 s unless said. A relay ends channels on which nothing moves for
    /// 60 s, so it should be less.
    pub ping_every: Duration,
    /// How long it may be silent altogether, 45 s unless said.
    pub silent_max: Duration,
}

impl Default for Liveness {
    fn default() -> Self {
        Liveness { ping_every: Duration::from_secs(20), silent_max: Duration::from_secs(45) }
    }
}

/// Bytes both ways, within a channel. It is reset where it is dropped before this side has finished.
///
/// A read ends where the peer has said that nothing more comes. Where the stream was reset or its channel is over before that, reads
/// and writes fail with [`io::ErrorKind::ConnectionReset`] and, as the inner error, an [`Error`] with the reason.
pub struct Stream {
    io: Compat<yamux::Stream>,
    id: u32,
    shared: Shared,
    /// This side has said that nothing more comes.
    is_finished: bool,
    _place: OwnedSemaphorePermit,
}

/// What a stream shares with the task of its channel.
#[derive(Clone)]
struct Shared {
    ends: Arc<Ends>,
    pulse: Arc<Pulse>,
}

impl Stream {
    fn new(stream: yamux::Stream, shared: Shared, place: OwnedSemaphorePermit) -> Self {
        let id = stream.id().val();
        shared.ends.opened(id);
        Stream { io: stream.compat(), id, shared, is_finished: false, _place: place }
    }

    /// Its number on the channel: odd where the client opened it.
    pub fn id(&self) -> u32 {
        self.id
    }

    fn broken_off(&self) -> io::Error {
        let why = self.shared.pulse.why();
        let why = why.unwrap_or_else(|| Error::new(Stage::Stream, "broken_off", "the stream was broken off"));
        io::Error::new(io::ErrorKind::ConnectionReset, why)
    }

    /// What the library says where nothing can be written: no reason, and the same for all.
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
        // The library gives the end of the channel and a reset out as the end of the stream.
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

/// A stream that the peer opened, and what it said that it is for.
#[derive(Debug)]
pub struct Incoming {
    /// What it is for.
    pub hello: Hello,
    /// What follows.
    pub stream: Stream,
}

/// What handles ask of the task.
pub(crate) enum Command {
    Open(Opening),
    Close,
}

/// Who waits for a stream, and its place among those that may be.
pub(crate) struct Opening {
    pub(crate) answer: oneshot::Sender<Result<Stream, Error>>,
    pub(crate) place: OwnedSemaphorePermit,
}

/// What the task leaves to handles.
pub(crate) struct Handles {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) incoming: mpsc::Receiver<Incoming>,
    pub(crate) over: watch::Receiver<bool>,
}

/// Streams at once of each side.
pub(crate) fn streams_max(is_native: bool) -> usize {
    if is_native { STREAMS_MAX } else { V1_STREAMS_MAX }
}

/// Starts the task of a channel.
pub(crate) fn start(records: Records, is_client: bool, pulse: Arc<Pulse>, liveness: Liveness) -> Handles {
    let mut config = yamux::Config::default();
    let streams_max = streams_max(records.is_native());
    let known_max = KNOWN_TIMES * streams_max;
    config.set_max_num_streams(known_max);
    // Peers of v1 end the session where a window grows past what it was to begin with.
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
    let shared = Shared { ends: records.ends(), pulse: pulse.clone() };
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
    /// Bytes on the connection so far, both ways.
    moved: Arc<AtomicU64>,
    asked: mpsc::Receiver<Command>,
    opening: VecDeque<Opening>,
    taken: mpsc::Sender<Incoming>,
    /// For streams of the peer.
    places: Arc<Semaphore>,
    shared: Shared,
    pulse: Arc<Pulse>,
    liveness: Liveness,
    ticks: Interval,
    ping: u64,
}

/// What happened to the task.
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
            // The peer has ended the streams in order; why, it says after that.
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

    /// Answers a stream of the peer and reads what it is for; where the peer has too many already, it is reset.
    fn welcome(&self, mut stream: yamux::Stream) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.shared.ends.abandon(stream.id().val());
            return;
        };
        let (taken, shared) = (self.taken.clone(), self.shared.clone());
        tokio::spawn(async move {
            // An empty frame carries the acknowledgement: the library sends it with the first frame only, and peers end a
            // connection whose stream is not acknowledged in time.
            let acknowledged = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, &[])).await;
            let mut stream = Stream::new(stream, shared, place);
            let hello = timeout(HELLO_TIME, read_hello(&mut stream)).await;
            if let (Ok(_), Ok(Ok(hello))) = (acknowledged, hello) {
                let _ = taken.send(Incoming { hello, stream }).await;
            }
        });
    }

    /// Sends what streams have said and the last words, and stays until the peer or the relay has closed too: a connection
    /// that is closed with something unread is reset, and what was sent but has not arrived is lost.
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

/// Why nothing can be done on a channel that is over.
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
