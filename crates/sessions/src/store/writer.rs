//! The embedded store's writer thread, which commits queued changes in batches and notifies each caller when its change
//! is on the disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redb::{Database, ReadableTable, TableDefinition};
use tokio::sync::{mpsc, oneshot};

use super::StoreError;

/// Table of sessions: `expires_ms || session id` to a row.
pub(crate) const SESSIONS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("sessions");
/// Table of ended chains of renewals: `until_ms || id of the first session`.
pub(crate) const ENDED: TableDefinition<&[u8], ()> = TableDefinition::new("ended");
/// Table of nonces stamped ahead of the clock: `expires_ms || claim key` to 1 for a sealed call's, 0 for an init's.
pub(crate) const NONCES: TableDefinition<&[u8], u8> = TableDefinition::new("nonces");
/// Table of facts about the store itself.
pub(crate) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// Name of the tables' format in [`META`].
pub(crate) const META_FORMAT: &str = "format";
/// Name of the ceiling in [`META`]. No stamp above it was granted without a row in [`NONCES`]: a restart's floor is
/// never below it. While the store runs it is ahead of the clock by up to [`LEAD_MS`]; on close it is lowered to the
/// highest granted stamp.
pub(crate) const META_CEILING_MS: &str = "ceiling_ms";
/// Table of marks: for each key-encryption key that ever wrapped, a constant wrapped under it, to tell a wrong key from
/// a bad row.
pub(crate) const KEKS: TableDefinition<&str, &[u8]> = TableDefinition::new("keks");

/// Size of the page cache: reads come from memory, so it need not be large.
const CACHE_LEN: usize = 32 * 1024 * 1024;
/// Time that the first change of a batch waits for more.
const GATHER: Duration = Duration::from_millis(2);
const BATCH_MAX: usize = 1000;
const QUEUE_MAX: usize = 16 * 1024;
/// Distance of the written ceiling ahead of the latest stamp, in ms, so that no request waits for it; twice that at
/// most. After a crash, stamps up to the ceiling are rejected: the next start waits for the clock to pass it.
pub(crate) const LEAD_MS: u64 = 500;

/// A change to the file, to be committed.
#[derive(Debug)]
pub(crate) enum Change {
    PutSession {
        key: Vec<u8>,
        row: Vec<u8>,
    },
    DeleteSession {
        key: Vec<u8>,
    },
    EndChain {
        key: Vec<u8>,
    },
    PutNonce {
        key: Vec<u8>,
        sealed: bool,
    },
    /// Removes entries that expired at or before this time.
    Sweep {
        now_ms: u64,
    },
    /// Raises the ceiling to `ms`.
    Ceiling {
        ms: u64,
    },
    /// Rewrites rows by their keys, each unless it is gone by then.
    Rewrap {
        rows: Vec<(Vec<u8>, Vec<u8>)>,
    },
}

type Reply = oneshot::Sender<Result<(), StoreError>>;

/// A handle on the thread. Dropping it commits the queued changes and ends the thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Option<mpsc::Sender<(Change, Reply)>>,
    thread: Option<std::thread::JoinHandle<()>>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    up: AtomicBool,
    waiting: AtomicUsize,
    /// The highest stamp that must be rejected after a restart.
    granted_ms: AtomicU64,
    /// The ceiling on the disk.
    ceiling_ms: AtomicU64,
    /// True while a change of the ceiling is queued.
    raising: AtomicBool,
}

impl Writer {
    /// Starts the thread; `floor_ms` is the floor of this run, which the next one must keep.
    pub(crate) fn start(database: Database, path: &Path, floor_ms: u64) -> std::io::Result<Self> {
        let (queue, changes) = mpsc::channel(QUEUE_MAX);
        let state = Arc::new(State {
            up: AtomicBool::new(true),
            waiting: AtomicUsize::new(0),
            granted_ms: AtomicU64::new(floor_ms),
            ceiling_ms: AtomicU64::new(floor_ms),
            raising: AtomicBool::new(false),
        });
        let shared = state.clone();
        let path = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run(database, &path, changes, &shared))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), state })
    }

    /// True if the last commit succeeded.
    pub(crate) fn is_up(&self) -> bool {
        self.state.up.load(Ordering::Relaxed)
    }

    /// Returns the number of changes that wait for their commit.
    pub(crate) fn waiting(&self) -> usize {
        self.state.waiting.load(Ordering::Relaxed)
    }

    /// Commits a change; returns when it is on the disk.
    pub(crate) async fn commit(&self, change: Change) -> Result<(), StoreError> {
        self.send(change)?.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Ensures that a restart rejects stamps up to this one, even if the clock steps back across it. Does not wait: the
    /// ceiling is written ahead. The first stamp after a pause is covered a few milliseconds late.
    pub(crate) fn cover(&self, stamp_ms: u64) {
        self.state.granted_ms.fetch_max(stamp_ms, Ordering::Relaxed);
        let low = stamp_ms.saturating_add(LEAD_MS / 2) > self.state.ceiling_ms.load(Ordering::Relaxed);
        if low && !self.state.raising.swap(true, Ordering::Relaxed) {
            let raised = self.send(Change::Ceiling { ms: stamp_ms.saturating_add(LEAD_MS) });
            if raised.is_err() {
                self.state.raising.store(false, Ordering::Relaxed);
            }
        }
    }

    fn send(&self, change: Change) -> Result<oneshot::Receiver<Result<(), StoreError>>, StoreError> {
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        let (done, result) = oneshot::channel();
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        // A full queue rejects at once: the disk is behind, and waiting would only hide it.
        queue.try_send((change, done)).map_err(|err| {
            self.state.waiting.fetch_sub(1, Ordering::Relaxed);
            match err {
                mpsc::error::TrySendError::Full(_) => StoreError::Unavailable("the store's write queue is full".into()),
                mpsc::error::TrySendError::Closed(_) => gone(),
            }
        })?;
        Ok(result)
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the store's writer has ended".into())
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Opens or creates the database file.
pub(crate) fn open(path: &Path) -> Result<Database, redb::DatabaseError> {
    Database::builder().set_cache_size(CACHE_LEN).create(path)
}

fn run(database: Database, path: &Path, mut changes: mpsc::Receiver<(Change, Reply)>, state: &State) {
    // `None` after a failure: the database rejects further changes then, and must be reopened.
    let mut database = Some(database);
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while let Some(first) = changes.blocking_recv() {
        batch.push(first);
        std::thread::sleep(GATHER);
        gather(&mut changes, &mut batch);
        if database.is_none() {
            database = open(path).inspect_err(|err| tracing::error!(%err, "reopening the embedded store failed")).ok();
        }
        let result = match &database {
            Some(database) => apply(database, batch.iter().map(|(change, _)| change)),
            None => Err("it failed before, and cannot be opened again".into()),
        };
        if result.is_err() {
            database = None;
        }
        if let Ok(forgotten_ms) = result {
            state.granted_ms.fetch_max(forgotten_ms, Ordering::Relaxed);
        }
        let result = result.map(|_| ());
        for (change, _) in &batch {
            if let Change::Ceiling { ms } = change {
                if result.is_ok() {
                    state.ceiling_ms.fetch_max(*ms, Ordering::Relaxed);
                }
                state.raising.store(false, Ordering::Relaxed);
            }
        }
        if let Err(err) = &result {
            tracing::error!(%err, "writing the embedded store failed");
        }
        state.up.store(result.is_ok(), Ordering::Relaxed);
        state.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        for (_, done) in batch.drain(..) {
            let _ = done.send(result.clone().map_err(StoreError::Unavailable));
        }
    }
    // Closed in order: stamps up to the ceiling written ahead need not be rejected.
    let settled = match database.or_else(|| open(path).ok()) {
        Some(database) => settle(&database, state.granted_ms.load(Ordering::Relaxed)),
        None => Err("it cannot be opened".into()),
    };
    if let Err(err) = settled {
        tracing::warn!(
            err,
            "the embedded store did not close in order; requests stamped up to {LEAD_MS} ms ahead are \
                             refused after the next start"
        );
    }
}

/// Takes the queued changes into a batch, up to [`BATCH_MAX`].
fn gather(changes: &mut mpsc::Receiver<(Change, Reply)>, batch: &mut Vec<(Change, Reply)>) {
    while batch.len() < BATCH_MAX
        && let Ok(next) = changes.try_recv()
    {
        batch.push(next);
    }
}

fn settle(database: &Database, ceiling_ms: u64) -> Result<(), String> {
    let fail = |err: &dyn std::fmt::Display| err.to_string();
    let transaction = database.begin_write().map_err(|err| fail(&err))?;
    {
        let mut meta = transaction.open_table(META).map_err(|err| fail(&err))?;
        meta.insert(META_CEILING_MS, ceiling_ms).map_err(|err| fail(&err))?;
    }
    transaction.commit().map_err(|err| fail(&err))
}

/// Applies changes in one transaction: all or none. Returns the latest expiry of a nonce that it removed.
fn apply<'a>(database: &Database, changes: impl Iterator<Item = &'a Change>) -> Result<u64, String> {
    let fail = |err: &dyn std::fmt::Display| err.to_string();
    let mut forgotten_ms = 0;
    let mut ceiling_ms = 0;
    let transaction = database.begin_write().map_err(|err| fail(&err))?;
    {
        let mut sessions = transaction.open_table(SESSIONS).map_err(|err| fail(&err))?;
        let mut nonces = transaction.open_table(NONCES).map_err(|err| fail(&err))?;
        let mut ended = transaction.open_table(ENDED).map_err(|err| fail(&err))?;
        for change in changes {
            match change {
                Change::PutSession { key, row } => {
                    sessions.insert(key.as_slice(), row.as_slice()).map_err(|err| fail(&err))?;
                }
                Change::DeleteSession { key } => {
                    sessions.remove(key.as_slice()).map_err(|err| fail(&err))?;
                }
                Change::EndChain { key } => {
                    ended.insert(key.as_slice(), ()).map_err(|err| fail(&err))?;
                }
                Change::PutNonce { key, sealed } => {
                    nonces.insert(key.as_slice(), u8::from(*sealed)).map_err(|err| fail(&err))?;
                }
                Change::Sweep { now_ms } => {
                    let end = now_ms.saturating_add(1).to_be_bytes();
                    sessions.retain_in(..end.as_slice(), |_, _| false).map_err(|err| fail(&err))?;
                    ended.retain_in(..end.as_slice(), |_, ()| false).map_err(|err| fail(&err))?;
                    let forget = |key: &[u8], _| {
                        let expires_ms = key.first_chunk().map_or(0, |expires| u64::from_be_bytes(*expires));
                        forgotten_ms = forgotten_ms.max(expires_ms);
                        false
                    };
                    nonces.retain_in(..end.as_slice(), forget).map_err(|err| fail(&err))?;
                }
                Change::Ceiling { ms } => ceiling_ms = ceiling_ms.max(*ms),
                Change::Rewrap { rows } => {
                    for (key, row) in rows {
                        if sessions.get(key.as_slice()).map_err(|err| fail(&err))?.is_some() {
                            sessions.insert(key.as_slice(), row.as_slice()).map_err(|err| fail(&err))?;
                        }
                    }
                }
            }
        }
        // A nonce expires after its own stamp. With an even clock that is in the past; a clock that stepped ahead and
        // back must not readmit it.
        let ceiling_ms = ceiling_ms.max(forgotten_ms);
        if ceiling_ms > 0 {
            let mut meta = transaction.open_table(META).map_err(|err| fail(&err))?;
            let known = meta.get(META_CEILING_MS).map_err(|err| fail(&err))?.map_or(0, |value| value.value());
            meta.insert(META_CEILING_MS, known.max(ceiling_ms)).map_err(|err| fail(&err))?;
        }
    }
    transaction.commit().map_err(|err| fail(&err))?;
    Ok(forgotten_ms)
}

#[cfg(test)]
pub(super) mod tests;
