//! Streams on a channel: the task that owns the connection, and what handles of the channel ask of it.
//!
//! It may not know: what streams carry, apart from their prologue.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::io::AsyncWrite as _;
use sealway_proto::rpc::{HEADER_LEN, HELLO_LEN_MAX, Hello, frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, timeout};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt};
use yamux::{Connection, Mode};

use super::error::{Error, Stage};
use super::pulse::{Due, Pulse};
use super::secure::{Records, Secure};

/// Streams at once on a channel that this side opened, and that the peer opened.
pub const STREAMS_MAX: usize = 128;
/// Streams at once that this side opens towards a peer of v1: late ones take no more.
pub(crate) const V1_STREAMS_MAX: usize = 32;
/// Streams of both sides that the library below may know, those among them whose end it has yet to notice. Beyond this it
/// ends the connection.
const KNOWN_MAX: usize = 3 * STREAMS_MAX;
/// Streams that were opened by the peer and nobody has taken yet; requests for new ones that wait.
const BACKLOG: usize = 64;
/// What the peer may send on a stream before it is read, in bytes, to begin with: what the library promises to each stream
/// that it may know. Over long ways it grows.
const WINDOW: usize = 256 << 10;
/// What the peer may send on all streams together before it is read, in bytes.
const WINDOW_MAX: usize = 128 << 20;
/// By how much the windows of all streams together may grow where the peer is v1's, in bytes. Such a peer sends as much as a
/// window allows in one frame, and the library below ends the connection at a frame over 1 MiB: no window may be longer.
const V1_GROWTH_MAX: usize = (1 << 20) - WINDOW;
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

/// Bytes both ways, within a channel. It is reset where it is dropped before both ends have finished.
pub struct Stream {
    io: Compat<yamux::Stream>,
    id: u32,
    _place: OwnedSemaphorePermit,
}

impl Stream {
    fn new(stream: yamux::Stream, place: OwnedSemaphorePermit) -> Self {
        let id = stream.id().val();
        Stream { io: stream.compat(), id, _place: place }
    }

    /// Its number on the channel: odd where the client opened it.
    pub fn id(&self) -> u32 {
        self.id
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({})", self.id)
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
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
pub(crate) struct Ends {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) incoming: mpsc::Receiver<Incoming>,
    pub(crate) over: watch::Receiver<bool>,
}

/// Starts the task of a channel.
pub(crate) fn start(records: Records, is_client: bool, pulse: Arc<Pulse>, liveness: Liveness) -> Ends {
    let mut config = yamux::Config::default();
    config.set_max_num_streams(KNOWN_MAX);
    let window_max = if records.is_native() { WINDOW_MAX } else { KNOWN_MAX * WINDOW + V1_GROWTH_MAX };
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
    let (secure, taken_back) = Secure::new(records);
    let task = Task {
        connection: Connection::new(secure, config, mode),
        taken_back,
        moved,
        asked,
        opening: VecDeque::new(),
        taken,
        places: Arc::new(Semaphore::new(STREAMS_MAX)),
        pulse,
        liveness,
        ticks,
        ping: 0,
    };
    tokio::spawn(async move {
        task.run().await;
        over.send_replace(true);
    });
    Ends { commands, incoming, over: is_over }
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
                    let _ = opening.answer.send(Ok(Stream::new(stream, opening.place)));
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
        let Ok(place) = self.places.clone().try_acquire_owned() else { return };
        let taken = self.taken.clone();
        tokio::spawn(async move {
            // An empty frame carries the acknowledgement: the library sends it with the first frame only, and peers end a
            // connection whose stream is not acknowledged in time.
            let acknowledged = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, &[])).await;
            let mut stream = Stream::new(stream, place);
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
