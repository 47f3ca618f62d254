//! Statistical tests on the samples of two runs.
//!
//! Seconds of one run are not independent: slow seconds follow slow ones. So both tests reduce the number of samples by
//! their correlation; otherwise any two runs would differ "significantly".

use hdrhistogram::Histogram;

use crate::record::{Heat, Second};

/// Minimum number of seconds from which a run's variation can be estimated.
pub(super) const SECONDS_MIN: usize = 8;

/// Standard deviations to each side that hold 95 % of a normal distribution.
const Z95: f64 = 1.959_964;

/// Mean of samples with its standard error and the number of independent samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    pub(super) mean: f64,
    /// Square of the standard error.
    pub(super) error_squared: f64,
    pub(super) independent: f64,
}

/// Computes the mean of consecutive samples; `None` for fewer than [`SECONDS_MIN`].
pub(super) fn mean(samples: &[f64]) -> Option<Mean> {
    if samples.len() < SECONDS_MIN {
        return None;
    }
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let deviations: Vec<_> = samples.iter().map(|sample| sample - mean).collect();
    let independent = (count / inflation(&deviations)).max(2.0);
    Some(Mean { mean, error_squared: variance / independent, independent })
}

/// Returns the factor by which the correlation of neighbours raises the variance of a mean; 1 for none. Assumes a
/// first-order autoregression, (1 + r) / (1 - r); a negative r counts as 0, and r is at most 0.95.
fn inflation(deviations: &[f64]) -> f64 {
    let squares: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
    if squares <= 0.0 {
        return 1.0;
    }
    let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let r = (products / squares).clamp(0.0, 0.95);
    (1.0 + r) / (1.0 - r)
}

impl Mean {
    /// Returns half the width of the 95 % confidence interval.
    pub(super) fn half_width(&self) -> f64 {
        student(0.05, self.independent - 1.0) * self.error_squared.sqrt()
    }
}

/// Returns the p-value of Welch's t-test: the probability that two equal runs differ at least this much.
pub(super) fn welch(a: &Mean, b: &Mean) -> f64 {
    let apart = (a.mean - b.mean).abs();
    let error_squared = a.error_squared + b.error_squared;
    if error_squared <= 0.0 {
        return if apart > 0.0 { 0.0 } else { 1.0 };
    }
    let freedom = error_squared.powi(2)
        / (a.error_squared.powi(2) / (a.independent - 1.0) + b.error_squared.powi(2) / (b.independent - 1.0));
    two_sided(apart / error_squared.sqrt(), freedom)
}

/// Returns the share of Student's distribution beyond `t` on both sides.
fn two_sided(t: f64, freedom: f64) -> f64 {
    beta(freedom / (freedom + t * t), freedom / 2.0, 0.5).clamp(0.0, 1.0)
}

/// Returns the t of Student's distribution beyond which this share lies on both sides together, by bisection.
pub(crate) fn student(share: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1000.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) > share { low = middle } else { high = middle }
    }
    high
}

/// Computes the regularised incomplete beta function by its continued fraction (modified Lentz).
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly only on one side of the mean; the other side is its mirror.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let tiny = 1e-300;
    let safe = |value: f64| if value.abs() < tiny { tiny } else { value };
    let (mut c, mut d) = (1.0, 1.0 / safe(1.0 - (a + b) * x / (a + 1.0)));
    let mut sum = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / safe(1.0 + even * d);
        c = safe(1.0 + even / c);
        sum *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / safe(1.0 + odd * d);
        c = safe(1.0 + odd / c);
        sum *= d * c;
        if (d * c - 1.0).abs() < 1e-12 {
            break;
        }
    }
    (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a * sum
}

/// Computes the logarithm of the gamma function for arguments above 0: Stirling's series after raising the argument to 10.
fn ln_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let (inverse, square) = (1.0 / x, 1.0 / (x * x));
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    shift + (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

/// Returns the 95 % confidence interval of a percentile from ranks of the histogram (the binomial distribution of the number
/// of samples below it), with as many independent samples as `seconds` allow. The upper end is `None` if the samples do not
/// reach that far. Returns `None` for fewer than [`SECONDS_MIN`] seconds.
pub(super) fn percentile(histogram: &Histogram<u64>, seconds: &[&Second], share: f64) -> Option<(f64, Option<f64>)> {
    if seconds.len() < SECONDS_MIN || histogram.is_empty() {
        return None;
    }
    let independent = histogram.len() as f64 / clumping(seconds, histogram.value_at_quantile(share));
    let half = Z95 * (share * (1.0 - share) / independent).sqrt();
    let low = histogram.value_at_quantile((share - half).max(0.0)) as f64;
    let high = (share + half < 1.0).then(|| histogram.value_at_quantile(share + half) as f64);
    Some((low, high))
}

/// Returns the factor by which times above a value cluster in some seconds, compared with chance; at least 1. Uses the lower
/// bound of the heat column that holds the value.
fn clumping(seconds: &[&Second], value_ns: u64) -> f64 {
    let column = Heat::column(value_ns);
    let above = |row: &Second| -> f64 { row.heat.0[column..].iter().map(|count| *count as f64).sum() };
    let pairs: Vec<_> = seconds.iter().map(|row| (above(row), row.response.count as f64)).collect();
    let (x, n) = pairs.iter().fold((0.0, 0.0), |(x, n), pair| (x + pair.0, n + pair.1));
    if n <= 0.0 || x <= 0.0 || x >= n {
        return 1.0;
    }
    let share = x / n;
    let expected: f64 = pairs.iter().map(|(_, n)| n * share * (1.0 - share)).sum();
    let deviations: Vec<_> = pairs.iter().map(|(x, n)| x - n * share).collect();
    let seen: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
    ((seen / expected) * inflation(&deviations)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample::normal;
    use crate::request::Random;

    #[test]
    fn students_distribution_agrees_with_its_tables() {
        for (freedom, share, t) in
            [(1.0, 0.05, 12.706), (5.0, 0.05, 2.571), (10.0, 0.01, 3.169), (30.0, 0.05, 2.042), (1e6, 0.05, 1.960)]
        {
            assert!((student(share, freedom) - t).abs() < 0.001, "{freedom} {share}: {}", student(share, freedom));
            assert!((two_sided(t, freedom) - share).abs() < 1e-4, "{freedom} {t}");
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-10);
        assert!((ln_gamma(11.0) - 3_628_800_f64.ln()).abs() < 1e-10);
    }

    /// Samples around 1000, each correlated with the one before by `r`.
    fn series(draw: &mut Random, count: usize, r: f64) -> Vec<f64> {
        let mut last = normal(draw);
        (0..count)
            .map(|_| {
                last = r * last + (1.0 - r * r).sqrt() * normal(draw);
                1000.0 + 50.0 * last
            })
            .collect()
    }

    #[test]
    fn runs_that_are_alike_are_seldom_told_apart_even_when_their_seconds_hang_together() {
        for r in [0.0, 0.5, 0.8] {
            let mut draw = Random::new(5);
            let mut shown = 0;
            for _ in 0..500 {
                let (a, b) = (mean(&series(&mut draw, 60, r)).unwrap(), mean(&series(&mut draw, 60, r)).unwrap());
                shown += usize::from(welch(&a, &b) < 0.01);
            }
            assert!(shown <= 20, "{shown} of 500 at r = {r}");
        }
    }

    #[test]
    fn a_difference_of_five_per_cent_is_reported() {
        let mut draw = Random::new(5);
        let a = mean(&series(&mut draw, 60, 0.3)).unwrap();
        let slower: Vec<_> = series(&mut draw, 60, 0.3).into_iter().map(|sample| sample * 0.95).collect();
        assert!(welch(&a, &mean(&slower).unwrap()) < 0.01);
        assert!(mean(&slower[..7]).is_none());
        let constant = mean(&[3.0; 20]).unwrap();
        assert_eq!((welch(&constant, &constant), welch(&constant, &mean(&[4.0; 20]).unwrap())), (1.0, 0.0));
    }
}
