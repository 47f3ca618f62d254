//! Batches of inserts in one statement: an init waits for one commit, and a commit costs the same for one row as for
//! hundreds.
//!
//! While one batch is in progress, the next one gathers; only a lane that could start while another is busy waits a
//! little for more rows.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use super::config::PostgresConfig;
use super::fault::Fault;
use super::link::{Lease, Link};

/// Maximum number of jobs that wait for a lane.
const QUEUE_MAX: usize = 16 * 1024;
/// Time between two attempts of a batch.
const PAUSE: Duration = Duration::from_millis(20);

/// One caller's row, with its deadline and the channel for its answer.
pub(super) struct Job<I, A> {
    pub(super) item: I,
    until: Instant,
    answer: oneshot::Sender<A>,
}

/// Statement that a batcher runs for its batches.
pub(super) trait Work: Send + Sync + 'static {
    type Item: Send + Sync + 'static;
    type Answer: Send + 'static;
    const OP: &'static str;
    /// True if a batch whose result is unknown may be retried.
    const MAY_REPEAT: bool;

    /// Commits all jobs; returns an answer for each, in order.
    fn commit(
        &self,
        lease: Lease,
        jobs: &[Job<Self::Item, Self::Answer>],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Fault>> + Send;

    /// Returns the answer for a job that was not done.
    fn failed(fault: &Fault) -> Self::Answer;
}

/// A queue and the lanes that empty it. Dropping it ends the lanes.
pub(super) struct Batcher<W: Work> {
    queue: mpsc::Sender<Job<W::Item, W::Answer>>,
    shared: Arc<BatchState<W>>,
    _lanes: JoinSet<()>,
}

struct BatchState<W: Work> {
    work: W,
    link: Arc<Link>,
    jobs: Mutex<mpsc::Receiver<Job<W::Item, W::Answer>>>,
    busy: AtomicUsize,
    freed: Notify,
    batch_max: usize,
    batch_wait: Duration,
}

impl<W: Work> Batcher<W> {
    pub(super) fn start(work: W, link: Arc<Link>, config: &PostgresConfig) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let shared = Arc::new(BatchState {
            work,
            link,
            jobs: Mutex::new(jobs),
            busy: AtomicUsize::new(0),
            freed: Notify::new(),
            batch_max: config.batch_max.max(1),
            batch_wait: config.batch_wait,
        });
        let mut lanes = JoinSet::new();
        for _ in 0..config.lanes.max(1) {
            let shared = shared.clone();
            lanes.spawn(async move { shared.lane().await });
        }
        Batcher { queue, shared, _lanes: lanes }
    }

    /// Commits one item, at the latest by the operation's deadline.
    pub(super) async fn commit(&self, item: W::Item) -> W::Answer {
        let until = self.shared.link.until();
        let (answer, answered) = oneshot::channel();
        // A full queue rejects at once: the server is behind, and waiting would only hide it.
        if self.queue.try_send(Job { item, until, answer }).is_err() {
            return W::failed(&Fault::Busy);
        }
        let answered = answered.instrument(tracing::debug_span!("postgres", op = W::OP));
        match tokio::time::timeout_at(until, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => {
                let is_away = self.shared.link.is_away();
                W::failed(if is_away { &Fault::Away } else { &Fault::Late })
            }
        }
    }

    /// Returns the number of jobs that wait for a lane.
    pub(super) fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }
}

impl<W: Work> BatchState<W> {
    async fn lane(&self) {
        let mut jobs = Vec::new();
        loop {
            if !self.gather(&mut jobs).await {
                return;
            }
            self.busy.fetch_add(1, Ordering::AcqRel);
            self.settle(std::mem::take(&mut jobs)).await;
            self.busy.fetch_sub(1, Ordering::AcqRel);
            self.freed.notify_waiters();
        }
    }

    /// Gathers a batch, one lane at a time; returns false when there is nothing more to do.
    async fn gather(&self, jobs: &mut Vec<Job<W::Item, W::Answer>>) -> bool {
        let mut queue = self.jobs.lock().await;
        if queue.recv_many(jobs, self.batch_max).await == 0 {
            return false;
        }
        if jobs.len() < self.batch_max && self.busy.load(Ordering::Acquire) > 0 && !self.batch_wait.is_zero() {
            let _ = tokio::time::timeout(self.batch_wait, self.freed.notified()).await;
            while jobs.len() < self.batch_max
                && let Ok(job) = queue.try_recv()
            {
                jobs.push(job);
            }
        }
        true
    }

    /// Answers every job, retrying as long as one of them has time left.
    async fn settle(&self, mut jobs: Vec<Job<W::Item, W::Answer>>) {
        let failed = loop {
            let now = Instant::now();
            // A caller past its deadline has gone; its row is not sent any more.
            jobs.retain(|job| job.until > now && !job.answer.is_closed());
            let Some(until) = jobs.iter().map(|job| job.until).max() else { return };
            let mut sent = false;
            let attempt = async {
                let lease = self.link.lease().await?;
                sent = true;
                self.work.commit(lease, &jobs).await
            };
            match tokio::time::timeout_at(until, attempt).await.unwrap_or(Err(Fault::Late)) {
                Ok(answers) => {
                    for (job, answer) in jobs.drain(..).zip(answers) {
                        let _ = job.answer.send(answer);
                    }
                    return;
                }
                Err(fault) => {
                    self.link.failed(W::OP, &fault);
                    if !fault.is_passing() || (sent && !W::MAY_REPEAT) {
                        break fault;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        for job in jobs {
            let _ = job.answer.send(W::failed(&failed));
        }
    }
}
