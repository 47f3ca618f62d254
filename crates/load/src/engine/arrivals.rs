//! Schedule of an open loop: the times at which requests are due.
//!
//! The number of arrivals until a time is the integral of the rate until then, rounded. With even spacing, a request is due
//! when this integral reaches 0.5, 1.5 and so on; the shards take these arrivals in turn, so that all shards together are
//! even. (At whole numbers, rounding would decide whether a request at the run's end counts.) As a Poisson process, the
//! integral between two arrivals is exponentially distributed; each shard draws its own, and the sum of independent Poisson
//! processes is a Poisson process.

use std::time::Duration;

use crate::plan::{Spacing, Stage, Steps};
use crate::request::Random;

/// Arrivals of one shard.
#[derive(Debug)]
pub(super) struct Arrivals {
    steps: Steps,
    spacing: Spacing,
    random: Random,
    shard: f64,
    shards: f64,
    /// Index of the current stage; after the last stage its value stays.
    stage: usize,
    /// Value of the previous stage.
    from: f64,
    /// Start of the stage, in seconds since the run's start.
    began: f64,
    /// Position in the stage, in seconds.
    within: f64,
    /// True if the next arrival is the first, or the first after a pause.
    is_first: bool,
}

impl Arrivals {
    /// Creates the arrivals of shard number `shard` of `shards`.
    pub(super) fn new(steps: Steps, spacing: Spacing, seed: u64, (shard, shards): (usize, usize)) -> Self {
        Arrivals {
            steps,
            spacing,
            random: Random::stream(seed),
            shard: shard as f64,
            shards: shards.max(1) as f64,
            stage: 0,
            from: 0.0,
            began: 0.0,
            within: 0.0,
            is_first: true,
        }
    }

    /// Returns the next due time since the run's start, with the planned rate times `scale`; `None` if no request is due any
    /// more.
    pub(super) fn next(&mut self, scale: f64) -> Option<Duration> {
        let mut area = match self.spacing {
            Spacing::Even if self.is_first => self.shard + 0.5,
            Spacing::Even => self.shards,
            // 1 - share is above 0, so the logarithm is finite.
            Spacing::Poisson => -(1.0 - self.random.share()).ln() * self.shards,
        };
        self.is_first = false;
        area /= scale;
        loop {
            let Some(stage) = self.stage() else {
                // The last stage's value stays until the run ends.
                let rate = self.steps.0.last().map_or(0.0, |last| last.value);
                if rate <= 0.0 {
                    return None;
                }
                self.within += area / rate;
                return self.time();
            };
            let length = stage.length.as_secs_f64();
            let left = (length - self.within).max(0.0);
            let slope = if stage.ramp { (stage.value - self.from) / length } else { 0.0 };
            let rate = if stage.ramp { self.from + slope * self.within } else { stage.value };
            let whole = (rate + slope * left / 2.0) * left;
            if area < whole {
                // Positive solution of rate·x + slope·x²/2 = area, in the form that loses no digits.
                let root = (rate * rate + 2.0 * slope * area).max(0.0).sqrt();
                if rate + root > 0.0 {
                    self.within += 2.0 * area / (rate + root);
                }
                return self.time();
            }
            area -= whole;
            (self.from, self.began, self.within) = (stage.value, self.began + length, 0.0);
            self.stage += 1;
        }
    }

    /// Drops the arrivals before this time.
    pub(super) fn skip_to(&mut self, time: Duration) {
        let time = time.as_secs_f64();
        while let Some(stage) = self.stage() {
            let length = stage.length.as_secs_f64();
            if self.began + length > time {
                break;
            }
            (self.from, self.began) = (stage.value, self.began + length);
            self.stage += 1;
        }
        self.within = (time - self.began).max(0.0);
        self.is_first = true;
    }

    /// Returns the current stage; `None` once the last stage's value stays.
    fn stage(&self) -> Option<Stage> {
        let is_last = self.stage + 1 >= self.steps.0.len();
        self.steps.0.get(self.stage).copied().filter(|stage| !(is_last && stage.length.is_zero()))
    }

    fn time(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.began + self.within).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(value: f64, seconds: u64, ramp: bool) -> Stage {
        Stage { value, length: Duration::from_secs(seconds), ramp }
    }

    /// Arrivals of all shards before this time, in order.
    fn all(steps: &Steps, spacing: Spacing, shards: usize, until: Duration) -> Vec<Duration> {
        let mut due = Vec::new();
        for shard in 0..shards {
            let mut arrivals = Arrivals::new(steps.clone(), spacing, shard as u64, (shard, shards));
            due.extend(std::iter::from_fn(|| arrivals.next(1.0)).take_while(|at| *at < until));
        }
        due.sort();
        due
    }

    #[test]
    fn as_many_are_due_as_the_area_under_ramps_and_steps_is() {
        let steps =
            Steps(vec![stage(100.0, 10, true), stage(40.0, 5, false), stage(200.0, 10, true), stage(0.0, 0, false)]);
        let end = Duration::from_secs(60);
        for shards in [1, 3] {
            assert_eq!(all(&steps, Spacing::Even, shards, end).len(), 500 + 200 + 1200, "{shards}");
            assert_eq!(all(&steps, Spacing::Even, shards, Duration::from_secs(5)).len(), 125);
        }
        let poisson = all(&steps, Spacing::Poisson, 3, end).len();
        // Five standard deviations of a Poisson count.
        assert!((poisson as f64 - 1900.0).abs() < 5.0 * 1900f64.sqrt(), "{poisson}");
    }

    #[test]
    fn even_arrivals_of_several_shards_are_even_together() {
        let due = all(&Steps::constant(1000.0), Spacing::Even, 4, Duration::from_secs(2));
        assert_eq!(due.len(), 2000);
        for (number, at) in due.iter().enumerate() {
            assert!((at.as_secs_f64() - (number as f64 + 0.5) / 1000.0).abs() < 1e-7, "{number}: {at:?}");
        }
    }

    #[test]
    fn a_poisson_process_has_gaps_as_spread_as_they_are_long_and_is_the_same_for_the_same_seed() {
        let due = all(&Steps::constant(5000.0), Spacing::Poisson, 2, Duration::from_secs(20));
        let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean * 5000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((deviation / mean - 1.0).abs() < 0.03, "{deviation} {mean}");
        assert_eq!(due, all(&Steps::constant(5000.0), Spacing::Poisson, 2, Duration::from_secs(20)));
    }

    #[test]
    fn a_scale_multiplies_the_rate_and_what_was_due_in_a_pause_is_not_made_up_for() {
        let mut arrivals = Arrivals::new(Steps::constant(10.0), Spacing::Even, 0, (0, 1));
        let mut next = |scale| arrivals.next(scale).unwrap().as_millis();
        assert_eq!((next(1.0), next(1.0), next(2.0), next(2.0)), (50, 150, 200, 250));
        arrivals.skip_to(Duration::from_secs(60));
        let next = [(); 2].map(|()| arrivals.next(1.0).unwrap().as_millis());
        assert_eq!(next, [60_050, 60_150]);
    }

    #[test]
    fn a_rate_of_nothing_ends_the_arrivals() {
        assert_eq!(Arrivals::new(Steps::constant(0.0), Spacing::Even, 0, (0, 1)).next(1.0), None);
    }
}
