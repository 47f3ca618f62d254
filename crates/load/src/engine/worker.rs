//! One worker: a connection of its own, and one request at a time.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::deadline::Deadline;
use super::shard::Shard;
use crate::record::{Class, Entered, Fault};
use crate::request::Prepared;
use crate::target::{Connection, Connector, Sample};

/// How long a server that was asked to close a connection has to do so.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Sends requests for its shard.
pub(super) struct Worker {
    shard: Rc<Shard>,
    prepared: Prepared,
    connection: Option<Connection>,
    deadline: Deadline,
}

/// A request is over.
pub(super) struct Done {
    /// The moment the worker was free again.
    pub(super) free: Instant,
    /// Whether no connection could be opened for it.
    pub(super) unconnected: bool,
}

impl Worker {
    /// With a seed that no other worker has.
    pub(super) fn new(shard: Rc<Shard>, seed: u64) -> Self {
        let prepared = Prepared::new(shard.ground.program(), seed);
        Worker { shard, prepared, connection: None, deadline: Deadline::default() }
    }

    /// Makes a request that is due at one moment and starts at another, and records what comes of it.
    pub(super) async fn request(&mut self, due: Instant, started: Instant) -> Done {
        let timeout = self.shard.plan.timeouts.request;
        let mut pending = Pending::begin(&self.shard, due, started);
        self.prepared.renew();
        let attempt = attempt(&self.shard.connector, &mut self.connection, &mut self.prepared, &mut pending.sample);
        let late = || Fault::new(Class::Timeout, format!("no whole answer within {timeout:?}"));
        let result = self.deadline.limit(started + timeout, attempt).await.unwrap_or_else(|| Err(late()));
        let ended = pending.sample.ended.filter(|_| result.is_ok()).unwrap_or_else(Instant::now);
        // Looked at again: a thread that is held up finds a late answer before it finds the timer that went off.
        let result = if result.is_ok() && ended - started > timeout { Err(late()) } else { result };
        let unconnected = result.as_ref().is_err_and(|fault| fault.class.is_connecting());
        // An answer that is whole leaves its connection as good as it was, whatever it says: a target that fails one request
        // in a hundred would else be asked for a hundred times the connections.
        let fault = result.as_ref().err().map(|fault| fault.class);
        let is_whole = matches!(fault, None | Some(Class::Status | Class::Assertion));
        pending.end(ended, result);
        let free = self.release(ended, is_whole).await;
        Done { free, unconnected }
    }

    /// Keeps the connection, or ends it; the moment after that.
    async fn release(&mut self, ended: Instant, is_whole: bool) -> Instant {
        let connections = &self.shard.plan.connections;
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
    prepared: &mut Prepared,
    sample: &mut Sample,
) -> Result<(), Fault> {
    if let Some(open) = connection
        && !open.is_open().await?
    {
        *connection = None;
        sample.reconnected = true;
    }
    let connection = match connection {
        Some(connection) => connection,
        // Opening is rare and its future large: every worker would carry its size along.
        None => connection.insert(Box::pin(connector.open(sample)).await?),
    };
    connection.exchange(prepared, sample).await
}

/// A request under way: whatever becomes of it, it is recorded once.
struct Pending<'a> {
    shard: &'a Shard,
    sample: Sample,
    /// Taken by its end.
    under_way: Option<Entered>,
}

impl<'a> Pending<'a> {
    fn begin(shard: &'a Shard, due: Instant, started: Instant) -> Self {
        let mut recorder = shard.recorder.borrow_mut();
        recorder.started(due, started);
        Pending { shard, sample: Sample::new(due, started), under_way: Some(recorder.in_flight().enter()) }
    }

    fn end(mut self, now: Instant, result: Result<(), Fault>) {
        self.under_way = None;
        self.shard.recorder.borrow_mut().ended(&self.sample, now, result);
    }
}

impl Drop for Pending<'_> {
    /// Not ended: the run was.
    fn drop(&mut self) {
        if self.under_way.take().is_some() {
            self.shard.recorder.borrow_mut().cut_off(&self.sample, Instant::now());
        }
    }
}
