//! The acceptance test of a proxy: four bursts of 3,000 new connections, five seconds apart, and a verdict.

use std::time::Duration;

use crate::engine::Outcome;
use crate::flags::Flags;
use crate::plan::{Arrival, Plan};
use crate::record::Phase;

/// The mean time of a request, at most.
const MEAN_MAX: Duration = Duration::from_millis(6500);
/// Above this share of a core of its busiest thread the client, and not the proxy, may be what is measured.
const BUSY_MAX: f64 = 0.85;

/// What holds where flags do not say otherwise. Every connection is new, and its handshake a full one.
pub fn flags() -> Flags {
    let mut flags = Flags::default();
    flags.arrival.burst = Some("3000".into());
    flags.arrival.every = Some("5s".into());
    flags.arrival.times = Some("4".into());
    flags.connection.no_reuse = true;
    flags.connection.timeout = Some("65s".into());
    flags.connection.connect_timeout = Some("60s".into());
    flags
}

/// One bar of the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// What was asked and what was measured.
    pub text: String,
    /// Whether it was met; none where it cannot be judged.
    pub met: Option<bool>,
}

/// Holds a run against the bars.
pub fn verdict(outcome: &Outcome, watched: Option<&Usage>) -> Vec<Bar> {
    let sum = &outcome.totals.sum;
    let counts = sum.counts;
    let expected = requests(&outcome.plan);
    let mut bars = Vec::new();
    let mut bar = |text: String, met| bars.push(Bar { text, met });
    let failed = counts.failed + counts.unfinished + counts.unsent;
    bar(format!("no error (there were {failed})"), Some(failed == 0));
    bar(format!("{expected} requests, each answered ({})", counts.succeeded), Some(counts.succeeded == expected));
    bar(format!("a new connection each ({})", counts.connections_opened), Some(counts.connections_opened == expected));
    if outcome.plan.target.tls.is_some() {
        let full = counts.handshakes_full;
        bar(format!("a full TLS handshake each ({full})"), Some(full == expected));
    }
    let mean_ms = sum.times(Phase::Response).quantiles().mean_ns / 1e6;
    let busy = outcome.generator.cpu_busiest;
    let is_kept = mean_ms <= MEAN_MAX.as_secs_f64() * 1000.0 && counts.succeeded > 0;
    let text = format!("{mean_ms:.0} ms on average, at most {}", MEAN_MAX.as_millis());
    if !is_kept && busy >= BUSY_MAX {
        let why =
            format!("{text}: not judged, client-limited (its busiest thread took {:.0} % of a core)", busy * 100.0);
        bar(why, None);
    } else {
        bar(text, Some(is_kept));
    }
    if let Some(usage) = watched {
        let per_request = usage.cpu_ms / expected.max(1) as f64;
        let rss = usage.rss_max as f64 / f64::from(1 << 20);
        bar(format!("the watched process: {rss:.0} MiB at its peak, {per_request:.3} ms of processor a request"), None);
    }
    bars
}

fn requests(plan: &Plan) -> u64 {
    match &plan.arrival {
        Arrival::Bursts { burst, times, .. } => (burst * times) as u64,
        _ => 0,
    }
}

/// The verdict as text; and whether the proxy is accepted: no bar was missed, and none that is judged was left open.
pub fn render(bars: &[Bar]) -> (String, bool) {
    let mut text = String::from("\n  verdict\n");
    for bar in bars {
        let word = match bar.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "-",
        };
        text.push_str(&format!("    {word:<8}{}\n", bar.text));
    }
    let is_missed = bars.iter().any(|bar| bar.met == Some(false));
    let is_unjudged = bars.iter().any(|bar| bar.met.is_none() && bar.text.contains("not judged"));
    text.push_str(match (is_missed, is_unjudged) {
        (true, _) => "  Not accepted.\n",
        (false, true) => {
            "  Not accepted: no bar was missed, and one could not be judged. Give the client more of a machine.\n"
        }
        (false, false) => "  Accepted.\n",
    });
    (text, !is_missed && !is_unjudged)
}

/// What a process used while it was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time, in milliseconds.
    pub cpu_ms: f64,
    /// Resident memory at its peak, in bytes.
    pub rss_max: u64,
}

/// Watches a process of this machine.
#[derive(Debug)]
pub struct Watch {
    pid: u32,
    start_ms: f64,
    usage: Usage,
}

impl Watch {
    /// From now on.
    ///
    /// # Errors
    /// When there is no such process, or it cannot be looked at.
    pub fn start(pid: u32) -> std::io::Result<Self> {
        let start_ms = cpu_ms(pid)?;
        let usage = Usage { cpu_ms: 0.0, rss_max: rss(pid)? };
        Ok(Watch { pid, start_ms, usage })
    }

    /// Looks again. Of a process that has ended what was seen last stays.
    pub fn look(&mut self) {
        if let Ok(now) = cpu_ms(self.pid) {
            self.usage.cpu_ms = now - self.start_ms;
        }
        if let Ok(bytes) = rss(self.pid) {
            self.usage.rss_max = self.usage.rss_max.max(bytes);
        }
    }

    /// What was seen.
    pub fn usage(&self) -> Usage {
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
    fn the_published_bars_are_judged_and_a_busy_client_is_not_taken_for_a_slow_proxy() {
        let judged = |mean_ms, busy, failed| {
            let bars = verdict(&outcome(Duration::from_millis(mean_ms), busy, failed), None);
            (render(&bars).1, bars)
        };
        assert!(judged(5200, 0.5, 0).0);
        assert!(!judged(7000, 0.5, 0).0);
        assert!(!judged(5200, 0.5, 1).0);
        let (accepted, bars) = judged(7000, 0.9, 0);
        let mean = bars.iter().find(|bar| bar.text.contains("on average")).unwrap();
        assert!(!accepted && mean.met.is_none() && mean.text.contains("client-limited"), "{mean:?}");
    }

    #[test]
    fn this_process_can_be_watched_and_one_that_is_not_there_cannot() {
        let mut watch = Watch::start(std::process::id()).unwrap();
        watch.look();
        assert!(watch.usage().rss_max > 1 << 20);
        assert!(Watch::start(u32::MAX - 1).is_err());
    }
}
