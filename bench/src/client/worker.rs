//! A load in two parts: the preparation before the clock starts (connections to keep, tickets), and the measured closed loop.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;

use super::h1::H1;
use super::h2::{H2, Sender};
use super::stream::Target;
use super::tally::{Fault, Tally};
use super::tls::{Group, Identity};

/// The time after the end of a load until it is aborted.
const OVERTIME: Duration = Duration::from_secs(15);
/// The number of faults after which a worker gives up: a benchmark of failures is useless.
const FAULTS_MAX: u64 = 20;

const KEEP: &[u8] =
    b"GET /bench/row?n=1 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: sealway-bench\r\nAccept: */*\r\n\r\n";
const CLOSE: &[u8] =
    b"GET /bench/row?n=1 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: sealway-bench\r\nAccept: */*\r\nConnection: close\r\n\r\n";

/// The HTTP version that the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    H1,
    H2,
}

/// The use of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// The connection is kept as long as the load lasts.
    Keep,
    /// Every request has a new connection, with a full handshake if it has TLS.
    New,
    /// Every request has a new connection, which resumes a session with an unused ticket.
    Resumed,
}

/// The load and its target.
pub(crate) struct Load<'a> {
    pub(crate) target: Target,
    /// The client's identity and the key exchange group, if the target has TLS.
    pub(crate) tls: Option<(&'a Identity, Group)>,
    /// True if the client presents its certificate.
    pub(crate) with_certificate: bool,
    pub(crate) protocol: Protocol,
    pub(crate) reuse: Reuse,
    /// The number of concurrent connections.
    pub(crate) connections: usize,
    /// The number of concurrent streams on each connection; for HTTP/2 with `Keep` only.
    pub(crate) streams: usize,
}

/// A prepared load, whose clock may start.
pub(crate) struct Ready {
    workers: Vec<Worker>,
    /// Kept open, because the senders use them.
    connections: Vec<H2>,
    /// The counts of the preparation.
    pub(crate) prepared: Tally,
}

enum Worker {
    H1(H1),
    H2(Sender, Request<Empty<Bytes>>),
    Each(Protocol, Target),
}

impl Load<'_> {
    /// Returns a target with the TLS settings of the load and its own session store.
    fn target(&self) -> anyhow::Result<Target> {
        let mut target = self.target.clone();
        if let Some((identity, group)) = self.tls {
            let alpn: &[u8] = if self.protocol == Protocol::H2 { b"h2" } else { b"http/1.1" };
            target.tls = Some(identity.config(group, alpn, self.with_certificate, self.reuse == Reuse::Resumed)?);
        }
        Ok(target)
    }

    /// Opens the connections to keep, and fetches tickets if sessions are resumed.
    pub(crate) async fn prepare(&self) -> anyhow::Result<Ready> {
        let mut ready = Ready { workers: Vec::new(), connections: Vec::new(), prepared: Tally::new() };
        for _ in 0..self.connections {
            let target = self.target()?;
            let done = self.prepare_one(target, &mut ready).await;
            done.map_err(|fault| anyhow::anyhow!("cannot prepare the load: {fault}"))?;
        }
        Ok(ready)
    }

    async fn prepare_one(&self, target: Target, ready: &mut Ready) -> Result<(), Fault> {
        if self.reuse != Reuse::Keep {
            if self.reuse == Reuse::Resumed {
                one_shot(self.protocol, &target, &mut |kind| ready.prepared.connected(kind)).await?;
            }
            ready.workers.push(Worker::Each(self.protocol, target));
            return Ok(());
        }
        let (stream, kind) = target.open().await?;
        ready.prepared.connected(kind);
        match self.protocol {
            Protocol::H1 => {
                let mut connection = H1::new(stream);
                connection.exchange(KEEP).await?;
                ready.workers.push(Worker::H1(connection));
            }
            Protocol::H2 => {
                let connection = H2::open(stream).await?;
                for _ in 0..self.streams {
                    let mut sender = connection.sender();
                    sender.exchange(request(&target)?).await?;
                    ready.workers.push(Worker::H2(sender, request(&target)?));
                }
                ready.connections.push(connection);
            }
        }
        Ok(())
    }
}

impl Ready {
    /// Sends for this time, each request after the previous answer. Then waits for the requests in flight.
    pub(crate) async fn run(self, time: Duration) -> (Tally, Duration) {
        let tally = Rc::new(RefCell::new(Tally::new()));
        let start = Instant::now();
        let tasks: Vec<_> = self
            .workers
            .into_iter()
            .map(|worker| tokio::task::spawn_local(worker.run(tally.clone(), start, time)))
            .collect();
        let deadline = tokio::time::Instant::now() + time + OVERTIME;
        for task in tasks {
            let abort = task.abort_handle();
            match tokio::time::timeout_at(deadline, task).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tally.borrow_mut().failed(Fault::of("worker", &error)),
                Err(_) => {
                    abort.abort();
                    tally.borrow_mut().failed(Fault::of("stuck", &"no answer in time"));
                }
            }
        }
        let elapsed = start.elapsed();
        for connection in self.connections {
            connection.finish().await;
        }
        (tally.replace(Tally::new()), elapsed)
    }
}

impl Worker {
    async fn run(mut self, tally: Rc<RefCell<Tally>>, start: Instant, time: Duration) {
        let mut faults = 0;
        let mut now = Instant::now();
        while now - start < time {
            let done = match &mut self {
                Worker::H1(connection) => connection.exchange(KEEP).await.map(|_| None),
                Worker::H2(sender, request) => sender.exchange(request.clone()).await.map(|()| None),
                Worker::Each(protocol, target) => {
                    let mut connected = |kind| tally.borrow_mut().connected(kind);
                    one_shot(*protocol, target, &mut connected).await.map(Some)
                }
            };
            let end = Instant::now();
            match done {
                Ok(took) => tally.borrow_mut().answered(took.unwrap_or(end - now)),
                Err(fault) => {
                    tally.borrow_mut().failed(fault);
                    faults += 1;
                    // A connection that failed is not used again.
                    if faults == FAULTS_MAX || !matches!(self, Worker::Each(..)) {
                        return;
                    }
                }
            }
            now = end;
        }
    }
}

/// Opens a connection, sends a request, reads the answer and closes. Returns the time from the start to the end of the answer.
async fn one_shot(
    protocol: Protocol,
    target: &Target,
    connected: &mut impl FnMut(Option<rustls::HandshakeKind>),
) -> Result<Duration, Fault> {
    let start = Instant::now();
    let (stream, kind) = target.open().await?;
    connected(kind);
    match protocol {
        Protocol::H1 => {
            let mut connection = H1::new(stream);
            connection.exchange(CLOSE).await?;
            let took = start.elapsed();
            connection.finish().await;
            Ok(took)
        }
        Protocol::H2 => {
            let connection = H2::open(stream).await?;
            connection.sender().exchange(request(target)?).await?;
            let took = start.elapsed();
            connection.finish().await;
            Ok(took)
        }
    }
}

fn request(target: &Target) -> Result<Request<Empty<Bytes>>, Fault> {
    let uri = if target.tls.is_some() { "https://localhost/bench/row?n=1" } else { "http://localhost/bench/row?n=1" };
    let request = Request::get(uri).header("user-agent", "sealway-bench").header("accept", "*/*");
    request.body(Empty::new()).map_err(|error| Fault::of("request", &error))
}
