//! Closed loop: each worker sends its next request when it has the answer to the last one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::shard::Shard;
use super::worker::Worker;
use crate::plan::{Arrival, Steps};
use crate::request::Random;

/// Interval at which the number of workers is compared with the planned one.
const LOOK: Duration = Duration::from_millis(10);
/// Delay of a worker after a failed connection, so that an unavailable target is not flooded.
const RETRY_WAIT: Duration = Duration::from_millis(100);

/// Workers of one shard.
#[derive(Debug, Default)]
struct Crew {
    /// Planned number of workers: those with a lower number run.
    wanted: Cell<usize>,
    /// Number of workers that run.
    present: Cell<usize>,
    places: RefCell<Vec<Place>>,
    /// Notified when a worker leaves.
    left: Notify,
}

/// Place of one worker, present or not.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    is_taken: bool,
    /// Number of requests made by the workers of this place.
    made: u64,
    /// True if this place has made its last request.
    is_finished: bool,
}

/// Keeps as many workers as the plan asks for, until all are finished or the budget is spent.
pub(super) async fn offer(shard: Rc<Shard>) {
    let Arrival::Closed { concurrency, ramp_share, loops } = shard.run.plan.arrival.clone() else { return };
    let crew = Rc::new(Crew::default());
    let settled = settled_after(&concurrency, ramp_share);
    let mut hired = 0;
    loop {
        let time = shard.timeline.start.elapsed();
        let whole = present_at(&concurrency, ramp_share, time, shard.run.control.scaled());
        let wanted = usize::try_from(shard.share(whole)).unwrap_or(usize::MAX);
        crew.wanted.set(wanted);
        if wanted != hired {
            hire(&shard, &crew, loops);
            hired = wanted;
        }
        let all_finished = time >= settled && loops > 0 && crew.is_finished();
        if crew.present.get() == 0 && (shard.is_spent() || all_finished) {
            return;
        }
        let _ = tokio::time::timeout(LOOK, crew.left.notified()).await;
    }
}

/// Returns the number of workers of all shards at this time.
fn present_at(concurrency: &Steps, ramp_share: f64, time: Duration, scale: f64) -> u64 {
    let planned = (concurrency.at(time) * scale).ceil();
    if ramp_share <= 0.0 {
        return planned as u64;
    }
    let step = (concurrency.max() * scale * ramp_share).ceil();
    planned.min(step * (time.as_secs() + 1) as f64) as u64
}

/// Returns the time after which the plan does not change the number of workers.
fn settled_after(concurrency: &Steps, ramp_share: f64) -> Duration {
    let stages: Duration = concurrency.0.iter().map(|stage| stage.length).sum();
    let ramp = if ramp_share > 0.0 { (1.0 / ramp_share).ceil() } else { 0.0 };
    stages.max(Duration::try_from_secs_f64(ramp).unwrap_or(Duration::MAX))
}

fn hire(shard: &Rc<Shard>, crew: &Rc<Crew>, loops: u64) {
    let wanted = crew.wanted.get();
    let mut places = crew.places.borrow_mut();
    if places.len() < wanted {
        places.resize(wanted, Place::default());
    }
    for (number, place) in places.iter_mut().enumerate().take(wanted) {
        if !place.is_taken && !place.is_finished {
            place.is_taken = true;
            crew.present.set(crew.present.get() + 1);
            tokio::task::spawn_local(work(shard.clone(), crew.clone(), number, loops));
        }
    }
}

impl Crew {
    fn is_finished(&self) -> bool {
        let places = self.places.borrow();
        places.iter().take(self.wanted.get()).all(|place| place.is_finished)
    }

    /// Records that the worker of this number leaves.
    fn leave(&self, number: usize, made: u64, is_finished: bool) {
        self.present.set(self.present.get() - 1);
        self.places.borrow_mut()[number] = Place { is_taken: false, made, is_finished };
        self.left.notify_one();
    }
}

async fn work(shard: Rc<Shard>, crew: Rc<Crew>, number: usize, loops: u64) {
    let seed = shard.worker_seed();
    let mut random = Random::stream(seed);
    let mut worker = Worker::new(shard.clone(), seed);
    let mut made = crew.places.borrow()[number].made;
    let mut now = Instant::now();
    loop {
        while shard.run.control.is_paused() {
            tokio::time::sleep(LOOK).await;
            now = Instant::now();
        }
        let is_finished = (loops > 0 && made == loops) || (number < crew.wanted.get() && !shard.claim(now));
        if is_finished || number >= crew.wanted.get() {
            crew.leave(number, made, is_finished);
            return;
        }
        made += 1;
        shard.recorder.borrow_mut().due(now, now, 1);
        let done = worker.request(now, now).await;
        now = done.free;
        let wait = if done.unconnected { RETRY_WAIT } else { think(&shard, &mut random) };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
            now = Instant::now();
        }
    }
}

fn think(shard: &Shard, random: &mut Random) -> Duration {
    let Some((least, most)) = shard.run.plan.think else { return Duration::ZERO };
    least + most.saturating_sub(least).mul_f64(random.share())
}
