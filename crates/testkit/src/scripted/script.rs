//! The script of the server, and its effect on one request.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A script. By default every request is answered 200 at once, with 2 bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Time that an answer takes.
    pub latency: Latency,
    /// Every n-th request fails: in turn an answer 500, a reset, and a body cut short. 0 for none.
    pub fault_every: u64,
    /// Every n-th request is answered only after `late_ms`. 0 for none.
    pub late_every: u64,
    /// Delay of a late answer, in milliseconds.
    pub late_ms: u64,
    /// Times at which the whole server stops answering.
    pub stall: Option<Stall>,
    /// Most answers a second: they leave in order, at equal distances, however many wait.
    pub rate_max: Option<f64>,
    /// Length of an answer's body, in bytes.
    pub body_len: usize,
    /// Answers with the body of the request.
    pub echo: bool,
    /// Resets connections as soon as they are accepted.
    pub reset_at_accept: bool,
}

/// Time that an answer takes, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// The same time for every answer.
    Constant {
        /// The time of every answer, in microseconds.
        us: u64,
    },
    /// One of two times, by a hash of the request's number.
    Bimodal {
        /// The short time, in microseconds.
        fast_us: u64,
        /// The long time, in microseconds.
        slow_us: u64,
        /// Share of the slow answers, in per cent.
        slow_percent: u64,
    },
    /// No request is ever answered.
    Never,
}

/// Times at which the whole server stops answering; then it answers all waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// From the first request to the first stall, in milliseconds.
    pub first_ms: u64,
    /// From one stall's start to the next, in milliseconds.
    pub every_ms: u64,
    /// Length of a stall, in milliseconds.
    pub length_ms: u64,
}

impl Default for Script {
    fn default() -> Self {
        Script {
            latency: Latency::Constant { us: 0 },
            fault_every: 0,
            late_every: 0,
            late_ms: 0,
            stall: None,
            rate_max: None,
            body_len: 2,
            echo: false,
            reset_at_accept: false,
        }
    }
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    Status500,
    Reset,
    Truncated,
}

/// The script's decision about one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Act {
    pub(super) fate: Fate,
    /// Time at which the answer leaves; `None` for never.
    pub(super) at: Option<Instant>,
    pub(super) is_late: bool,
}

/// The progress of a script over its requests.
#[derive(Debug, Default)]
pub(super) struct Progress {
    number: u64,
    began: Option<Instant>,
    last_departure: Option<Instant>,
}

impl Progress {
    /// Decides about the request whose head is whole now.
    pub(super) fn next(&mut self, script: &Script, now: Instant) -> Act {
        self.number += 1;
        let number = self.number;
        let began = *self.began.get_or_insert(now);
        let falls = |every: u64| every > 0 && number.is_multiple_of(every);
        let is_late = falls(script.late_every);
        let wait = match script.latency {
            _ if is_late => Duration::from_millis(script.late_ms),
            Latency::Constant { us } => Duration::from_micros(us),
            Latency::Bimodal { fast_us, slow_us, slow_percent } => {
                Duration::from_micros(if scrambled(number) % 100 < slow_percent { slow_us } else { fast_us })
            }
            Latency::Never => return Act { fate: Fate::Answered, at: None, is_late },
        };
        let mut at = now + wait;
        if let Some(rate) = script.rate_max {
            at = self.last_departure.map_or(at, |last| at.max(last + Duration::from_secs_f64(1.0 / rate)));
            self.last_departure = Some(at);
        }
        if let Some(stall) = script.stall {
            at = stall.end_of(at - began).map_or(at, |end| began + end);
        }
        let fate = match number / script.fault_every.max(1) % 3 {
            _ if !falls(script.fault_every) => Fate::Answered,
            1 => Fate::Status500,
            2 => Fate::Reset,
            _ => Fate::Truncated,
        };
        Act { fate, at: Some(at), is_late }
    }
}

impl Stall {
    /// Returns the end of the stall that contains this time; times are since the first request.
    fn end_of(self, at: Duration) -> Option<Duration> {
        let since_first = at.checked_sub(Duration::from_millis(self.first_ms))?;
        let every = Duration::from_millis(self.every_ms.max(1));
        let into = Duration::from_nanos((since_first.as_nanos() % every.as_nanos()) as u64);
        let length = Duration::from_millis(self.length_ms);
        (into < length).then(|| at - into + length)
    }
}

/// Hashes a number: the same number gives the same result; neighbours have nothing in common.
fn scrambled(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acts(script: &Script, count: usize, apart: Duration) -> (Instant, Vec<Act>) {
        let start = Instant::now();
        let mut progress = Progress::default();
        (start, (0..count).map(|index| progress.next(script, start + apart * index as u32)).collect())
    }

    #[test]
    fn faults_come_in_turn_and_every_so_often() {
        let script = Script { fault_every: 100, ..Script::default() };
        let (_, acts) = acts(&script, 900, Duration::ZERO);
        for fate in [Fate::Status500, Fate::Reset, Fate::Truncated] {
            assert_eq!(acts.iter().filter(|act| act.fate == fate).count(), 3, "{fate:?}");
        }
    }

    #[test]
    fn requests_during_a_stall_are_answered_at_its_end() {
        let stall = Stall { first_ms: 1000, every_ms: 10_000, length_ms: 500 };
        let script = Script { stall: Some(stall), ..Script::default() };
        let (start, acts) = acts(&script, 120, Duration::from_millis(100));
        let waits: Vec<u128> = (0..120)
            .map(|index| {
                let arrived = start + Duration::from_millis(100) * index;
                (acts[index as usize].at.expect("an answer") - arrived).as_millis()
            })
            .collect();
        assert_eq!(waits[9..16], [0, 500, 400, 300, 200, 100, 0]);
        assert_eq!(waits[109..116], [0, 500, 400, 300, 200, 100, 0]);
        assert_eq!(waits.iter().sum::<u128>(), 3000);
    }

    #[test]
    fn a_bounded_rate_lets_answers_leave_at_equal_distances() {
        let script = Script { rate_max: Some(100.0), ..Script::default() };
        let (start, acts) = acts(&script, 50, Duration::ZERO);
        let last = acts[49].at.expect("an answer") - start;
        assert_eq!(last.as_millis(), 490);
    }

    #[test]
    fn two_latencies_come_in_their_shares() {
        let latency = Latency::Bimodal { fast_us: 1000, slow_us: 9000, slow_percent: 20 };
        let (start, acts) = acts(&Script { latency, ..Script::default() }, 10_000, Duration::ZERO);
        let slow = acts.iter().filter(|act| act.at == Some(start + Duration::from_millis(9))).count();
        assert!((1900..2100).contains(&slow), "{slow} of 10,000");
    }
}
