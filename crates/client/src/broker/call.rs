//! What every call goes through: its place among those under way, the breaker, attempts, and the deadline over all of it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message;
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Response, Status};

use super::breaker::{Breaker, BreakerOptions, BreakerState, Pass};
use super::connection::{Broken, Connection, Line};
use super::deadline::Deadline;
use super::error::{Code, Error, Sent};
use super::retry::{Repeat, RetryOptions};
use super::trace::TraceParent;

/// How a broker is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where it listens.
    pub socket: PathBuf,
    /// The user that it must run as; whoever else listens there is sent nothing. Not looked at unless said.
    pub broker_uid: Option<u32>,
    /// How long a call may take, its attempts and pauses included. The broker is told what is left of it. 5 s unless said,
    /// an hour at most.
    pub deadline: Duration,
    /// How calls are repeated.
    pub retry: RetryOptions,
    /// When calls fail at once because the ones before them did; `None` for never.
    pub breaker: Option<BreakerOptions>,
    /// Calls under way at a time, 1 or more; others wait. 256 unless said.
    pub in_flight_max: usize,
    /// Calls that wait for their turn; one more fails at once. 1,024 unless said.
    pub waiting_max: usize,
    /// The longest message, sent or received, in bytes. 4 MiB unless said.
    pub message_len_max: usize,
}

impl Options {
    /// As it says at each field, for the broker at this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Options {
            socket: socket.into(),
            broker_uid: None,
            deadline: Duration::from_secs(5),
            retry: RetryOptions::default(),
            breaker: Some(BreakerOptions::default()),
            in_flight_max: 256,
            waiting_max: 1024,
            message_len_max: 4 * 1024 * 1024,
        }
    }
}

/// A client of one broker. Clones share its connection, its breaker and its bounds.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    deadline: Duration,
    trace: Option<TraceParent>,
}

struct Shared {
    connection: Connection,
    breaker: Option<Breaker>,
    retry: RetryOptions,
    turns: Semaphore,
    places: Semaphore,
    message_len_max: usize,
}

/// How far a call came.
#[derive(Default)]
struct Course {
    attempts: u32,
    /// Whether one of the attempts may have reached the broker.
    is_sent: bool,
    last: Option<Failure>,
}

/// Why one attempt failed.
struct Failure {
    code: Code,
    text: String,
    sent: Sent,
}

impl Client {
    /// A client that connects when it is first used.
    pub fn new(options: Options) -> Self {
        let turns = options.in_flight_max.clamp(1, Semaphore::MAX_PERMITS / 2);
        let waiting = options.waiting_max.min(Semaphore::MAX_PERMITS / 2);
        let shared = Shared {
            connection: Connection::new(options.socket, options.broker_uid),
            breaker: options.breaker.map(Breaker::new),
            retry: options.retry,
            turns: Semaphore::new(turns),
            places: Semaphore::new(turns + waiting),
            message_len_max: options.message_len_max,
        };
        Client { shared: Arc::new(shared), deadline: options.deadline, trace: None }
    }

    /// The same client, whose calls may take so long, an hour at most.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> Client {
        Client { deadline, ..self.clone() }
    }

    /// The same client, whose calls belong to this trace.
    #[must_use]
    pub fn traced(&self, parent: TraceParent) -> Client {
        Client { trace: Some(parent), ..self.clone() }
    }

    /// Connects, where that was not done yet; calls do so by themselves.
    ///
    /// # Errors
    /// [`Error`]: there is no connection by the deadline, after one attempt.
    pub async fn connect(&self) -> Result<(), Error> {
        let deadline = Deadline::after(self.deadline);
        let failure = match deadline.bound(self.shared.connection.line()).await {
            Some(Ok(_)) => return Ok(()),
            Some(Err(broken)) => Failure::from(&broken),
            None => Course::default().late(deadline),
        };
        let Failure { code, text, sent } = failure;
        Err(Error { operation: "Connect", code, text, sent, attempts: 1 })
    }

    /// Whether the next call finds a connection that stands.
    pub fn is_connected(&self) -> bool {
        self.shared.connection.is_open()
    }

    /// Bytes that went to the broker, and those that came from it, over all connections so far.
    pub fn traffic(&self) -> (u64, u64) {
        self.shared.connection.traffic()
    }

    /// What the breaker lets through; `Closed` where there is none.
    pub fn breaker_state(&self) -> BreakerState {
        self.shared.breaker.as_ref().map_or(BreakerState::Closed, |breaker| breaker.state(Instant::now()))
    }

    /// The longest message, in bytes.
    pub(crate) fn message_len_max(&self) -> usize {
        self.shared.message_len_max
    }

    /// Makes a call: `send` is one attempt.
    ///
    /// # Errors
    /// [`Error`], always with `operation`.
    pub(crate) async fn call<Q, A, F>(
        &self,
        operation: &'static str,
        repeat: Repeat,
        request: Q,
        send: impl Fn(Line, Request<Q>) -> F,
    ) -> Result<A, Error>
    where
        Q: Message + Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let fails = |failure: Failure, attempts: u32| Error {
            operation,
            code: failure.code,
            text: failure.text,
            sent: failure.sent,
            attempts,
        };
        let (len, max) = (request.encoded_len(), self.shared.message_len_max);
        if len > max {
            let text = format!("a message of {len} bytes, of at most {max}");
            return Err(fails(Failure { code: Code::OutOfRange, text, sent: Sent::No }, 0));
        }
        let Ok(_place) = self.shared.places.try_acquire() else {
            let text = "too many calls wait already".to_owned();
            return Err(fails(Failure { code: Code::ResourceExhausted, text, sent: Sent::No }, 0));
        };
        let deadline = Deadline::after(self.deadline);
        let mut course = Course::default();
        let done = deadline.bound(self.attempts(&mut course, deadline, repeat, request, send)).await;
        let failure = match done {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(failure)) => failure,
            None => course.late(deadline),
        };
        Err(fails(failure, course.attempts))
    }

    async fn attempts<Q: Clone, A, F>(
        &self,
        course: &mut Course,
        deadline: Deadline,
        repeat: Repeat,
        request: Q,
        send: impl Fn(Line, Request<Q>) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        // Those that an open breaker kept from being made count too: a call that has begun waits no longer for it.
        for tried in 1.. {
            let failure = match self.attempt(course, deadline, &request, &send).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let is_safe = repeat == Repeat::Always || !course.is_sent;
            let is_last = tried >= self.shared.retry.attempts || course.attempts == 0;
            if failure.code != Code::Unavailable || !is_safe || is_last {
                return Err(failure.of(course));
            }
            course.last = Some(failure);
            // No turn is held while it waits, or callers of a broker that is away would hold up each other.
            tokio::time::sleep(self.shared.retry.pause(tried)).await;
        }
        Err(course.late(deadline))
    }

    async fn attempt<Q: Clone, A, F>(
        &self,
        course: &mut Course,
        deadline: Deadline,
        request: &Q,
        send: &impl Fn(Line, Request<Q>) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let _turn = self.turn().await?;
        let pass = self.pass()?;
        course.attempts += 1;
        let line = match self.shared.connection.line().await {
            Ok(line) => line,
            Err(broken) => return Err(judged(pass, Failure::from(&broken))),
        };
        let mut request = Request::new(request.clone());
        request.set_timeout(deadline.left().unwrap_or(Duration::from_millis(1)));
        if let Some(trace) = self.trace.and_then(|trace| MetadataValue::<Ascii>::try_from(trace.to_string()).ok()) {
            request.metadata_mut().insert("traceparent", trace);
        }
        let was_sent = std::mem::replace(&mut course.is_sent, true);
        match send(line, request).await {
            Ok(answer) => {
                if let Some(pass) = pass {
                    pass.succeeded(Instant::now());
                }
                Ok(answer.into_inner())
            }
            Err(status) => {
                let failure = Failure::from(status);
                course.is_sent = was_sent || failure.sent != Sent::No;
                Err(judged(pass, failure))
            }
        }
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Failure> {
        let closed = |_| Failure { code: Code::Internal, text: "the client has ended".into(), sent: Sent::No };
        self.shared.turns.acquire().await.map_err(closed)
    }

    fn pass(&self) -> Result<Option<Pass<'_>>, Failure> {
        let Some(breaker) = &self.shared.breaker else { return Ok(None) };
        breaker.pass(Instant::now()).map(Some).map_err(|wait| Failure {
            code: Code::Unavailable,
            text: format!("the circuit breaker is open, for {} ms yet", wait.as_millis()),
            sent: Sent::No,
        })
    }
}

/// Tells the breaker of a failure. What the broker refused is no sign that it is away.
fn judged(pass: Option<Pass<'_>>, failure: Failure) -> Failure {
    if let Some(pass) = pass {
        match failure.code {
            Code::Unavailable => pass.failed(Instant::now()),
            _ => pass.succeeded(Instant::now()),
        }
    }
    failure
}

impl Course {
    /// No answer by the deadline.
    fn late(&self, deadline: Deadline) -> Failure {
        let mut text = format!("no answer within {} ms", deadline.length().as_millis());
        if let Some(last) = &self.last {
            text.push_str("; before that: ");
            text.push_str(&last.text);
        }
        let sent = if self.is_sent { Sent::Perhaps } else { Sent::No };
        Failure { code: Code::DeadlineExceeded, text, sent }
    }
}

impl Failure {
    /// As the last word on a call: an earlier attempt may have been done though the last one was not sent.
    fn of(self, course: &Course) -> Self {
        let sent = if self.sent == Sent::No && course.is_sent { Sent::Perhaps } else { self.sent };
        Failure { sent, ..self }
    }
}

impl From<&Broken> for Failure {
    fn from(broken: &Broken) -> Self {
        let sent = if broken.is_unsent { Sent::No } else { Sent::Perhaps };
        Failure { code: Code::Unavailable, text: broken.text.clone(), sent }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let broken = std::error::Error::source(&status).and_then(|source| source.downcast_ref::<Broken>());
        if let Some(broken) = broken {
            return Failure::from(broken);
        }
        let text = status.message().chars().map(|c| if c.is_control() { ' ' } else { c }).take(1000).collect();
        Failure { code: status.code(), text, sent: Sent::Answered }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("connection", &self.shared.connection).finish_non_exhaustive()
    }
}
