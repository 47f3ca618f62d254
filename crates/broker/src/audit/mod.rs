//! The audit log: one JSON line per operation, appended to one file, each chained to the previous one by a hash. An
//! operation that cannot be recorded is not done.
//!
//! The module does not know the meaning of an operation, or any of its inputs.
//!
//! Durability: by default ([`Durability::EachAnswer`]) a line is on the disk before its answer leaves, and lines that
//! arrive during a sync share the next one. With [`Durability::Interval`] a line is in the file before its answer
//! leaves, and survives the end of the process; it is on the disk within the interval, and then survives the end of the
//! machine.
//!
//! A chain shows that lines were changed, removed, inserted or moved. A removed end shows only against a hash that was
//! noted elsewhere; so does a log that was rewritten as a whole by a user who can write the file.

mod line;
mod open;
mod verify;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use metrics::Counter;
use parking_lot::Mutex;
use sealway_runtime::clock::{Clock, SystemClock};
use tokio::sync::oneshot;

pub use self::verify::{Breach, Summary, report, verify, verify_all};
pub use self::writer::Entry;
use self::writer::{LogFile, Members};
use crate::{Code, Refusal, Result};

/// Most lines that wait for the disk; further ones are rejected.
const WAITING_MAX: usize = 8_192;
/// Most lines of one write.
const BATCH_MAX: usize = 1_024;
/// Interval of the attempts on a failing log without new lines.
const TRY: Duration = Duration::from_secs(1);
/// Longest wait for the disk.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Time by which a line has to be on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Before the answer of its operation leaves.
    #[default]
    EachAnswer,
    /// Within this time, 1 ms to a minute.
    Interval(Duration),
}

/// An open log. Dropping it writes the waiting lines first.
#[derive(Debug)]
pub struct Audit {
    log: Arc<Log>,
    durability: Durability,
    /// Queue of the thread that writes, or that syncs.
    jobs: Option<SyncSender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Log {
    file: Mutex<LogFile>,
    /// True if the last write failed. Logged once, not at each rejection.
    is_failing: Mutex<bool>,
}

struct Job {
    members: Members,
    answer: oneshot::Sender<bool>,
}

impl Audit {
    /// Opens a log with the system's clock, each line durable before its answer leaves.
    ///
    /// # Errors
    /// Another process writes it, it cannot be written, others may write it, or its last lines are not a chain.
    pub fn open(path: &Path) -> io::Result<Audit> {
        Audit::open_with(path, Durability::default(), Arc::new(SystemClock))
    }

    /// Opens a log with this durability and clock.
    ///
    /// # Errors
    /// Those of [`Audit::open`].
    pub fn open_with(path: &Path, durability: Durability, clock: Arc<dyn Clock>) -> io::Result<Audit> {
        let file = Mutex::new(LogFile::open(path, clock)?);
        // Created at 0: a scraper sees no increment of a counter that begins with it.
        let _ = [lines(), failures()];
        let log = Arc::new(Log { file, is_failing: Mutex::new(false) });
        let (jobs, waiting) = sync_channel(WAITING_MAX);
        let writer = Arc::clone(&log);
        let run = move || match durability {
            Durability::EachAnswer => write_batches(&writer, &waiting),
            Durability::Interval(interval) => sync_at(&writer, &waiting, interval.clamp(MIN_INTERVAL, MAX_INTERVAL)),
        };
        let thread = std::thread::Builder::new().name("audit".into()).spawn(run)?;
        Ok(Audit { log, durability, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Records an operation and waits until the record is as durable as configured; then its answer may leave. With an
    /// interval the line is written at once, which takes some µs.
    ///
    /// # Errors
    /// [`Refusal`] with code 14, or 13 if the log has ended: the caller has to drop the operation's outcome. If the
    /// disk did not answer within 10 s, the line may be in the file nevertheless.
    pub async fn record(&self, entry: &Entry<'_>) -> Result<()> {
        let members = Members::of_entry(entry);
        if self.durability != Durability::EachAnswer {
            return self.log.append(&[members]);
        }
        let (answer, answered) = oneshot::channel();
        self.send(Job { members, answer })?;
        match tokio::time::timeout(WAIT_MAX, answered).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(cannot_write()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(slow()),
        }
    }

    /// Checks that the last write succeeded, for operations that must not begin otherwise, such as a key rotation. A
    /// failing log is tried again each second, and at each line.
    ///
    /// # Errors
    /// Those of [`Audit::record`].
    pub fn ready(&self) -> Result<()> {
        if *self.log.is_failing.lock() { Err(cannot_write()) } else { Ok(()) }
    }

    /// Begins a new file after the file was renamed; the new file continues the old one's chain. Does nothing if the
    /// path still leads to the file in use. To be called on SIGHUP.
    ///
    /// # Errors
    /// Another file is at the path, or no file can be created there: the old one stays in use.
    pub fn reopen(&self) -> io::Result<bool> {
        let mut file = self.log.file.lock();
        let reopened = file.reopen();
        match &reopened {
            Ok(true) => tracing::info!(file = %file.path.display(), "the audit log continues in a new file"),
            Ok(false) => {}
            Err(err) => {
                tracing::error!(file = %file.path.display(), %err, "the audit log still writes to the rotated file")
            }
        }
        reopened
    }

    fn send(&self, job: Job) -> Result<()> {
        let Some(jobs) = &self.jobs else { return Err(gone()) };
        jobs.try_send(job).map_err(|err| match err {
            TrySendError::Full(_) => slow(),
            TrySendError::Disconnected(_) => gone(),
        })
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        // The thread ends after the waiting lines.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

const MIN_INTERVAL: Duration = Duration::from_millis(1);
const MAX_INTERVAL: Duration = Duration::from_secs(60);

fn cannot_write() -> Refusal {
    Refusal::new(Code::Unavailable, "the audit log cannot be written: nothing is done without it")
}

fn slow() -> Refusal {
    Refusal::new(Code::Unavailable, "the audit log is too far behind: nothing is done without it")
}

fn gone() -> Refusal {
    Refusal::new(Code::Internal, "the audit log is not written any more: nothing is done without it")
}

impl Log {
    /// Writes lines into the file, not yet to the disk; after a failure also to the disk, so that an error of the disk
    /// is noticed.
    fn append(&self, lines: &[Members]) -> Result<()> {
        if *self.is_failing.lock() {
            return if self.append_durably(lines) { Ok(()) } else { Err(cannot_write()) };
        }
        let done = self.file.lock().append(lines);
        self.note(&done, lines.len());
        done.map_err(|_| cannot_write())
    }

    fn append_durably(&self, lines: &[Members]) -> bool {
        let done = self.file.lock().append_durably(lines);
        self.note(&done, lines.len());
        done.is_ok()
    }

    /// Counts lines, and logs the begin and the end of a failure.
    fn note(&self, done: &io::Result<()>, count: usize) {
        let mut is_failing = self.is_failing.lock();
        match done {
            Ok(()) => {
                lines().increment(count as u64);
                if std::mem::take(&mut *is_failing) {
                    tracing::info!("writing the audit log succeeds again");
                }
            }
            Err(err) => {
                failures().increment(count.max(1) as u64);
                if !std::mem::replace(&mut *is_failing, true) {
                    tracing::error!(%err, "writing the audit log failed: all operations are rejected until it succeeds");
                }
            }
        }
    }
}

fn lines() -> Counter {
    metrics::counter!("sealway_broker_audit_lines_total")
}

fn failures() -> Counter {
    metrics::counter!("sealway_broker_audit_failures_total")
}

/// Writes waiting lines in batches: all lines that arrived during a sync are written together.
fn write_batches(log: &Log, waiting: &Receiver<Job>) {
    let mut answers = Vec::new();
    let mut lines = Vec::new();
    loop {
        let first = match waiting.recv_timeout(TRY) {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for job in first.into_iter().chain(waiting.try_iter().take(BATCH_MAX - 1)) {
            lines.push(job.members);
            answers.push(job.answer);
        }
        if lines.is_empty() && !*log.is_failing.lock() {
            continue;
        }
        let is_written = log.append_durably(&lines);
        lines.clear();
        for answer in answers.drain(..) {
            // The call may no longer wait: then it was rejected.
            let _ = answer.send(is_written);
        }
    }
}

/// Syncs the file to the disk at an interval.
fn sync_at(log: &Log, waiting: &Receiver<Job>, interval: Duration) {
    loop {
        let is_over = matches!(waiting.recv_timeout(interval), Err(RecvTimeoutError::Disconnected));
        if *log.is_failing.lock() {
            log.append_durably(&[]);
        }
        // With a descriptor of its own, so that no call waits for the disk.
        let synced = log.file.lock().file.try_clone().and_then(|file| file.sync_data());
        if let Err(err) = synced {
            log.note(&Err(err), 0);
        }
        if is_over {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
