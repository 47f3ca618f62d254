//! A circuit breaker: after several failures in a row, calls fail at once for a while instead of waiting one by one.
//!
//! It reads no clock to decide: the caller passes the time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bounds for opening and closing the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Failures in a row that open it, 1 or more. Default 10.
    pub failures: u32,
    /// Time that it stays open before it admits a probe. Default 250 ms.
    pub open_for: Duration,
    /// Concurrent probes while half open, 1 or more; the first success closes it. Default 1.
    pub probes: u32,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        BreakerOptions { failures: 10, open_for: Duration::from_millis(250), probes: 1 }
    }
}

/// State of a circuit breaker, which decides the admitted calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// All calls pass through it.
    Closed,
    /// All calls fail at once.
    Open,
    /// Probes pass; other calls fail at once.
    HalfOpen,
}

#[derive(Debug)]
pub(crate) struct Breaker {
    options: BreakerOptions,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen { probes: u32 },
}

/// Permission for one attempt. An attempt dropped without a result, such as a cancelled call, counts as neither success
/// nor failure, and releases its place as a probe.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
    is_told: bool,
}

impl Breaker {
    pub(crate) fn new(options: BreakerOptions) -> Self {
        let options = BreakerOptions { failures: options.failures.max(1), probes: options.probes.max(1), ..options };
        Breaker { options, state: Mutex::new(State::Closed { failures: 0 }) }
    }

    /// Permits an attempt now, or returns the time until the next probe.
    pub(crate) fn pass(&self, now: Instant) -> Result<Pass<'_>, Duration> {
        let mut state = self.lock();
        let is_probe = match &mut *state {
            State::Closed { .. } => false,
            State::Open { until } if now < *until => return Err(*until - now),
            State::Open { .. } => {
                *state = State::HalfOpen { probes: 1 };
                true
            }
            State::HalfOpen { probes } if *probes < self.options.probes => {
                *probes += 1;
                true
            }
            State::HalfOpen { .. } => return Err(Duration::ZERO),
        };
        Ok(Pass { breaker: self, is_probe, is_told: false })
    }

    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        match *self.lock() {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { until } if now < until => BreakerState::Open,
            State::Open { .. } | State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, is_probe: bool, verdict: Option<bool>, now: Instant) {
        let open = State::Open { until: now + self.options.open_for };
        let mut state = self.lock();
        *state = match (*state, verdict) {
            // A success of a call from before the opening says nothing of the present: only a probe closes the breaker.
            (State::Open { until }, _) => State::Open { until },
            (State::Closed { .. }, Some(true)) => State::Closed { failures: 0 },
            (State::Closed { failures }, Some(false)) if failures + 1 >= self.options.failures => open,
            (State::Closed { failures }, Some(false)) => State::Closed { failures: failures + 1 },
            (State::HalfOpen { .. }, Some(true)) if is_probe => State::Closed { failures: 0 },
            (State::HalfOpen { .. }, Some(false)) if is_probe => open,
            (State::HalfOpen { probes }, None) if is_probe => State::HalfOpen { probes: probes.saturating_sub(1) },
            (unchanged, _) => unchanged,
        };
    }
}

impl Pass<'_> {
    /// Records that the broker answered, even with an error.
    pub(crate) fn succeeded(mut self, now: Instant) {
        self.is_told = true;
        self.breaker.tell(self.is_probe, Some(true), now);
    }

    /// Records that the broker could not be reached, or answered that it is unavailable.
    pub(crate) fn failed(mut self, now: Instant) {
        self.is_told = true;
        self.breaker.tell(self.is_probe, Some(false), now);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.breaker.tell(self.is_probe, None, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHILE: Duration = Duration::from_millis(250);

    fn breaker(failures: u32, probes: u32) -> Breaker {
        Breaker::new(BreakerOptions { failures, open_for: WHILE, probes })
    }

    fn fail(breaker: &Breaker, now: Instant) {
        breaker.pass(now).unwrap().failed(now);
    }

    #[test]
    fn only_consecutive_failures_open_the_breaker() {
        let (breaker, now) = (breaker(3, 1), Instant::now());
        fail(&breaker, now);
        fail(&breaker, now);
        breaker.pass(now).unwrap().succeeded(now);
        fail(&breaker, now);
        fail(&breaker, now);
        assert_eq!(breaker.state(now), BreakerState::Closed);
        fail(&breaker, now);
        assert_eq!(breaker.state(now), BreakerState::Open);
        assert_eq!(breaker.pass(now + WHILE / 2).unwrap_err(), WHILE / 2);
    }

    #[test]
    fn a_successful_probe_closes_the_breaker_and_a_failed_one_reopens_it() {
        let (breaker, start) = (breaker(1, 1), Instant::now());
        fail(&breaker, start);
        let later = start + WHILE;
        let probe = breaker.pass(later).unwrap();
        assert_eq!(breaker.pass(later).unwrap_err(), Duration::ZERO, "one probe at a time");
        probe.failed(later);
        assert_eq!(breaker.pass(later).unwrap_err(), WHILE);
        let later = later + WHILE;
        breaker.pass(later).unwrap().succeeded(later);
        assert_eq!(breaker.state(later), BreakerState::Closed);
    }

    #[test]
    fn a_cancelled_probe_releases_its_slot() {
        let (breaker, start) = (breaker(1, 2), Instant::now());
        fail(&breaker, start);
        let later = start + WHILE;
        let probes = (breaker.pass(later).unwrap(), breaker.pass(later).unwrap());
        assert!(breaker.pass(later).is_err());
        drop(probes.0);
        assert!(breaker.pass(later).is_ok());
    }

    #[test]
    fn calls_started_before_the_breaker_opened_do_not_close_it() {
        let (breaker, now) = (breaker(1, 1), Instant::now());
        let early = breaker.pass(now).unwrap();
        fail(&breaker, now);
        early.succeeded(now);
        assert_eq!(breaker.state(now), BreakerState::Open);
        let early = breaker.pass(now + WHILE).unwrap();
        assert_eq!(breaker.state(now + WHILE), BreakerState::HalfOpen);
        early.succeeded(now + WHILE);
        assert_eq!(breaker.state(now + WHILE), BreakerState::Closed);
    }
}
