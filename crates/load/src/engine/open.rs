//! Open model: requests start when they are due, independent of the target. Bursts work the same with another schedule.
//!
//! A free worker takes the next due request; the worker that was busy last goes first, so that few connections serve a low
//! rate. If no worker is free, the shard adds one, up to the plan's bound. Beyond the bound requests wait, and their wait is
//! part of their response time but not of their service time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::arrivals::Arrivals;
use super::shard::Shard;
use super::timer::Timer;
use super::worker::Worker;
use crate::plan::Arrival;

/// Maximum number of requests of one shard that wait for a worker. Further requests are never sent and count as unsent.
const WAITING_MAX: usize = 1_000_000;
/// Number of requests handed out before workers get a turn.
const TURN: usize = 128;
/// Interval at which a pause checks for its end.
const LOOK: Duration = Duration::from_millis(10);

/// Request to make. If dropped before its start, it counts as unsent.
struct Job {
    due: Instant,
    held_by: HeldBy,
    /// Shard of the request; `None` once it has started.
    shard: Option<Rc<Shard>>,
}

/// Cause of a request's late start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldBy {
    /// The generator itself: the request waited for nothing else.
    Generator,
    /// Other requests of the same burst, which start before it.
    Burst,
    /// Requests under way, whose number is at its bound.
    Others,
}

/// Place where a free worker waits for a job.
#[derive(Default)]
struct Seat {
    job: Cell<Option<Job>>,
    waker: RefCell<Option<Waker>>,
}

/// Workers of one shard.
struct Pool {
    shard: Rc<Shard>,
    free: RefCell<Vec<Rc<Seat>>>,
    waiting: RefCell<VecDeque<Instant>>,
    workers: Cell<usize>,
    workers_max: usize,
    /// Cause of delay for requests that need not wait for a worker.
    held_by: HeldBy,
    /// Notified when the last busy worker becomes free.
    quiet: Notify,
}

/// Schedule of the times at which requests are due.
enum Schedule {
    Arrivals(Arrivals),
    /// Bursts: this shard's requests in each, and the number of its next request over all bursts.
    Bursts {
        share: u64,
        every: Duration,
        times: usize,
        next: u64,
    },
}

/// Hands out the due requests.
struct Dispatcher {
    pool: Rc<Pool>,
    schedule: Schedule,
    /// Next due time, if it is before the run's end.
    next: Option<Instant>,
    /// True if the next due time is after the run's end.
    is_beyond: bool,
}

/// Makes requests when they are due, until no more are due and all are answered.
pub(super) async fn offer(shard: Rc<Shard>) {
    let plan = &shard.run.plan;
    let (schedule, workers_max) = match &plan.arrival {
        Arrival::Open { rate, spacing, in_flight_max } => {
            let place = (shard.index, plan.threads);
            let arrivals = Arrivals::new(rate.clone(), *spacing, shard.worker_seed(), place);
            (Schedule::Arrivals(arrivals), shard.share(*in_flight_max as u64))
        }
        Arrival::Bursts { burst, every, times } => {
            let share = shard.share(*burst as u64);
            // The bound is this shard's own part, which may be larger than another's: no request waits for another to end.
            (Schedule::Bursts { share, every: *every, times: *times, next: 0 }, share.saturating_mul(*times as u64))
        }
        Arrival::Closed { .. } => return,
    };
    let held_by = if matches!(schedule, Schedule::Bursts { .. }) { HeldBy::Burst } else { HeldBy::Generator };
    let workers_max = usize::try_from(workers_max).unwrap_or(usize::MAX).max(1);
    let pool = Rc::new(Pool {
        shard: shard.clone(),
        free: RefCell::default(),
        waiting: RefCell::default(),
        workers: Cell::new(0),
        workers_max,
        held_by,
        quiet: Notify::new(),
    });
    let mut dispatcher = Dispatcher { pool: pool.clone(), schedule, next: None, is_beyond: false };
    dispatcher.advance();
    dispatcher.run().await;
    // A timed run lasts until its end even if no request is due before it: the rate may have dropped to zero. Bursts end the
    // run when all are made.
    let is_timed = matches!(dispatcher.schedule, Schedule::Arrivals(_)) && shard.timeline.end.is_some();
    while (is_timed || dispatcher.is_beyond) && !shard.is_spent() {
        tokio::time::sleep(LOOK).await;
    }
    while !pool.is_quiet() {
        pool.quiet.notified().await;
    }
}

impl Job {
    /// Records that the request starts now, and returns the time it was due.
    fn start(mut self, now: Instant) -> Instant {
        if let Some(shard) = self.shard.take() {
            let (mut recorder, late) = (shard.recorder.borrow_mut(), now.saturating_duration_since(self.due));
            match self.held_by {
                HeldBy::Generator => recorder.lag(now, late),
                HeldBy::Burst => recorder.spread(now, late),
                HeldBy::Others => recorder.waited(now),
            }
        }
        self.due
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(shard) = self.shard.take() {
            shard.recorder.borrow_mut().unsent(self.due, Instant::now());
        }
    }
}

impl Dispatcher {
    async fn run(&mut self) {
        let shard = self.pool.shard.clone();
        let mut timer = Timer::new();
        let mut turn = 0;
        while let (Some(due), false) = (self.next, shard.is_spent()) {
            if shard.run.control.is_paused() {
                self.pause().await;
                continue;
            }
            let now = Instant::now();
            if due > now {
                // A bounded wait notices a pause or a spent budget.
                timer.until(due.min(now + LOOK)).await;
                turn = 0;
                continue;
            }
            if !shard.claim(due) {
                break;
            }
            shard.recorder.borrow_mut().due(due, now, 1);
            self.pool.hand_out(due, now);
            self.advance();
            turn += 1;
            if turn == TURN {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        self.next = None;
    }

    /// Waits for the pause to end. Waiting requests are given up, and requests due meanwhile are not caught up.
    async fn pause(&mut self) {
        let shard = self.pool.shard.clone();
        self.pool.give_up(Instant::now());
        // The end of the run drops this future. It must not return while still paused, or the caller would never wait again.
        while shard.run.control.is_paused() {
            tokio::time::sleep(LOOK).await;
        }
        let now = Instant::now();
        match &mut self.schedule {
            Schedule::Arrivals(arrivals) => {
                arrivals.skip_to(now.saturating_duration_since(shard.timeline.start));
                self.advance();
            }
            // Bursts due during the pause are left out; a later burst stays whole.
            Schedule::Bursts { .. } => {
                while self.next.is_some_and(|next| next < now) {
                    self.advance();
                }
            }
        }
    }

    fn advance(&mut self) {
        let scale = self.pool.shard.run.control.scaled();
        let next = match &mut self.schedule {
            Schedule::Arrivals(arrivals) => arrivals.next(scale),
            Schedule::Bursts { share, every, times, next } => {
                let burst = *next / (*share).max(1);
                *next += 1;
                let is_due = *share > 0 && burst < *times as u64;
                is_due.then(|| every.saturating_mul(u32::try_from(burst).unwrap_or(u32::MAX)))
            }
        };
        let timeline = &self.pool.shard.timeline;
        self.next = next.and_then(|next| timeline.start.checked_add(next));
        self.is_beyond = self.next.is_some_and(|next| timeline.end.is_some_and(|end| next >= end));
        self.next = self.next.filter(|_| !self.is_beyond);
    }
}

impl Drop for Dispatcher {
    /// Counts the requests that were due before the end and did not start.
    fn drop(&mut self) {
        let (shard, now) = (self.pool.shard.clone(), Instant::now());
        self.pool.give_up(now);
        while let Some(due) = self.next.filter(|due| *due < now && !shard.run.control.is_paused()) {
            if !shard.claim(due) {
                return;
            }
            let mut recorder = shard.recorder.borrow_mut();
            recorder.due(due, now, 1);
            recorder.unsent(due, now);
            drop(recorder);
            self.advance();
        }
    }
}

impl Pool {
    fn hand_out(self: &Rc<Self>, due: Instant, now: Instant) {
        if let Some(seat) = self.free.borrow_mut().pop() {
            seat.job.set(Some(self.job(due, self.held_by)));
            if let Some(waker) = seat.waker.borrow_mut().take() {
                waker.wake();
            }
        } else if self.workers.get() < self.workers_max {
            self.workers.set(self.workers.get() + 1);
            let job = self.job(due, self.held_by);
            tokio::task::spawn_local(serve(self.clone(), job));
        } else if self.waiting.borrow().len() < WAITING_MAX {
            self.waiting.borrow_mut().push_back(due);
        } else {
            self.shard.recorder.borrow_mut().unsent(due, now);
        }
    }

    fn job(&self, due: Instant, held_by: HeldBy) -> Job {
        Job { due, held_by, shard: Some(self.shard.clone()) }
    }

    /// Gives up all waiting requests, which count as unsent.
    fn give_up(&self, now: Instant) {
        let mut recorder = self.shard.recorder.borrow_mut();
        for due in self.waiting.borrow_mut().drain(..) {
            recorder.unsent(due, now);
        }
    }

    fn is_quiet(&self) -> bool {
        self.free.borrow().len() == self.workers.get()
    }

    /// Returns the next job of a free worker: the request that has waited longest, or else the next one handed to its seat.
    async fn next(&self, seat: &Rc<Seat>) -> Job {
        if let Some(due) = self.waiting.borrow_mut().pop_front() {
            return self.job(due, HeldBy::Others);
        }
        self.free.borrow_mut().push(seat.clone());
        if self.is_quiet() {
            self.quiet.notify_one();
        }
        poll_fn(|cx| match seat.job.take() {
            Some(job) => Poll::Ready(job),
            None => {
                seat.waker.borrow_mut().replace(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

async fn serve(pool: Rc<Pool>, mut job: Job) {
    let shard = pool.shard.clone();
    let seat = Rc::new(Seat::default());
    let mut worker = Worker::new(shard.clone(), shard.worker_seed());
    loop {
        let now = Instant::now();
        worker.request(job.start(now), now).await;
        job = pool.next(&seat).await;
    }
}
