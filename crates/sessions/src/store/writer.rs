//! The embedded store's one writer: a thread that commits whatever has come in, many changes at once, and tells each
//! caller when its own is on the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redb::{Database, ReadableTable, TableDefinition};
use tokio::sync::{mpsc, oneshot};

use super::StoreError;

/// `expires_ms || session id` to a row.
pub(crate) const SESSIONS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("sessions");
/// `expires_ms || claim key` to 1 for a sealed call's, 0 for an init's. Only nonces stamped ahead of the clock.
pub(crate) const NONCES: TableDefinition<&[u8], u8> = TableDefinition::new("nonces");
/// Facts about the store itself.
pub(crate) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// The format of the tables above.
pub(crate) const META_FORMAT: &str = "format";
/// The latest clock that a writer saw: a restart's floor is never below it.
pub(crate) const META_CLOCK_MS: &str = "clock_ms";

/// How long the first change of a batch waits for company.
const GATHER: Duration = Duration::from_millis(2);
const BATCH_MAX: usize = 1000;
const QUEUE_MAX: usize = 16 * 1024;

/// A change.
#[derive(Debug)]
pub(crate) enum Change {
    PutSession {
        key: Vec<u8>,
        row: Vec<u8>,
    },
    DeleteSession {
        key: Vec<u8>,
    },
    PutNonce {
        key: Vec<u8>,
        sealed: bool,
    },
    /// Forget what expired before this, and note the clock.
    Sweep {
        now_ms: u64,
    },
}

type Done = oneshot::Sender<Result<(), StoreError>>;

/// A handle on the thread. Dropping the last one commits what is queued and ends it.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Option<mpsc::Sender<(Change, Done)>>,
    thread: Option<std::thread::JoinHandle<()>>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    up: AtomicBool,
    waiting: AtomicUsize,
}

impl Writer {
    pub(crate) fn start(database: Database) -> std::io::Result<Self> {
        let (queue, changes) = mpsc::channel(QUEUE_MAX);
        let state = Arc::new(State { up: AtomicBool::new(true), waiting: AtomicUsize::new(0) });
        let shared = state.clone();
        let thread =
            std::thread::Builder::new().name("store-writer".into()).spawn(move || run(&database, changes, &shared))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), state })
    }

    /// Whether the last commit succeeded.
    pub(crate) fn is_up(&self) -> bool {
        self.state.up.load(Ordering::Relaxed)
    }

    /// Changes that wait for their commit.
    pub(crate) fn waiting(&self) -> usize {
        self.state.waiting.load(Ordering::Relaxed)
    }

    /// Commits a change; returns when it is on the disk.
    pub(crate) async fn commit(&self, change: Change) -> Result<(), StoreError> {
        let gone = || StoreError::Unavailable("the store's writer has ended".into());
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        let (done, result) = oneshot::channel();
        // A full queue is refused, not waited for: the disk is behind, and waiting would only hide it.
        queue.try_send((change, done)).map_err(|err| match err {
            mpsc::error::TrySendError::Full(_) => StoreError::Unavailable("the store's write queue is full".into()),
            mpsc::error::TrySendError::Closed(_) => gone(),
        })?;
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        result.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(database: &Database, mut changes: mpsc::Receiver<(Change, Done)>, state: &State) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while let Some(first) = changes.blocking_recv() {
        batch.push(first);
        std::thread::sleep(GATHER);
        while batch.len() < BATCH_MAX
            && let Ok(next) = changes.try_recv()
        {
            batch.push(next);
        }
        let result = apply(database, batch.iter().map(|(change, _)| change));
        if let Err(err) = &result {
            tracing::error!(%err, "the embedded store cannot write");
        }
        state.up.store(result.is_ok(), Ordering::Relaxed);
        state.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        for (_, done) in batch.drain(..) {
            let _ = done.send(result.clone().map_err(StoreError::Unavailable));
        }
    }
}

/// One transaction: all of it or none.
fn apply<'a>(database: &Database, changes: impl Iterator<Item = &'a Change>) -> Result<(), String> {
    let fail = |err: &dyn std::fmt::Display| err.to_string();
    let transaction = database.begin_write().map_err(|err| fail(&err))?;
    {
        let mut sessions = transaction.open_table(SESSIONS).map_err(|err| fail(&err))?;
        let mut nonces = transaction.open_table(NONCES).map_err(|err| fail(&err))?;
        for change in changes {
            match change {
                Change::PutSession { key, row } => {
                    sessions.insert(key.as_slice(), row.as_slice()).map_err(|err| fail(&err))?;
                }
                Change::DeleteSession { key } => {
                    sessions.remove(key.as_slice()).map_err(|err| fail(&err))?;
                }
                Change::PutNonce { key, sealed } => {
                    nonces.insert(key.as_slice(), u8::from(*sealed)).map_err(|err| fail(&err))?;
                }
                Change::Sweep { now_ms } => {
                    let end = now_ms.to_be_bytes();
                    sessions.retain_in(..end.as_slice(), |_, _| false).map_err(|err| fail(&err))?;
                    nonces.retain_in(..end.as_slice(), |_, _| false).map_err(|err| fail(&err))?;
                    let mut meta = transaction.open_table(META).map_err(|err| fail(&err))?;
                    let known = meta.get(META_CLOCK_MS).map_err(|err| fail(&err))?.map_or(0, |value| value.value());
                    meta.insert(META_CLOCK_MS, known.max(*now_ms)).map_err(|err| fail(&err))?;
                }
            }
        }
    }
    transaction.commit().map_err(|err| fail(&err))
}
