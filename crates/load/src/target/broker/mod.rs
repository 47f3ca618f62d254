//! Broker over its Unix socket: each connection is one client, shared by at most `streams` workers.
//!
//! The client's retries and circuit breaker are off: the run measures the broker, so a failed call is a failed request.

mod call;
mod work;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealway_client::broker::{Client, Code, Delivery, Error, Options, RetryOptions};

pub(crate) use self::work::Work;
use super::Sample;
use super::pool::{Live, Pool, Seat};
use crate::record::{Class, Failure, Gauge, GaugeGuard};

/// Broker connections of one shard.
pub(crate) struct BrokerLines {
    work: Arc<Work>,
    pool: Pool<Line>,
    open: Gauge,
    connect_timeout: Duration,
    request_timeout: Duration,
}

#[derive(Clone)]
struct Line {
    client: Client,
    counted: Rc<std::cell::Cell<(u64, u64)>>,
    _open: Rc<GaugeGuard>,
}

impl Live for Line {
    fn is_closed(&self) -> bool {
        !self.client.is_connected()
    }
}

/// Seat of one worker on a broker connection.
pub(crate) struct Broker {
    lines: Rc<BrokerLines>,
    line: Line,
    _seat: Seat<Line>,
}

impl BrokerLines {
    /// Creates an empty pool of connections for this work, each shared by at most `streams` workers.
    pub(crate) fn new(
        work: Arc<Work>,
        streams: usize,
        open: Gauge,
        connect_timeout: Duration,
        request_timeout: Duration,
    ) -> Rc<Self> {
        Rc::new(BrokerLines { work, pool: Pool::new(streams), open, connect_timeout, request_timeout })
    }

    /// Takes a seat on a connection with a free one, or opens a new connection.
    ///
    /// # Errors
    /// A failure that says why the connection could not be opened.
    pub(crate) async fn open(self: &Rc<Self>, sample: &mut Sample) -> Result<Broker, Failure> {
        let (seat, line) = self.pool.seat(self.connect(sample)).await?;
        Ok(Broker { lines: self.clone(), line, _seat: seat })
    }

    async fn connect(&self, sample: &mut Sample) -> Result<Line, Failure> {
        sample.connections_tried += 1;
        let before = Instant::now();
        let client = Client::new(Options {
            retry: RetryOptions::NEVER,
            breaker: None,
            deadline: self.request_timeout,
            ..Options::new(&self.work.broker.socket)
        });
        client.within(self.connect_timeout).connect().await.map_err(|err| unconnected(&err))?;
        sample.connect = Some(before.elapsed());
        sample.connections_opened += 1;
        Ok(Line { client, counted: Rc::default(), _open: Rc::new(self.open.enter()) })
    }
}

impl Broker {
    /// Returns whether another call can be made over this connection.
    pub(crate) fn is_open(&self) -> bool {
        self.line.client.is_connected()
    }

    /// Makes one call and checks its answer, if the operation's answer can be checked.
    ///
    /// # Errors
    /// A failure of the transport, or of the answer.
    pub(crate) async fn exchange(&mut self, sample: &mut Sample) -> Result<(), Failure> {
        let work = &self.lines.work;
        let before = Instant::now();
        let made = work.ready(&self.line.client).await;
        if made.as_ref().is_ok_and(|(_, was_made)| *was_made) {
            sample.aside += before.elapsed();
        }
        let (made, _) = made.map_err(|err| failure_of(&err, sample))?;
        let called = work.call(&self.line.client, made).await;
        self.line.add_bytes(sample);
        match called {
            Ok(true) => {
                (sample.ended, sample.status) = (Some(Instant::now()), 200);
                Ok(())
            }
            Ok(false) => {
                (sample.ended, sample.status) = (Some(Instant::now()), 200);
                let words = format!("{}: the broker does not verify its own result", work.broker.operation.name());
                Err(Failure::new(Class::Assertion, words))
            }
            Err(err) => Err(failure_of(&err, sample)),
        }
    }
}

impl Line {
    /// Adds the bytes transferred since the last call of this method, so that workers sharing a connection count each byte
    /// once.
    fn add_bytes(&self, sample: &mut Sample) {
        let (sent, received) = self.client.traffic();
        let (sent_before, received_before) = self.counted.replace((sent, received));
        sample.bytes_sent += sent - sent_before;
        sample.bytes_received += received - received_before;
    }
}

fn unconnected(err: &Error) -> Failure {
    match err.code {
        Code::DeadlineExceeded => Failure::new(Class::ConnectTimeout, &err.text),
        _ if err.text.contains("refused") => Failure::new(Class::Refused, &err.text),
        _ => Failure::new(Class::Connect, &err.text),
    }
}

/// Classifies an error. If the broker answered, the status is its gRPC code: below 17, and so never an HTTP status.
fn failure_of(err: &Error, sample: &mut Sample) -> Failure {
    let class = match (err.sent, err.code) {
        (Delivery::Answered, Code::Internal) if err.text.contains("answers to") => Class::Malformed,
        (Delivery::Answered, code) => {
            sample.status = u16::try_from(i32::from(code)).unwrap_or_default();
            Class::Status
        }
        (_, Code::DeadlineExceeded) => Class::Timeout,
        (Delivery::Perhaps, _) => Class::Closed,
        (Delivery::No, Code::Unavailable) => Class::Closed,
        (Delivery::No, _) => Class::Internal,
    };
    Failure::new(class, format!("{}: {:?}: {}", err.operation, err.code, err.text))
}
