//! Formats the documents of channels for people: stages, failures, and costs of processes.

use std::fmt::Write;

use super::document::{ChannelReport, SweepReport};
use crate::report::escape::line;
use crate::report::units::{bytes, count, rate, short, time};
use crate::report::wrap::put;

impl ChannelReport {
    /// Formats what the engine's report does not have: times and failures by stage, and the cost of the relay's process.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut row = |name: &str, value: String| put(&mut out, &format!("  {name:<14}"), &value);
        let (config, summary) = (&self.config, &self.summary);
        row(
            "channels",
            format!(
                "{} of {} succeeded, {} failed; {} open at the end, {} at the peak",
                count(summary.succeeded),
                count(summary.asked),
                count(summary.failed),
                count(summary.active_at_end),
                count(summary.active_peak)
            ),
        );
        row(
            "set-up",
            format!(
                "{}, mean {}, best second {}/s",
                time(summary.setup_s * 1e9),
                rate(summary.conn_per_sec),
                count(summary.peak_conn_per_sec)
            ),
        );
        let sent = match config.ping_every_ms {
            Some(ms) => format!("only a ping every {} in each direction", time(ms as f64 * 1e6)),
            None => "no traffic".to_owned(),
        };
        row("steady", format!("{}; {sent}", time(summary.steady_s * 1e9)));
        row("suite", format!("{} ({})", config.suite_name, config.profile));
        self.processes(&mut out);
        self.stages(&mut out);
        self.failed(&mut out);
        for note in &self.summary.notes {
            put(&mut out, " ! ", &line(note));
        }
        out
    }

    fn processes(&self, out: &mut String) {
        let resources = &self.resources;
        let all = [
            ("relay", resources.relay, resources.relay_rss_per_channel_bytes),
            ("generator", Some(resources.generator), None),
        ];
        for (name, cost, per_channel) in all {
            let Some(cost) = cost else { continue };
            let each = per_channel.map_or(String::new(), |each| format!(" ({} per channel)", bytes(each)));
            let idle = cost.rss_steady_bytes.map_or("not measured".to_owned(), |rss| bytes(rss as f64));
            let value = format!(
                "memory {} before, {idle} idle{each}, {} peak; CPU {} in set-up, {} idle; {} threads, {} descriptors",
                bytes(cost.rss_before_bytes as f64),
                bytes(cost.rss_max_bytes as f64),
                time(cost.cpu_setup_ms * 1e6),
                time(cost.cpu_steady_ms * 1e6),
                count(cost.threads_max),
                count(cost.descriptors_max)
            );
            put(out, &format!("  {name:<14}"), &value);
        }
    }

    fn stages(&self, out: &mut String) {
        let _ = write!(out, "\n  {:<16}{:>9}", "stage", "count");
        ["mean", "p50", "p90", "p95", "p99", "max"].iter().for_each(|name| _ = write!(out, "{name:>8}"));
        out.push('\n');
        for name in super::TimedStage::ALL.map(super::TimedStage::name) {
            let Some(times) = self.latency.stages.get(name).filter(|times| times.count > 0) else { continue };
            let _ = write!(out, "  {name:<16}{:>9}", count(times.count));
            for ms in [times.mean, times.p50, times.p90, times.p95, times.p99, times.max] {
                let _ = write!(out, "{:>8}", ms.map_or("none".to_owned(), |ms| short(ms * 1e6)));
            }
            out.push('\n');
        }
        out.push_str("  (channels that succeeded; handshake includes pair_ready)\n");
    }

    fn failed(&self, out: &mut String) {
        if self.summary.failed > 0 {
            out.push_str("\n  failures by stage\n");
        }
        for name in super::FailureStage::ALL.map(super::FailureStage::name) {
            let Some(failed) = self.failures.get(name).filter(|failed| failed.count > 0) else { continue };
            let codes: Vec<_> = failed.codes.iter().map(|(code, n)| format!("{} {}", line(code), count(*n))).collect();
            put(out, &format!("    {name:<16}{:>9}  ", count(failed.count)), &codes.join(", "));
            put(out, "      first: ", &line(failed.first.as_deref().unwrap_or_default()));
        }
        for limit in &self.summary.limits {
            put(out, "  limit         ", &line(limit));
        }
    }
}

impl SweepReport {
    /// Formats a table with a line for each size, then the sizes that failed or did not fit.
    pub(crate) fn text(&self) -> String {
        let mut out = format!(
            "\n  {:>8}{:>9}{:>9}{:>8}{:>8}{:>12}{:>9}{:>14}\n",
            "channels", "rate", "ramp", "open", "failed", "conn/s peak", "p99 call", "relay/channel"
        );
        for point in &self.points {
            let (config, summary) = (&point.config, &point.summary);
            let call =
                ["rpc_call", "handshake", "pair_ready"].iter().find_map(|name| point.latency.stages.get(name)?.p99);
            let each = point.resources.relay_rss_per_channel_bytes;
            let _ = writeln!(
                out,
                "  {:>8}{:>9}{:>9}{:>8}{:>8}{:>12}{:>9}{:>14}",
                count(config.channels),
                rate(config.rate_per_s),
                rate(config.ramp_step_per_s),
                count(summary.active_at_end),
                count(summary.failed),
                count(summary.peak_conn_per_sec),
                call.map_or("none".to_owned(), |ms| short(ms * 1e6)),
                each.map_or("none".to_owned(), bytes)
            );
        }
        for stopped in &self.stopped {
            let word = if stopped.is_refused { "did not fit" } else { "stopped at" };
            put(&mut out, "  ", &format!("{word} {}: {}", stopped.size, line(&stopped.limits.join("; "))));
        }
        out
    }
}
