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

/// The verdict as text; and whether every bar that was judged was met, and the mean was judged.
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
    let accepted = bars.iter().all(|bar| bar.met != Some(false));
    text.push_str(if accepted { "  Accepted.\n" } else { "  Not accepted.\n" });
    (text, accepted)
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
fn cpu_ms(pid: u32) -> std::io::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let odd = || std::io::Error::other(format!("/proc/{pid}/stat is not as expected"));
    // The name in brackets may hold anything.
    let (_, fields) = stat.rsplit_once(')').ok_or_else(odd)?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || fields.next().and_then(|field| field.parse::<u64>().ok()).ok_or_else(odd);
    let ticks = next()? + next()?;
    Ok(ticks as f64 * 1000.0 / rustix::param::clock_ticks_per_second() as f64)
}

fn rss(pid: u32) -> std::io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.unwrap_or(0) * 1024)
}
