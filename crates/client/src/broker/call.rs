//! The path of every call: concurrency bounds, circuit breaker, attempts, and the deadline over all of them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use prost::Message;
use sealway_proto::broker::Method;
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::breaker::{Breaker, BreakerOptions, BreakerState, Pass};
use super::connection::{Connection, ConnectionError, origin};
use super::deadline::Deadline;
use super::error::{Code, Delivery, Error};
use super::retry::{Repeat, RetryOptions};
use super::trace::TraceParent;

/// Options of a client: socket, deadline, retries, breaker and bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Path of the broker's Unix socket.
    pub socket: PathBuf,
    /// User id that the broker must run as; a listener of another user is sent nothing. Not checked by default.
    pub broker_uid: Option<u32>,
    /// Longest duration of a call, with its attempts and pauses. The remaining time is sent to the broker. Default 5 s,
    /// at most an hour.
    pub deadline: Duration,
    /// Number and pauses of retries.
    pub retry: RetryOptions,
    /// Bounds of the circuit breaker, which makes calls fail at once after failures; `None` for no breaker.
    pub breaker: Option<BreakerOptions>,
    /// Concurrent calls, 1 or more; further calls wait. Default 256.
    pub in_flight_max: usize,
    /// Waiting calls; one more fails at once. Default 1,024.
    pub waiting_max: usize,
    /// Longest message, sent or received, in bytes. Default 4 MiB.
    pub message_len_max: usize,
}

impl Options {
    /// The defaults that the fields document, for the broker at this socket.
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
    shared: Arc<Core>,
    deadline: Duration,
    trace: Option<TraceParent>,
}

struct Core {
    connection: Connection,
    breaker: Option<Breaker>,
    retry: RetryOptions,
    turns: Semaphore,
    places: Semaphore,
    message_len_max: usize,
}

/// Progress of a call over its attempts.
#[derive(Default)]
struct Course {
    attempts: u32,
    /// True if one of the attempts may have reached the broker.
    is_sent: bool,
    last: Option<Failure>,
}

/// The failure of one attempt.
struct Failure {
    code: Code,
    text: String,
    sent: Delivery,
}

impl Client {
    /// Creates a client, which connects at its first call.
    pub fn new(options: Options) -> Self {
        let turns = options.in_flight_max.clamp(1, Semaphore::MAX_PERMITS / 2);
        let waiting = options.waiting_max.min(Semaphore::MAX_PERMITS / 2);
        let shared = Core {
            connection: Connection::new(options.socket, options.broker_uid),
            breaker: options.breaker.map(Breaker::new),
            retry: options.retry,
            turns: Semaphore::new(turns),
            places: Semaphore::new(turns + waiting),
            message_len_max: options.message_len_max,
        };
        Client { shared: Arc::new(shared), deadline: options.deadline, trace: None }
    }

    /// Returns the same client with another deadline for its calls, at most an hour.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> Client {
        Client { deadline, ..self.clone() }
    }

    /// Returns the same client with a trace for its calls.
    #[must_use]
    pub fn traced(&self, parent: TraceParent) -> Client {
        Client { trace: Some(parent), ..self.clone() }
    }

    /// Connects, if there is no connection yet. Calls connect by themselves.
    ///
    /// # Errors
    /// [`Error`], if one attempt gives no connection by the deadline.
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

    /// True if there is an open connection for the next call.
    pub fn is_connected(&self) -> bool {
        self.shared.connection.is_open()
    }

    /// Returns the bytes sent and received over all connections so far.
    pub fn traffic(&self) -> (u64, u64) {
        self.shared.connection.traffic()
    }

    /// State of the circuit breaker; `Closed` if there is none.
    pub fn breaker_state(&self) -> BreakerState {
        self.shared.breaker.as_ref().map_or(BreakerState::Closed, |breaker| breaker.state(Instant::now()))
    }

    /// Calls a method of the broker.
    ///
    /// # Errors
    /// [`Error`], with the method's name as its operation.
    pub(crate) async fn call<Q, A>(&self, method: Method<Q, A>, repeat: Repeat, request: Q) -> Result<A, Error>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let fails = |failure: Failure, attempts: u32| Error {
            operation: method.name(),
            code: failure.code,
            text: failure.text,
            sent: failure.sent,
            attempts,
        };
        let (len, max) = (request.encoded_len(), self.shared.message_len_max);
        if len > max {
            let text = format!("a message of {len} bytes, of at most {max}");
            return Err(fails(Failure { code: Code::OutOfRange, text, sent: Delivery::No }, 0));
        }
        let Ok(_place) = self.shared.places.try_acquire() else {
            let text = "too many calls wait already".to_owned();
            return Err(fails(Failure { code: Code::ResourceExhausted, text, sent: Delivery::No }, 0));
        };
        let deadline = Deadline::after(self.deadline);
        let mut course = Course::default();
        let done = deadline.bound(self.attempts(&mut course, deadline, &method, repeat, request)).await;
        let failure = match done {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(failure)) => failure,
            None => course.late(deadline),
        };
        Err(fails(failure, course.attempts))
    }

    async fn attempts<Q, A>(
        &self,
        course: &mut Course,
        deadline: Deadline,
        method: &Method<Q, A>,
        repeat: Repeat,
        request: Q,
    ) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        // Attempts that an open breaker denied count too: a call that has begun does not wait longer for the breaker.
        for tried in 1.. {
            let failure = match self.attempt(course, deadline, method, &request).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let is_safe = repeat == Repeat::Always || !course.is_sent;
            let is_last = tried >= self.shared.retry.attempts || course.attempts == 0;
            if failure.code != Code::Unavailable || !is_safe || is_last {
                return Err(failure.of(course));
            }
            course.last = Some(failure);
            // The call holds no turn during the pause: callers of an unavailable broker would block each other.
            tokio::time::sleep(self.shared.retry.pause(tried)).await;
        }
        Err(course.late(deadline))
    }

    async fn attempt<Q, A>(
        &self,
        course: &mut Course,
        deadline: Deadline,
        method: &Method<Q, A>,
        request: &Q,
    ) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
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
        let mut grpc = Grpc::with_origin(line, origin()).max_decoding_message_size(self.shared.message_len_max);
        let path = PathAndQuery::from_static(method.path);
        match grpc.unary(request, path, ProstCodec::<Q, A>::default()).await {
            Ok(answer) => {
                if let Some(pass) = pass {
                    pass.succeeded(Instant::now());
                }
                Ok(answer.into_inner())
            }
            Err(status) => {
                let failure = Failure::from(status);
                course.is_sent = was_sent || failure.sent != Delivery::No;
                Err(judged(pass, failure))
            }
        }
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Failure> {
        let closed = |_| Failure { code: Code::Internal, text: "the client has ended".into(), sent: Delivery::No };
        self.shared.turns.acquire().await.map_err(closed)
    }

    fn pass(&self) -> Result<Option<Pass<'_>>, Failure> {
        let Some(breaker) = &self.shared.breaker else { return Ok(None) };
        breaker.pass(Instant::now()).map(Some).map_err(|wait| Failure {
            code: Code::Unavailable,
            text: format!("the circuit breaker is open, for {} ms yet", wait.as_millis()),
            sent: Delivery::No,
        })
    }
}

/// Reports a failure to the breaker. An error that the broker answered does not count as unavailability.
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
    /// Failure of a call without an answer by its deadline.
    fn late(&self, deadline: Deadline) -> Failure {
        let mut text = format!("no answer within {} ms", deadline.length().as_millis());
        if let Some(last) = &self.last {
            text.push_str("; before that: ");
            text.push_str(&last.text);
        }
        let sent = if self.is_sent { Delivery::Perhaps } else { Delivery::No };
        Failure { code: Code::DeadlineExceeded, text, sent }
    }
}

impl Failure {
    /// Makes this failure the call's result: an earlier attempt may have been executed though the last was not sent.
    fn of(self, course: &Course) -> Self {
        let sent = if self.sent == Delivery::No && course.is_sent { Delivery::Perhaps } else { self.sent };
        Failure { sent, ..self }
    }
}

impl From<&ConnectionError> for Failure {
    fn from(broken: &ConnectionError) -> Self {
        let sent = if broken.is_unsent { Delivery::No } else { Delivery::Perhaps };
        Failure { code: Code::Unavailable, text: broken.text.clone(), sent }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let broken = std::error::Error::source(&status).and_then(|source| source.downcast_ref::<ConnectionError>());
        if let Some(broken) = broken {
            return Failure::from(broken);
        }
        let text = status.message().chars().map(|c| if c.is_control() { ' ' } else { c }).take(1000).collect();
        Failure { code: status.code(), text, sent: Delivery::Answered }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("connection", &self.shared.connection).finish_non_exhaustive()
    }
}
