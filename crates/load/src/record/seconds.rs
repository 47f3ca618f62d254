//! The seconds of a run, in bounded memory.

use super::{Quantiles, Second};

/// As many are kept one by one: an hour. Beyond, neighbours are merged, so that all are of two seconds, then of four…
const SECONDS_MAX: usize = 3600;

/// All seconds of a run until now.
#[derive(Debug, Default)]
pub(crate) struct Seconds {
    kept: Vec<Second>,
    /// How many seconds are merged into one.
    grain: u32,
    /// What the last of those kept holds of them.
    filled: u32,
}

impl Seconds {
    /// Adds the next one.
    pub(crate) fn push(&mut self, second: Second) {
        let grain = self.grain.max(1);
        match self.kept.last_mut() {
            Some(last) if self.filled < grain && last.warm_up == second.warm_up => {
                last.merge(&second);
                self.filled += 1;
            }
            _ => {
                self.kept.push(second);
                self.filled = 1;
            }
        }
        if self.kept.len() > SECONDS_MAX {
            self.halve();
            self.grain = grain * 2;
        }
    }

    fn halve(&mut self) {
        let mut halved: Vec<Second> = Vec::with_capacity(SECONDS_MAX);
        let mut is_half = false;
        for second in self.kept.drain(..) {
            match halved.last_mut() {
                Some(last) if is_half && last.warm_up == second.warm_up => {
                    last.merge(&second);
                    is_half = false;
                }
                _ => {
                    halved.push(second);
                    is_half = true;
                }
            }
        }
        self.kept = halved;
        // What is half full is left as it is: the next second begins another.
        self.filled = u32::MAX;
    }

    /// All of them, in order.
    pub(crate) fn into_all(self) -> Vec<Second> {
        self.kept
    }
}

impl Second {
    /// Adds the one that follows it. Counts, shortest, longest, mean and deviation are exact; of two quantiles the larger
    /// one stays, which that of both together is never above. Gauges are those at the end.
    fn merge(&mut self, next: &Second) {
        let (mine, more) = (self.length.as_secs_f64(), next.length.as_secs_f64());
        if mine + more > 0.0 {
            self.cpu = (self.cpu * mine + next.cpu * more) / (mine + more);
        }
        self.at = next.at;
        self.length += next.length;
        self.counts.add(&next.counts);
        self.response = merged(&self.response, &next.response);
        self.service = merged(&self.service, &next.service);
        self.heat.add(&next.heat);
        add(&mut self.statuses, &next.statuses);
        add(&mut self.faults, &next.faults);
        self.in_flight = next.in_flight;
        self.connections = next.connections;
        self.lag_max = self.lag_max.max(next.lag_max);
    }
}

fn merged(a: &Quantiles, b: &Quantiles) -> Quantiles {
    if a.count == 0 || b.count == 0 {
        return if a.count == 0 { *b } else { *a };
    }
    let (of_a, of_b) = (a.count as f64, b.count as f64);
    let count = of_a + of_b;
    let mean = (a.mean_ns * of_a + b.mean_ns * of_b) / count;
    let spread = |one: &Quantiles| one.stdev_ns.powi(2) + (one.mean_ns - mean).powi(2);
    Quantiles {
        count: a.count + b.count,
        min_ns: a.min_ns.min(b.min_ns),
        mean_ns: mean,
        stdev_ns: ((spread(a) * of_a + spread(b) * of_b) / count).sqrt(),
        p50_ns: a.p50_ns.max(b.p50_ns),
        p75_ns: a.p75_ns.max(b.p75_ns),
        p90_ns: a.p90_ns.max(b.p90_ns),
        p95_ns: a.p95_ns.max(b.p95_ns),
        p99_ns: a.p99_ns.max(b.p99_ns),
        p999_ns: a.p999_ns.max(b.p999_ns),
        max_ns: a.max_ns.max(b.max_ns),
    }
}

fn add<K: Copy + PartialEq>(mine: &mut Vec<(K, u64)>, more: &[(K, u64)]) {
    for (key, count) in more {
        match mine.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known += count,
            None => mine.push((*key, *count)),
        }
    }
}
