//! Sleeping to some microseconds: all sleepers of a server share one timer of the kernel. The runtime's own timers count in
//! milliseconds, the magnitude that is measured here.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;

/// The timer, and the tasks that wait for it.
#[derive(Debug)]
pub(super) struct Sleeper {
    /// Not a pipe, but read like one.
    timer: Receiver,
    waiting: RefCell<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    wake: HashMap<u64, oneshot::Sender<()>>,
    number: u64,
}

impl Sleeper {
    /// # Errors
    /// If the kernel gives no timer.
    pub(super) fn new() -> anyhow::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = Receiver::from_owned_fd_unchecked(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Sleeper { timer, waiting: RefCell::default() })
    }

    /// Sleeps until a time, while [`Sleeper::run`] runs.
    pub(super) async fn until(&self, at: Instant) {
        if at <= Instant::now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting.borrow_mut();
            let is_first = waiting.due.peek().is_none_or(|Reverse((first, _))| at < *first);
            waiting.number += 1;
            let number = waiting.number;
            waiting.due.push(Reverse((at, number)));
            waiting.wake.insert(number, wake);
            is_first
        };
        if is_first {
            self.arm(at);
        }
        let _ = woken.await;
    }

    /// Wakes the tasks that are due, for ever.
    pub(super) async fn run(&self) {
        while self.timer.readable().await.is_ok() {
            // The number of expirations; of no interest, but it must be read.
            let _ = self.timer.try_read(&mut [0; 8]);
            let next = self.wake(Instant::now());
            if let Some(next) = next {
                self.arm(next);
            }
        }
    }

    /// Wakes all tasks that are due; returns the time of the next one.
    fn wake(&self, now: Instant) -> Option<Instant> {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(Reverse((at, number))) = waiting.due.peek().copied() {
            if at > now {
                return Some(at);
            }
            waiting.due.pop();
            if let Some(wake) = waiting.wake.remove(&number) {
                let _ = wake.send(());
            }
        }
        None
    }

    fn arm(&self, at: Instant) {
        // A timer of no time at all would disarm it.
        let left = at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let new = Itimerspec { it_interval: never, it_value: value };
        // The kernel rejects only an invalid time; this one is valid.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &new);
    }
}
