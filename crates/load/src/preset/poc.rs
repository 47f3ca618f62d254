//! The acceptance test of a proxy: four bursts of 3,000 new connections, five seconds apart, and a verdict.

use std::time::Duration;

use crate::engine::{Limit, Outcome};
use crate::flags::Flags;
use crate::plan::{Arrival, Plan};
use crate::record::Phase;
use crate::report::wrap::put;

/// The mean time of a request, at most.
const MEAN_MAX: Duration = Duration::from_millis(6500);
/// Above this share of a core of its busiest thread the generator, and not the proxy, may be what is measured.
const BUSY_MAX: f64 = 0.85;

/// What holds where flags do not say otherwise. Every connection is new, and its handshake a full one.
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

/// The verdict on a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What was asked and what was measured, and whether it was met; none for what is not judged.
    pub(crate) bars: Vec<(String, Option<bool>)>,
    /// Why nothing is judged: the generator was the limit, and the figures say nothing of the proxy.
    pub(crate) unjudged: Option<String>,
}

/// Holds a run against the bars. A run whose limit was the generator is not judged.
pub(crate) fn verdict(outcome: &Outcome, watched: Option<&Usage>) -> Verdict {
    let sum = &outcome.totals.sum;
    let counts = sum.counts;
    let expected = requests(&outcome.plan);
    let busy = outcome.generator.cpu_busiest;
    let unjudged = match &outcome.limit {
        Limit::Generator(why) => Some(why.clone()),
        // Refused connections keep no thread busy for long, and are the target's.
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
    if let Some(usage) = watched {
        let per_request = usage.cpu_ms / expected.max(1) as f64;
        let rss = usage.rss_max as f64 / f64::from(1 << 20);
        bars.push((
            format!("the watched process: {rss:.0} MiB at its peak, {per_request:.3} ms of processor a request"),
            None,
        ));
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
    /// Why the proxy is not accepted, in a line; none where it is.
    pub(crate) fn refusal(&self) -> Option<String> {
        if let Some(why) = &self.unjudged {
            return Some(format!("not judged: the generator was the limit: {why}"));
        }
        self.bars.iter().any(|(_, met)| *met == Some(false)).then(|| "not accepted".to_owned())
    }

    /// As text.
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
                    "Not judged: the generator was the limit: {why}. Run it where it has cores of its own, or with fewer \
                     connections (--burst)."
                ),
            ),
            (None, Some(_)) => text.push_str("  Not accepted.\n"),
            (None, None) => text.push_str("  Accepted.\n"),
        }
        text
    }
}

/// What a process used while it was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Processor time, in milliseconds.
    pub(crate) cpu_ms: f64,
    /// Resident memory at its peak, in bytes.
    pub(crate) rss_max: u64,
}

/// Watches a process of this machine.
#[derive(Debug)]
pub(crate) struct Watch {
    pid: u32,
    start_ms: f64,
    usage: Usage,
}

impl Watch {
    /// From now on.
    ///
    /// # Errors
    /// When there is no such process, or it cannot be looked at.
    pub(crate) fn start(pid: u32) -> std::io::Result<Self> {
        let start_ms = cpu_ms(pid)?;
        let usage = Usage { cpu_ms: 0.0, rss_max: rss(pid)? };
        Ok(Watch { pid, start_ms, usage })
    }

    /// Looks again. Of a process that has ended what was seen last stays.
    pub(crate) fn look(&mut self) {
        if let Ok(now) = cpu_ms(self.pid) {
            self.usage.cpu_ms = now - self.start_ms;
        }
        if let Ok(bytes) = rss(self.pid) {
            self.usage.rss_max = self.usage.rss_max.max(bytes);
        }
    }

    /// What was seen.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }
}

/// Processor time of a process, its threads that have ended too, in milliseconds.
pub(crate) fn cpu_ms(pid: u32) -> std::io::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let odd = || std::io::Error::other(format!("/proc/{pid}/stat is not as expected"));
    // The name in brackets may hold anything.
    let (_, fields) = stat.rsplit_once(')').ok_or_else(odd)?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || fields.next().and_then(|field| field.parse::<u64>().ok()).ok_or_else(odd);
    let ticks = next()? + next()?;
    Ok(ticks as f64 * 1000.0 / rustix::param::clock_ticks_per_second() as f64)
}

pub(crate) fn rss(pid: u32) -> std::io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.unwrap_or(0) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Ended, Generator, Limit};
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
            ended: Ended::Done,
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
                assert!(refusal.starts_with("not judged: the generator was the limit: ") && refusal.contains(why));
                let text = verdict.text();
                assert!(text.contains("Not judged: the generator was the limit: "), "{text}");
                assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            }
        }
    }

    #[test]
    fn this_process_can_be_watched_and_one_that_is_not_there_cannot() {
        let mut watch = Watch::start(std::process::id()).unwrap();
        watch.look();
        assert!(watch.usage().rss_max > 1 << 20);
        assert!(Watch::start(u32::MAX - 1).is_err());
    }
}
