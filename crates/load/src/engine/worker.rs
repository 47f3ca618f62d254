//! One worker with its own connection, which makes one request at a time.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::deadline::Deadline;
use super::shard::Shard;
use crate::record::{Class, Failure, GaugeGuard};
use crate::request::CurrentRequest;
use crate::target::{Connection, Connector, Sample};

/// Time that a server has to close a connection it was asked to close.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Sends requests for its shard.
pub(super) struct Worker {
    shard: Rc<Shard>,
    prepared: CurrentRequest,
    connection: Option<Connection>,
    deadline: Deadline,
}

/// End of a request, as the worker's owner sees it.
pub(super) struct RequestEnd {
    /// Time at which the worker was free again.
    pub(super) free: Instant,
    /// True if no connection could be opened for the request.
    pub(super) unconnected: bool,
}

impl Worker {
    /// Creates a worker with a seed that no other worker has.
    pub(super) fn new(shard: Rc<Shard>, seed: u64) -> Self {
        let prepared = CurrentRequest::new(shard.run.setup.program(), seed);
        Worker { shard, prepared, connection: None, deadline: Deadline::default() }
    }

    /// Makes a request that is due at one time and starts at another, and records its result.
    pub(super) async fn request(&mut self, due: Instant, started: Instant) -> RequestEnd {
        let timeout = self.shard.run.plan.timeouts.request;
        let mut pending = Pending::begin(&self.shard, due, started);
        self.prepared.renew();
        let attempt = attempt(&self.shard.connector, &mut self.connection, &mut self.prepared, &mut pending.sample);
        let late = || Failure::new(Class::Timeout, format!("no complete response within {timeout:?}"));
        let result = self.deadline.limit(started + timeout, attempt).await.unwrap_or_else(|| Err(late()));
        let ended = pending.sample.ended.filter(|_| result.is_ok()).unwrap_or_else(Instant::now);
        // Checked again: a delayed thread sees a late answer before it sees the expired timer.
        let result = if result.is_ok() && ended - started > timeout { Err(late()) } else { result };
        let unconnected = result.as_ref().is_err_and(|failure| failure.class.is_connecting());
        // A complete answer leaves its connection usable, whatever its status: otherwise a target that fails one request in
        // a hundred would have to accept a new connection for each failure.
        let failure = result.as_ref().err().map(|failure| failure.class);
        let is_whole = matches!(failure, None | Some(Class::Status | Class::Assertion));
        pending.end(ended, result);
        let free = self.release(ended, is_whole).await;
        RequestEnd { free, unconnected }
    }

    /// Keeps the connection or closes it, and returns the time after that.
    async fn release(&mut self, ended: Instant, is_whole: bool) -> Instant {
        let connections = &self.shard.run.plan.connections;
        let keeps = |connection: &Connection| is_whole && connections.reuse && connection.keeps();
        if let Some(connection) = self.connection.take_if(|connection| !keeps(connection)) {
            if is_whole {
                let wait = connections.close_header.then_some(CLOSE_WAIT);
                Box::pin(connection.finish(wait)).await;
            }
            return Instant::now();
        }
        ended
    }
}

async fn attempt(
    connector: &Connector,
    connection: &mut Option<Connection>,
    prepared: &mut CurrentRequest,
    sample: &mut Sample,
) -> Result<(), Failure> {
    if let Some(open) = connection
        && !open.is_open().await?
    {
        *connection = None;
        sample.reconnected = true;
    }
    let connection = match connection {
        Some(connection) => connection,
        // Opening is rare and its future large: every worker would carry that size.
        None => connection.insert(Box::pin(connector.open(sample)).await?),
    };
    connection.exchange(prepared, sample).await
}

/// Request under way, recorded exactly once whatever happens to it.
struct Pending<'a> {
    shard: &'a Shard,
    sample: Sample,
    /// Counts the request as under way; `None` once it has ended.
    under_way: Option<GaugeGuard>,
}

impl<'a> Pending<'a> {
    fn begin(shard: &'a Shard, due: Instant, started: Instant) -> Self {
        let mut recorder = shard.recorder.borrow_mut();
        recorder.started(due, started);
        Pending { shard, sample: Sample::new(due, started), under_way: Some(recorder.in_flight().enter()) }
    }

    fn end(mut self, now: Instant, result: Result<(), Failure>) {
        self.under_way = None;
        self.shard.recorder.borrow_mut().ended(&self.sample, now, result);
    }
}

impl Drop for Pending<'_> {
    /// Records the request as cut off if the run ended before it did.
    fn drop(&mut self) {
        if self.under_way.take().is_some() {
            self.shard.recorder.borrow_mut().cut_off(&self.sample, Instant::now());
        }
    }
}
