//! State that a channel's task and its handles share: due messages, the time of the last message, and the reason of the
//! end.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::error::Error;

/// Most due messages that may wait. Pongs beyond the bound are dropped: their pings come faster than the line can carry
/// them.
const DUE_MAX: usize = 4;

/// A message to send besides the bytes of streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Ping(u64),
    Pong(u64),
    Rekey,
}

/// State shared by a channel's task, its socket below and its handles above.
#[derive(Debug)]
pub(crate) struct Pulse {
    begun: Instant,
    heard_ms: AtomicU64,
    rtt_us: AtomicU64,
    records_in: AtomicU64,
    records_out: AtomicU64,
    is_due: AtomicBool,
    due: Mutex<VecDeque<Due>>,
    /// Id of the last ping, and the time of its request.
    asked: Mutex<Option<(u64, Instant)>>,
    ending: Mutex<Ending>,
}

#[derive(Debug, Default)]
struct Ending {
    /// Code and reason that this side will send.
    ours: Option<(u16, String)>,
    /// Reason of the end, the first that was noticed.
    why: Option<Error>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Pulse {
            begun: Instant::now(),
            heard_ms: AtomicU64::new(0),
            rtt_us: AtomicU64::new(u64::MAX),
            records_in: AtomicU64::new(0),
            records_out: AtomicU64::new(0),
            is_due: AtomicBool::new(false),
            due: Mutex::default(),
            asked: Mutex::default(),
            ending: Mutex::default(),
        }
    }

    /// Milliseconds since the channel was made, by the monotonic clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    pub(crate) fn heard(&self) {
        self.heard_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    pub(crate) fn silent_for(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.heard_ms.load(Ordering::Relaxed)))
    }

    pub(crate) fn count_in(&self) {
        self.records_in.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_out(&self) {
        self.records_out.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn records(&self) -> (u64, u64) {
        (self.records_in.load(Ordering::Relaxed), self.records_out.load(Ordering::Relaxed))
    }

    /// Queues a message; the socket sends it at its next flush. A full queue drops it.
    pub(crate) fn send(&self, what: Due) {
        let mut due = lock(&self.due);
        if due.len() < DUE_MAX {
            if let Due::Ping(id) = what {
                *lock(&self.asked) = Some((id, Instant::now()));
            }
            due.push_back(what);
            self.is_due.store(true, Ordering::Release);
        }
    }

    pub(crate) fn take_due(&self) -> Option<Due> {
        if !self.is_due.load(Ordering::Acquire) {
            return None;
        }
        let mut due = lock(&self.due);
        let taken = due.pop_front();
        self.is_due.store(!due.is_empty(), Ordering::Release);
        taken
    }

    /// Handles a pong: the pong of the last ping gives the round trip.
    pub(crate) fn ponged(&self, id: u64) {
        if let Some((_, at)) = lock(&self.asked).take_if(|(asked, _)| *asked == id) {
            self.rtt_us.store(at.elapsed().as_micros() as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        match self.rtt_us.load(Ordering::Relaxed) {
            u64::MAX => None,
            us => Some(Duration::from_micros(us)),
        }
    }

    /// Records the reason of the channel's end, if there is none yet.
    pub(crate) fn ends(&self, why: Error) {
        lock(&self.ending).why.get_or_insert(why);
    }

    pub(crate) fn why(&self) -> Option<Error> {
        lock(&self.ending).why.clone()
    }

    /// Records the code and reason to send at the end.
    pub(crate) fn say(&self, code: u16, reason: &str) {
        lock(&self.ending).ours.get_or_insert((code, reason.to_owned()));
    }

    pub(crate) fn last_words(&self) -> Option<(u16, String)> {
        lock(&self.ending).ours.clone()
    }
}

/// A panic while one of these locks was held leaves no partial change.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_pongs_are_bounded_and_in_order() {
        let pulse = Pulse::new();
        (0..10).for_each(|id| pulse.send(Due::Pong(id)));
        let sent: Vec<_> = std::iter::from_fn(|| pulse.take_due()).collect();
        assert_eq!(sent, (0..DUE_MAX as u64).map(Due::Pong).collect::<Vec<_>>());
    }

    #[test]
    fn only_the_pong_of_the_last_ping_gives_a_round_trip_time() {
        let pulse = Pulse::new();
        pulse.send(Due::Ping(7));
        pulse.ponged(6);
        assert_eq!(pulse.rtt(), None);
        pulse.ponged(7);
        assert!(pulse.rtt().is_some());
    }
}
