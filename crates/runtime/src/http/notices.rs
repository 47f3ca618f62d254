//! Log lines about peers that a listener turned away: enough to see what they do, and never so much that a peer fills the log.
//! Metrics count all of it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Most lines of a kind in each period, on a listener.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

/// Lets some lines of a kind through, and counts those that it suppresses.
#[derive(Debug, Default)]
pub struct Gate(Mutex<GateState>);

#[derive(Debug, Default)]
struct GateState {
    since: Option<Instant>,
    lines: u32,
    kept_back: u64,
}

impl Gate {
    /// Returns the number of lines suppressed before this one, if this one may be written.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let told = &mut *self.0.lock();
        if told.since.is_none_or(|since| now.saturating_duration_since(since) >= PERIOD) {
            (told.since, told.lines) = (Some(now), 0);
        }
        if told.lines >= LINES_MAX {
            told.kept_back += 1;
            return None;
        }
        told.lines += 1;
        Some(std::mem::take(&mut told.kept_back))
    }
}

/// The gates of a listener, one for each kind of lines.
#[derive(Debug, Default)]
pub(super) struct Gates {
    pub(super) handshakes: Gate,
    pub(super) requests: Gate,
    pub(super) floods: Gate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_in_ten_seconds_pass_and_the_next_one_says_how_many_did_not() {
        let (gate, began) = (Gate::default(), Instant::now());
        let passed: Vec<_> = (0..1000).filter_map(|_| gate.pass(began)).collect();
        assert_eq!(passed, [0; 10]);
        assert_eq!(gate.pass(began + PERIOD), Some(990));
        assert_eq!(gate.pass(began + PERIOD), Some(0));
    }
}
