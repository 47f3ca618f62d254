//! Sleeping to some microseconds: all sleepers of a server share one timer of the kernel. The runtime's own timers are
//! counted in milliseconds, which is what is to be measured here.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;

/// The timer, and who waits for it.
#[derive(Debug)]
pub(super) struct Sleeper {
    /// No pipe, but read like one.
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
    /// When the kernel gives no timer.
    pub(super) fn new() -> anyhow::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = Receiver::from_owned_fd_unchecked(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Sleeper { timer, waiting: RefCell::default() })
    }

    /// Sleeps until then, if [`Sleeper::run`] goes on meanwhile.
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

    /// Wakes whoever is due, for ever.
    pub(super) async fn run(&self) {
        while self.timer.readable().await.is_ok() {
            // How often it went off; of no interest, but it must be taken away.
            let _ = self.timer.try_read(&mut [0; 8]);
            let next = self.wake(Instant::now());
            if let Some(next) = next {
                self.arm(next);
            }
        }
    }

    /// Wakes all that are due; the next one's time.
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
        // A timer of no time at all would be none.
        let left = at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let new = Itimerspec { it_interval: never, it_value: value };
        // The kernel refuses only what is no time; this is one.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &new);
    }
}
