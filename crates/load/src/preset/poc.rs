//! The acceptance test of a proxy: four bursts of 3,000 new connections, five seconds apart, and a verdict.

use std::time::Duration;

use crate::channel::Cost;
use crate::engine::{Limit, Outcome};
use crate::flags::Flags;
use crate::plan::{Arrival, Plan};
use crate::record::Phase;
use crate::report::wrap::put;

/// Upper bound of the mean response time.
const MEAN_MAX: Duration = Duration::from_millis(6500);
/// Share of a core from which on the generator's busiest thread, and not the proxy, may be the bottleneck.
const BUSY_MAX: f64 = 0.85;

/// Returns the defaults of the preset. Every connection is new, with a full handshake.
pub(crate) fn flags() -> Flags {
    let mut flags = Flags::default();
    flags.arrival.burst = Some("3000".into());
    flags.arrival.every = Some("5s".into());
    flags.arrival.times = Some("4".into());
    flags.connection.no_reuse = true;
    flags.connection.timeout = Some("65s".into());
    flags.connection.connect_timeout = Some("60s".into());
    flags
}

/// Verdict of the acceptance test on a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Requirements, each with the measured value and whether it was met; `None` for a figure that is not judged.
    pub(crate) bars: Vec<(String, Option<bool>)>,
    /// Reason for judging nothing: the generator was the bottleneck, so that the figures say nothing about the proxy.
    pub(crate) unjudged: Option<String>,
}

/// Compares a run with the requirements. A run whose bottleneck was the generator is not judged.
pub(crate) fn verdict(outcome: &Outcome, watched: Option<&Cost>) -> Verdict {
    let sum = &outcome.totals.sum;
    let counts = sum.counts;
    let expected = requests(&outcome.plan);
    let busy = outcome.generator.cpu_busiest;
    let unjudged = match &outcome.limit {
        Limit::Generator(why) => Some(why.clone()),
        // Refused connections keep no thread busy for long, and their cause is the target.
        Limit::Unmeasured(_) => None,
        _ if busy >= BUSY_MAX => Some(format!("its busiest thread used {:.0} % of a core", busy * 100.0)),
        _ => None,
    };
    let mut bars = Vec::new();
    let mut bar = |text: String, met: bool| bars.push((text, unjudged.is_none().then_some(met)));
    let failed = counts.failed + counts.unfinished + counts.unsent;
    bar(format!("no error (there were {failed})"), failed == 0);
    bar(format!("{expected} requests, each answered ({})", counts.succeeded), counts.succeeded == expected);
    bar(format!("a new connection each ({})", counts.connections_opened), counts.connections_opened == expected);
    if outcome.plan.target.tls.is_some() {
        let full = counts.handshakes_full;
        bar(format!("a full TLS handshake each ({full})"), full == expected);
    }
    let mean_ms = sum.times(Phase::Response).quantiles().mean_ns / 1e6;
    let is_kept = mean_ms <= MEAN_MAX.as_secs_f64() * 1000.0 && counts.succeeded > 0;
    bar(format!("{mean_ms:.0} ms on average, at most {}", MEAN_MAX.as_millis()), is_kept);
    if let Some(cost) = watched {
        let per_request = cost.cpu_setup_ms / expected.max(1) as f64;
        let rss = cost.rss_max_bytes as f64 / f64::from(1 << 20);
        bars.push((format!("watched process: {rss:.0} MiB peak memory, {per_request:.3} ms CPU per request"), None));
    }
    Verdict { bars, unjudged }
}

fn requests(plan: &Plan) -> u64 {
    match &plan.arrival {
        Arrival::Bursts { burst, times, .. } => (burst * times) as u64,
        _ => 0,
    }
}

impl Verdict {
    /// Returns a line with the reason for not accepting the proxy; `None` if it is accepted.
    pub(crate) fn refusal(&self) -> Option<String> {
        if let Some(why) = &self.unjudged {
            return Some(format!("not judged, because the generator was the bottleneck: {why}"));
        }
        self.bars.iter().any(|(_, met)| *met == Some(false)).then(|| "not accepted".to_owned())
    }

    /// Formats the verdict for the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from("\n  verdict\n");
        for (bar, met) in &self.bars {
            let word = match met {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "-",
            };
            put(&mut text, &format!("    {word:<8}"), bar);
        }
        match (&self.unjudged, self.refusal()) {
            (Some(why), _) => put(
                &mut text,
                "  ",
                &format!(
                    "Not judged, because the generator was the bottleneck: {why}. Run it on a machine of its own, or \
                     with fewer connections (--burst)."
                ),
            ),
            (None, Some(_)) => text.push_str("  Not accepted.\n"),
            (None, None) => text.push_str("  Accepted.\n"),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EndReason, Generator, Limit};
    use crate::flags::{Extra, resolve};
    use crate::record::{Interval, Totals};

    fn outcome(mean: Duration, busy: f64, failed: u64) -> Outcome {
        let plan = resolve(Some("http://localhost/"), &flags(), Extra::default()).unwrap().plan;
        let mut sum = Interval::default();
        sum.counts.succeeded = 12_000 - failed;
        sum.counts.failed = failed;
        sum.counts.connections_opened = 12_000;
        sum.times[Phase::Response.index()].record(mean);
        Outcome {
            plan,
            started_ms: 0,
            elapsed: Duration::from_secs(30),
            totals: Totals { measured: Duration::from_secs(30), sum },
            seconds: Vec::new(),
            generator: Generator { cpu_busiest: busy, ..Generator::default() },
            limit: Limit::Target,
            warnings: Vec::new(),
            ended: EndReason::Done,
        }
    }

    #[test]
    fn the_published_bars_are_judged_unless_the_generator_was_the_limit() {
        let judged = |mean_ms, busy, failed, limit: Limit| {
            let outcome = Outcome { limit, ..outcome(Duration::from_millis(mean_ms), busy, failed) };
            verdict(&outcome, None)
        };
        assert_eq!(judged(5200, 0.5, 0, Limit::Offered).refusal(), None);
        assert!(judged(5200, 0.5, 0, Limit::Offered).text().ends_with("  Accepted.\n"));
        let refused = Limit::Unmeasured("the target refused every connection".to_owned());
        for slow in [(7000, 0.5, 0, Limit::Target), (5200, 0.5, 1, Limit::Offered), (5200, 0.9, 12_000, refused)] {
            let verdict = judged(slow.0, slow.1, slow.2, slow.3);
            assert_eq!(verdict.refusal().as_deref(), Some("not accepted"), "{verdict:?}");
        }
        let late = Limit::Generator("1 % of its timers were more than 80.0 ms late".to_owned());
        for (busy, limit, why) in [(0.9, Limit::Target, "used 90 % of a core"), (0.2, late, "80.0 ms late")] {
            for (mean_ms, failed) in [(7000, 0), (5200, 0), (5200, 3)] {
                let verdict = judged(mean_ms, busy, failed, limit.clone());
                assert!(verdict.bars.iter().all(|(_, met)| met.is_none()), "{verdict:?}");
                let refusal = verdict.refusal().unwrap();
                assert!(
                    refusal.starts_with("not judged, because the generator was the bottleneck: ")
                        && refusal.contains(why)
                );
                let text = verdict.text();
                assert!(text.contains("Not judged, because the generator was the bottleneck: "), "{text}");
                assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            }
        }
    }
}
