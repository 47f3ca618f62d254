//! The audit log: one JSON line an operation, appended to one file, each chained to the one before it by a hash. What cannot be
//! written down is not done.
//!
//! It may not know: what an operation does, or any input of it.
//!
//! What is durable when: by default ([`Durability::EachAnswer`]) a line is on the disk before its answer leaves, and what comes
//! while the disk is busy shares its next turn. With [`Durability::Interval`] a line is in the file, which survives the end of
//! the process, before its answer leaves, and on the disk, which survives the end of the machine, within the interval.
//!
//! A chain shows that lines were changed, taken out, put in or moved. That its end was cut off shows against a hash that was
//! noted elsewhere; and whoever can write the file can write all of it anew, which shows against the same.

mod before;
mod file;
mod line;
mod report;
mod verify;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use sealway_runtime::clock::{Clock, SystemClock};
use tokio::sync::oneshot;

use self::file::LogFile;
pub use self::line::Entry;
use self::line::Members;
pub use self::report::report;
pub use self::verify::{Broken, Verified, verify, verify_all};
use crate::{Code, Refusal};

/// Most lines that wait for the disk; what comes beyond is refused.
const WAITING_MAX: usize = 8_192;
/// Most lines of one write.
const BATCH_MAX: usize = 1_024;
/// How often a log that cannot be written is tried while nobody writes.
const TRY: Duration = Duration::from_secs(1);
/// Longest wait for the disk.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// When a line has to be on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Before its answer leaves.
    #[default]
    EachAnswer,
    /// Within this time, 1 ms to a minute.
    Interval(Duration),
}

/// A log in use. When it is dropped, what waits is still written.
#[derive(Debug)]
pub struct Audit {
    log: Arc<Log>,
    durability: Durability,
    /// To the thread that writes, or that syncs.
    jobs: Option<SyncSender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Log {
    file: Mutex<LogFile>,
    /// The last write has failed. Said in the log once, not at each refusal.
    is_failing: Mutex<bool>,
}

struct Job {
    members: Members,
    answer: Answer,
}

enum Answer {
    Blocking(SyncSender<bool>),
    Async(oneshot::Sender<bool>),
}

impl Audit {
    /// Opens a log by the system's clock, each line durable before its answer leaves.
    ///
    /// # Errors
    /// Another process writes it, it cannot be written, others may write it, or its last lines are no chain.
    pub fn open(path: &Path) -> io::Result<Audit> {
        Audit::open_with(path, Durability::default(), Arc::new(SystemClock))
    }

    /// Opens a log.
    ///
    /// # Errors
    /// As with [`Audit::open`].
    pub fn open_with(path: &Path, durability: Durability, clock: Arc<dyn Clock>) -> io::Result<Audit> {
        let file = Mutex::new(LogFile::open(path, clock)?);
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

    /// Writes down an operation, and blocks until that is as durable as was asked for. Its answer may leave then.
    ///
    /// # Errors
    /// [`Refusal`] with code 14, and 13 when the log is gone for good: the operation's outcome is to be dropped. The line may be
    /// in the file nevertheless where the disk did not answer within 10 s.
    pub fn record(&self, entry: &Entry<'_>) -> Result<(), Refusal> {
        let members = Members::of_entry(entry);
        if self.durability != Durability::EachAnswer {
            return self.log.append(&[members]);
        }
        let (answer, answered) = sync_channel(1);
        self.send(Job { members, answer: Answer::Blocking(answer) })?;
        match answered.recv_timeout(WAIT_MAX) {
            Ok(true) => Ok(()),
            Ok(false) => Err(cannot_write()),
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
            Err(RecvTimeoutError::Timeout) => Err(slow()),
        }
    }

    /// As [`Audit::record`], without blocking the thread. With an interval the line is written at once, which takes some µs.
    ///
    /// # Errors
    /// As with [`Audit::record`].
    pub async fn recorded(&self, entry: &Entry<'_>) -> Result<(), Refusal> {
        let members = Members::of_entry(entry);
        if self.durability != Durability::EachAnswer {
            return self.log.append(&[members]);
        }
        let (answer, answered) = oneshot::channel();
        self.send(Job { members, answer: Answer::Async(answer) })?;
        match tokio::time::timeout(WAIT_MAX, answered).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(cannot_write()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(slow()),
        }
    }

    /// Whether the last write has succeeded, for what is not to be begun otherwise, such as the rotation of a key. A log that
    /// cannot be written is tried again each second, and at each line.
    ///
    /// # Errors
    /// As with [`Audit::record`].
    pub fn ready(&self) -> Result<(), Refusal> {
        if *self.log.is_failing.lock() { Err(cannot_write()) } else { Ok(()) }
    }

    /// After the file was renamed: begins a new one, which goes on from the old one. Does nothing if the path still leads to the
    /// file in use. To be called on SIGHUP.
    ///
    /// # Errors
    /// There is something else at the path, or no file can be made there: the old one stays in use.
    pub fn reopen(&self) -> io::Result<bool> {
        let mut file = self.log.file.lock();
        let reopened = file.reopen();
        match &reopened {
            Ok(true) => tracing::info!(file = %file.path().display(), "the audit log goes on in a new file"),
            Ok(false) => {}
            Err(err) => {
                tracing::error!(file = %file.path().display(), %err, "the audit log stays in the file that was put aside")
            }
        }
        reopened
    }

    fn send(&self, job: Job) -> Result<(), Refusal> {
        let Some(jobs) = &self.jobs else { return Err(gone()) };
        jobs.try_send(job).map_err(|err| match err {
            TrySendError::Full(_) => slow(),
            TrySendError::Disconnected(_) => gone(),
        })
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        // The thread ends when it has done what waits.
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
    /// In the file, not yet on the disk; on it too after a failure, so that one of the disk is not overlooked.
    fn append(&self, lines: &[Members]) -> Result<(), Refusal> {
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

    /// Counts, and tells the log when writing begins to fail and when it works again.
    fn note(&self, done: &io::Result<()>, lines: usize) {
        let mut is_failing = self.is_failing.lock();
        match done {
            Ok(()) => {
                metrics::counter!("sealway_broker_audit_lines_total").increment(lines as u64);
                if std::mem::take(&mut *is_failing) {
                    tracing::info!("the audit log is written again");
                }
            }
            Err(err) => {
                metrics::counter!("sealway_broker_audit_failures_total").increment(lines.max(1) as u64);
                if !std::mem::replace(&mut *is_failing, true) {
                    tracing::error!(%err, "the audit log cannot be written: every operation is refused until it can");
                }
            }
        }
    }
}

/// Writes what waits, all of it that came while the disk was busy at once.
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
            // Who does not wait any more has refused.
            let _ = match answer {
                Answer::Blocking(answer) => answer.try_send(is_written).is_ok(),
                Answer::Async(answer) => answer.send(is_written).is_ok(),
            };
        }
    }
}

/// Puts the file on the disk at an interval.
fn sync_at(log: &Log, waiting: &Receiver<Job>, interval: Duration) {
    loop {
        let is_over = matches!(waiting.recv_timeout(interval), Err(RecvTimeoutError::Disconnected));
        if *log.is_failing.lock() {
            log.append_durably(&[]);
        }
        // On a descriptor of its own, so that nobody waits for the disk.
        let synced = log.file.lock().to_sync().and_then(|file| file.sync_data());
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
