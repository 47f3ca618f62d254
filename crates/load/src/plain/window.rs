//! Seconds covered by one line: summed counts, and percentiles of exactly these seconds.

use std::time::Duration;

use crate::engine::Tick;
use crate::record::{Phase, Second, Times};

/// Seconds gathered since the last line.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// All seconds merged; processor use is the largest.
    sum: Option<Second>,
    seconds: u64,
    has_warm_up: bool,
    /// Response times of the whole run at the last line, needed if a line covers several seconds.
    before: Option<Times>,
    now: Option<Times>,
}

/// Percentiles of a window's response times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Percentiles {
    pub(super) p50: u64,
    pub(super) p95: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

impl Window {
    /// Adds a second and returns the total length.
    pub(super) fn add(&mut self, tick: &Tick) -> Duration {
        let second = &tick.second;
        let sum = match &mut self.sum {
            None => self.sum.insert(second.clone()),
            Some(sum) => {
                let cpu = sum.cpu.max(second.cpu);
                sum.merge(second);
                (sum.index, sum.warm_up, sum.cpu) = (second.index, second.warm_up, cpu);
                sum
            }
        };
        self.seconds += 1;
        self.has_warm_up |= second.warm_up;
        self.now = Some(tick.totals.sum.times(Phase::Response).clone());
        sum.length
    }

    pub(super) fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Starts the window of the next line.
    pub(super) fn restart(&mut self) {
        *self = Window { before: self.now.take(), ..Window::default() };
    }

    /// Returns all seconds merged into one, with the index, time and gauges of the last.
    pub(super) fn sum(&self) -> Option<&Second> {
        self.sum.as_ref()
    }

    /// Returns the percentiles of these seconds alone; `None` if nothing was answered. One second has its own; for several,
    /// they come from the increase of the run's histogram since the last line. A warm-up is in no histogram of the run: then
    /// those of the worst second are returned.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        let response = self.sum.as_ref()?.response;
        let max = response.max_ns;
        if self.seconds > 1 && !self.has_warm_up {
            let mut times = self.now.clone()?;
            self.before.iter().for_each(|before| times.take_away(before));
            let at = |share| times.quantile_ns(share);
            return (!times.is_empty()).then(|| Percentiles { p50: at(0.5), p95: at(0.95), p99: at(0.99), max });
        }
        let (p50, p95, p99) = (response.p50_ns, response.p95_ns, response.p99_ns);
        (response.count > 0).then_some(Percentiles { p50, p95, p99, max })
    }
}
