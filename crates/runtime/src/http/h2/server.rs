//! Drives one HTTP/2 connection of a listener: one task reads, runs all of its requests, and writes what they answer in one go.
//!
//! It does not know the meaning of a request. Bodies of requests may be read by another task, which shares the connection.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use http::{Request, Response};
use hyper::body::Frame;
use hyper::service::Service;
use parking_lot::Mutex;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::exchange::exchange;
use super::{Arrival, Config, Connection, FieldLimits, Role, UNREAD_LEN, poll_read};
use crate::http::body::BodyRefusal;
use crate::http::h1::{Setup, Source, without_barred};
use crate::http::stream::Transport;
use crate::http::{Body, BodyError, RequestBody, UNREAD_TIME};

/// Largest amount of unread data of all request bodies of a connection, and of one, in bytes.
const WINDOW: u32 = 1024 * 1024;
/// Largest amount of an answer's data that waits for the client's window, in bytes.
const PENDING_MAX: usize = 64 * 1024;
/// The shortest interval between two checks of a connection.
const LOOK_MIN: Duration = Duration::from_millis(50);
/// Time that a client has to close after this side has, and the most that is read and discarded meanwhile.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_MAX: usize = 16 * 1024 * 1024;

pub(super) type SharedConnection = Arc<Mutex<Connection>>;

/// Serves until the connection ends. `input` was read from it already.
///
/// # Errors
/// The connection ended early.
pub(in crate::http) async fn serve<IO, S>(
    mut io: IO,
    input: BytesMut,
    setup: &Setup,
    service: S,
) -> Result<(), BodyError>
where
    IO: Transport,
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let limits = &setup.limits;
    let connection = Arc::new(Mutex::new(Connection::new(Role::Server, config(setup))));
    let guard = Guard(connection.clone());
    let period = (limits.idle_timeout.min(UNREAD_TIME).min(limits.header_timeout) / 4).max(LOOK_MIN);
    let mut looks = tokio::time::interval(period);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut driver = Driver {
        connection,
        setup,
        has_prefix: !input.is_empty(),
        input,
        is_ended: false,
        began: Instant::now(),
        watch: Watch::new(Instant::now()),
        looks,
    };
    // `None` while idle: even an empty set has room for a request, some 2 KiB.
    let mut exchanges = None;
    let mut stop = pin!(setup.entry.stop.cancelled());
    let served = poll_fn(|cx| {
        loop {
            // Output that this task makes itself does not wake it.
            driver.connection.lock().take_driver();
            if !driver.watch.is_stopping && stop.as_mut().poll(cx).is_ready() {
                driver.stop();
            }
            let has_read = driver.poll_receive(&mut io, cx)?;
            while let Some(arrival) = driver.next_request() {
                let exchange = exchange(driver.connection.clone(), arrival, setup, &service);
                exchanges.get_or_insert_with(FuturesUnordered::new).push(exchange);
            }
            if let Some(exchanges) = &mut exchanges {
                while let Poll::Ready(Some(())) = Pin::new(&mut *exchanges).poll_next(cx) {}
            }
            let mut written = driver.connection.lock().poll_write(&mut io, cx)?;
            if written.is_ready() {
                written = Pin::new(&mut io).poll_flush(cx)?;
            }
            if driver.is_over() && written.is_ready() {
                return Poll::Ready(Ok(()));
            }
            if has_read {
                continue;
            }
            if driver.looks.poll_tick(cx).is_ready() {
                exchanges = exchanges.take().filter(|exchanges| !exchanges.is_empty());
                driver.look(exchanges.is_none())?;
                continue;
            }
            let connection = &mut *driver.connection.lock();
            connection.set_driver(cx);
            if written.is_ready() && connection.has_output() {
                continue;
            }
            return Poll::Pending;
        }
    });
    let served: Result<(), BodyError> = served.await;
    // The requests in progress end with the connection, and the GOAWAY that says why is written.
    drop(exchanges);
    close(&mut io, &guard.0).await;
    served
}

/// Closes the connection when the driver ends, or is dropped, even if a body is still referenced.
struct Guard(SharedConnection);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.lock().close();
    }
}

fn config(setup: &Setup) -> Config {
    let limits = &setup.limits;
    Config {
        streams_max: limits.streams_max,
        stream_window: WINDOW,
        connection_window: WINDOW,
        fields: FieldLimits { bytes_max: limits.header_bytes_max, fields_max: limits.fields_max },
        pending_max: PENDING_MAX,
        connect_protocol: setup.takes_connect,
    }
}

/// Times of a connection: it ends if the client is idle, silent, or does not read.
#[derive(Debug)]
struct Watch {
    is_stopping: bool,
    last_input: Instant,
    idle_since: Option<Instant>,
    /// Time since which a head is arriving, and the number of frames before it.
    amid_head_since: Option<(Instant, u64)>,
    /// Time since which fewer than [`UNREAD_LEN`] bytes of the output were written, and the number of bytes written by then.
    stuck: Option<(Instant, u64)>,
    pinged_at: Option<Instant>,
    stopped_at: Option<Instant>,
}

impl Watch {
    fn new(now: Instant) -> Self {
        Watch {
            is_stopping: false,
            last_input: now,
            idle_since: None,
            amid_head_since: None,
            stuck: None,
            pinged_at: None,
            stopped_at: None,
        }
    }
}

struct Driver<'a> {
    connection: SharedConnection,
    setup: &'a Setup,
    input: BytesMut,
    /// True while the input is one that was read before the connection began.
    has_prefix: bool,
    /// True once the client has closed its side.
    is_ended: bool,
    began: Instant,
    watch: Watch,
    looks: Interval,
}

impl Driver<'_> {
    /// Reads what has arrived. Returns whether there was anything.
    fn poll_receive<IO: Transport>(&mut self, io: &mut IO, cx: &mut Context<'_>) -> Result<bool, BodyError> {
        let connection = &mut *self.connection.lock();
        let mut has_read = std::mem::take(&mut self.has_prefix);
        if !self.is_ended && connection.takes_input() {
            match poll_read(io, cx, &mut self.input)? {
                Poll::Ready(0) => self.is_ended = true,
                Poll::Ready(_) => has_read = true,
                Poll::Pending => {}
            }
        }
        if has_read {
            let now = Instant::now();
            self.watch.last_input = now;
            self.watch.pinged_at = None;
            if let Err(error) = connection.receive(&mut self.input, now - self.began) {
                if let Some(frame) = error.flood {
                    self.setup.list.note_flood(&self.setup.entry.peer, frame);
                }
                connection.fail(error);
                return Err(error.into());
            }
            if self.input.is_empty() {
                // A waiting connection has no buffer.
                self.input = BytesMut::new();
            }
            let is_amid = connection.is_amid_head(&self.input);
            let before = connection.received_units();
            let since = self.watch.amid_head_since.filter(|(_, units)| *units == before);
            self.watch.amid_head_since = is_amid.then(|| since.unwrap_or((now, before)));
            if self.watch.is_stopping && !connection.awaits_pong() {
                connection.say_go_away(true);
            }
        }
        Ok(has_read)
    }

    fn next_request(&self) -> Option<Arrival> {
        self.connection.lock().next_request()
    }

    /// Announces the end. Requests that are on their way are still served: the PING comes back behind them.
    fn stop(&mut self) {
        self.watch.is_stopping = true;
        self.watch.stopped_at = Some(Instant::now());
        let connection = &mut *self.connection.lock();
        connection.say_go_away(false);
        connection.ping();
    }

    /// Returns whether nothing is left to be done.
    fn is_over(&self) -> bool {
        let connection = &*self.connection.lock();
        self.is_ended || (connection.has_said_last() && connection.open_streams() == 0)
    }

    /// Checks the times of the connection.
    fn look(&mut self, has_no_exchange: bool) -> Result<(), BodyError> {
        let now = Instant::now();
        let limits = &self.setup.limits;
        let is_over = |since: Option<Instant>, time: Duration| since.is_some_and(|since| now - since >= time);
        let mut connection = self.connection.lock();
        connection.set_now(now - self.began);
        if !connection.end_unread(UNREAD_TIME) {
            return Err("the client does not read its answers".into());
        }
        self.watch.stuck = match (connection.has_output(), self.watch.stuck) {
            (false, _) => None,
            (true, Some((since, written))) if connection.written < written + UNREAD_LEN as u64 => {
                Some((since, written))
            }
            (true, _) => Some((now, connection.written)),
        };
        if is_over(self.watch.stuck.map(|(since, _)| since), UNREAD_TIME) {
            return Err("the client does not read".into());
        }
        if is_over(self.watch.amid_head_since.map(|(since, _)| since), limits.header_timeout) {
            return Err("a head took too long".into());
        }
        if is_over(self.watch.pinged_at, limits.header_timeout) {
            return Err("the client does not answer".into());
        }
        if self.watch.pinged_at.is_none() && now - self.watch.last_input >= limits.header_timeout {
            self.watch.pinged_at = Some(now);
            connection.ping();
        }
        let is_idle = has_no_exchange && connection.open_streams() == 0;
        if is_idle {
            connection.shrink();
        }
        self.watch.idle_since = is_idle.then(|| self.watch.idle_since.unwrap_or(now));
        let is_idle_for_long = is_over(self.watch.idle_since, limits.idle_timeout);
        if self.watch.is_stopping && is_over(self.watch.stopped_at, limits.header_timeout.min(UNREAD_TIME)) {
            connection.say_go_away(true);
        }
        connection.end_stalled_tunnels(UNREAD_TIME);
        drop(connection);
        if is_idle_for_long && !self.watch.is_stopping {
            self.stop();
        }
        Ok(())
    }
}

/// Writes the rest, closes this side, then reads for a while what the client still sends: a connection that is closed with
/// unread bytes is reset, and the client may lose an answer in transit.
async fn close<IO: Transport>(io: &mut IO, connection: &Mutex<Connection>) {
    let mut left = LINGER_MAX;
    let mut is_shut = false;
    let mut scrap = BytesMut::new();
    let closing = poll_fn(|cx| {
        if !is_shut {
            if ready!(connection.lock().poll_write(io, cx)).is_err()
                || ready!(Pin::new(&mut *io).poll_shutdown(cx)).is_err()
            {
                return Poll::Ready(());
            }
            is_shut = true;
        }
        loop {
            scrap.clear();
            match ready!(poll_read(io, cx, &mut scrap)) {
                Ok(len) if len > 0 && left > len => left -= len,
                _ => return Poll::Ready(()),
            }
        }
    });
    let _ = tokio::time::timeout(LINGER_TIME, closing).await;
}

impl Source for Mutex<Connection> {
    fn poll_body(&self, number: u64, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyRefusal>>> {
        let polled = self.lock().poll_piece(u32::try_from(number).unwrap_or(0), cx);
        polled.map(|piece| {
            Some(match piece? {
                Ok(piece) => Ok(match piece.into_trailers() {
                    Ok(trailers) => Frame::trailers(without_barred(trailers)),
                    Err(piece) => piece,
                }),
                Err(_) => Err(BodyRefusal::Broken),
            })
        })
    }

    fn let_go(&self, number: u64) {
        self.lock().drop_reader(u32::try_from(number).unwrap_or(0));
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_read(&self, number: u64) -> bool {
        self.lock().is_read(u32::try_from(number).unwrap_or(0))
    }
}
