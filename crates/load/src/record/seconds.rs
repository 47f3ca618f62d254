//! Seconds of a run in bounded memory.

use super::{Quantiles, Second};

/// Maximum number of seconds kept: an hour. Beyond it neighbours are merged, first into two seconds each, then into four,
/// and so on.
const SECONDS_MAX: usize = 3600;

/// Seconds of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Seconds {
    kept: Vec<Second>,
    /// Number of seconds merged into one entry; 0 counts as 1.
    grain: u32,
    /// Number of seconds merged into the last entry so far.
    filled: u32,
}

impl Seconds {
    /// Adds the next second of the run.
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
        // A partly filled entry is left as it is: the next second begins another.
        self.filled = u32::MAX;
    }

    /// Returns all entries in order.
    pub(crate) fn into_all(self) -> Vec<Second> {
        self.kept
    }
}

impl Second {
    /// Adds the second that follows. Counts, minimum, maximum, mean and deviation are exact. Of two quantiles the larger one
    /// stays, which is an upper bound of the combined one. Gauges are those at the end.
    pub(crate) fn merge(&mut self, next: &Second) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::{Counts, Heat, Times};

    /// Second in which each of these times occurred once.
    fn second(index: u32, warm_up: bool, times_ms: &[u64]) -> Second {
        let mut times = Times::default();
        times_ms.iter().for_each(|ms| times.record(Duration::from_millis(*ms)));
        Second {
            index,
            at: Duration::from_secs(u64::from(index) + 1),
            length: Duration::from_secs(1),
            warm_up,
            counts: Counts { succeeded: times_ms.len() as u64, ..Counts::default() },
            response: times.quantiles(),
            service: Quantiles::default(),
            heat: times.heat(),
            statuses: vec![(200, 1), (500 + index as u16 % 2, 1)],
            faults: Vec::new(),
            in_flight: u64::from(index),
            connections: 1,
            lag_max: Duration::from_micros(u64::from(index)),
            cpu: f64::from(index % 2),
        }
    }

    #[test]
    fn a_long_run_keeps_a_bounded_number_of_seconds_that_hold_all_it_saw() {
        let mut seconds = Seconds::default();
        let mut most = 0;
        let like = second(0, false, &[1]);
        for index in 0..20_000 {
            let at = Duration::from_secs(u64::from(index) + 1);
            seconds.push(Second { index, at, warm_up: index < 3, ..like.clone() });
            most = most.max(seconds.kept.len());
        }
        let all = seconds.into_all();
        assert!(most <= SECONDS_MAX + 1 && all.len() > SECONDS_MAX / 2, "{most} {}", all.len());
        assert_eq!(all.iter().map(|second| second.counts.succeeded).sum::<u64>(), 20_000);
        assert_eq!(all.iter().map(|second| second.length).sum::<Duration>(), Duration::from_secs(20_000));
        let warm: Duration = all.iter().filter(|second| second.warm_up).map(|second| second.length).sum();
        assert_eq!(warm, Duration::from_secs(3));
        let mut end = Duration::ZERO;
        for second in &all {
            assert_eq!(Duration::from_secs(u64::from(second.index)), end);
            end += second.length;
            assert_eq!(second.at, end);
        }
    }

    #[test]
    fn a_merged_second_has_the_exact_mean_and_no_smaller_a_quantile_than_both_together() {
        let (one, other): (Vec<u64>, Vec<u64>) = ((1..=100).collect(), (50..=350).collect());
        let mut merged = second(7, false, &one);
        merged.merge(&second(8, false, &other));
        let mut both = Times::default();
        one.iter().chain(&other).for_each(|ms| both.record(Duration::from_millis(*ms)));
        let (reported, truth) = (merged.response, both.quantiles());
        assert_eq!((reported.count, reported.min_ns, reported.max_ns), (truth.count, truth.min_ns, truth.max_ns));
        assert!(
            (reported.mean_ns / truth.mean_ns - 1.0).abs() < 1e-9
                && (reported.stdev_ns / truth.stdev_ns - 1.0).abs() < 1e-9
        );
        assert!(reported.p50_ns >= truth.p50_ns && reported.p99_ns >= truth.p99_ns);
        assert_eq!((merged.in_flight, merged.cpu, merged.heat), (8, 0.5, both.heat()));
        assert_eq!(merged.statuses, [(200, 2), (501, 1), (500, 1)]);
        assert_ne!(merged.heat, Heat::default());
    }
}
