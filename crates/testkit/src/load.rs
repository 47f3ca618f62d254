//! A load that knows the right answers: clients that agree sessions and buy on several gateways, and replayers that send
//! captured requests again. Every answer is checked, and each violation is kept as a sentence.
//!
//! Violations: a request accepted twice; an acknowledged session that is unknown; an answer that does not open, or answers
//! another request; a 5xx without `Retry-After`; a missing answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sealway_proto::wire::Wire;

use crate::fleet::is_full;

mod buyer;
mod flood;
mod ledger;
mod peer;
mod replayer;
mod summary;

pub use flood::{Flood, flood};
pub use ledger::{Ledger, RequestRecord};
pub use summary::Summary;

use buyer::Buyer;

/// Most replays to each gateway after a load, in the short form of the tests.
const SHORT_REPLAYS: u64 = 1000;

/// The parameters of a load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The gateways, or a proxy in front of them.
    pub targets: Vec<SocketAddr>,
    /// Number of clients, a thread each.
    pub buyers: usize,
    /// Number of replayers, which send captured requests again, a thread each.
    pub replayers: usize,
    /// Pause between two requests of a thread.
    pub pause: Duration,
    /// Every other client agrees a new session once in this number of requests.
    pub init_every: usize,
    /// Longest time for an answer.
    pub answer_max: Duration,
}

impl Plan {
    /// Returns the parameters of a medium load on some gateways.
    pub fn new(targets: Vec<SocketAddr>) -> Self {
        Plan {
            targets,
            buyers: 6,
            replayers: 2,
            pause: Duration::from_millis(4),
            init_every: 6,
            answer_max: Duration::from_secs(10),
        }
    }
}

/// A load that is running.
#[derive(Debug)]
pub struct Load {
    ledger: Arc<Ledger>,
    plan: Plan,
    buyers: Vec<JoinHandle<Buyer>>,
    replayers: Vec<JoinHandle<()>>,
    started: Instant,
}

impl Load {
    /// Starts the threads of a load.
    pub fn start(plan: Plan) -> Self {
        let ledger = Arc::new(Ledger::default());
        let buyers = (0..plan.buyers).map(|index| {
            let wire = if index % 3 == 2 { Wire::V1 } else { Wire::V2 };
            let mut buyer = Buyer::new(index, wire, plan.clone(), ledger.clone());
            std::thread::spawn(move || {
                buyer.run();
                buyer
            })
        });
        let buyers = buyers.collect();
        let replayers = (0..plan.replayers).map(|_| {
            let (plan, ledger) = (plan.clone(), ledger.clone());
            std::thread::spawn(move || replayer::run(&plan, &ledger))
        });
        let replayers = replayers.collect();
        Load { ledger, plan, buyers, replayers, started: Instant::now() }
    }

    /// Returns the summary until now.
    pub fn so_far(&self) -> Summary {
        self.ledger.summary(self.started.elapsed())
    }

    /// Lets it run for some time; returns the summary of that time alone.
    pub fn run_for(&self, time: Duration) -> Summary {
        let before = self.so_far();
        std::thread::sleep(time);
        self.so_far().since(&before)
    }

    /// Runs `work` meanwhile, until the load is served again; returns its result, and the longest times without a new session
    /// and without a purchase.
    ///
    /// # Panics
    /// If the load is not served again within `time`.
    pub fn outage<T>(&self, time: Duration, work: impl FnOnce() -> T) -> (T, [Duration; 2]) {
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let counts = || [self.so_far().inits, self.so_far().purchases];
                let (mut last, mut since, mut longest) = (counts(), [Instant::now(); 2], [Duration::ZERO; 2]);
                // At the end both must have gone on.
                let (mut at_end, mut ended) = (None, None);
                loop {
                    let now = counts();
                    for which in 0..2 {
                        longest[which] = longest[which].max(since[which].elapsed());
                        if now[which] > last[which] {
                            since[which] = Instant::now();
                        }
                    }
                    last = now;
                    if is_done.load(Ordering::Acquire) {
                        let [inits, purchases] = *at_end.get_or_insert(now);
                        let ended = *ended.get_or_insert_with(Instant::now);
                        if now[0] > inits + 2 && now[1] > purchases + 20 {
                            return longest;
                        }
                        assert!(ended.elapsed() < time, "the load is not served again within {time:?}");
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            let result = work();
            is_done.store(true, Ordering::Release);
            (result, watching.join().expect("served again"))
        })
    }

    /// Waits until this number of further purchases have succeeded.
    ///
    /// # Panics
    /// If they do not within `time`.
    pub fn wait_for_purchases(&self, count: u64, time: Duration) -> Duration {
        let (before, started) = (self.so_far(), Instant::now());
        loop {
            let now = self.so_far().since(&before);
            if now.purchases >= count {
                return started.elapsed();
            }
            assert!(started.elapsed() < time, "{count} purchases do not succeed within {time:?}:\n{now}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it: each client gets its last answer.
    pub fn stop(self) -> LoadResult {
        self.ledger.stop();
        let buyers: Vec<Buyer> = self.buyers.into_iter().map(|buyer| buyer.join().expect("a client")).collect();
        for replayer in self.replayers {
            replayer.join().expect("a replayer");
        }
        let summary = self.ledger.summary(self.started.elapsed());
        LoadResult { summary, ledger: self.ledger, plan: self.plan, buyers, started: self.started }
    }
}

/// A load that has ended, with its records.
#[derive(Debug)]
pub struct LoadResult {
    /// The summary of the whole load.
    pub summary: Summary,
    /// Every request that was captured.
    pub ledger: Arc<Ledger>,
    plan: Plan,
    buyers: Vec<Buyer>,
    started: Instant,
}

impl LoadResult {
    /// Calls every acknowledged session once at every one of `targets`: each must work. Returns the number of calls.
    pub fn call_every_session(&mut self, targets: &[SocketAddr]) -> usize {
        let mut called = 0;
        for target in targets {
            called += self.buyers.iter_mut().map(|buyer| buyer.call_every_session(*target)).sum::<usize>();
        }
        self.summary = self.ledger.summary(self.started.elapsed());
        called
    }

    /// Sends every captured request once more to every one of `targets`, pipelined; in the short form of the tests at most a
    /// thousand to each gateway, beginning at different requests.
    pub fn replay_everything(&mut self, targets: &[SocketAddr]) -> Flood {
        let each = self.ledger.captured().len() as u64;
        let each = if is_full() { each } else { each.min(SHORT_REPLAYS) };
        let count = each * targets.len() as u64;
        let flood = flood(&self.ledger, targets, count, self.plan.answer_max);
        self.summary = self.ledger.summary(self.started.elapsed());
        flood
    }

    /// Sends the captured requests again, until this number were rejected by a decision: just after a fault a gateway may still
    /// answer 503 because its store is unavailable.
    ///
    /// # Panics
    /// Too few are rejected in time.
    pub fn replay_until_refused(&mut self, targets: &[SocketAddr], refused_min: u64, time: Duration) {
        let (started, mut refused) = (Instant::now(), 0);
        loop {
            let flood = self.replay_everything(targets);
            refused += flood.refused;
            if refused >= refused_min {
                return;
            }
            assert!(started.elapsed() < time, "{refused} replays are refused in {time:?}, of {refused_min}: {flood:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
