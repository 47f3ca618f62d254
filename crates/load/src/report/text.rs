//! Summary for a terminal, at most 80 columns wide, without colours and control characters.

use std::fmt::Write;

use super::document::{PhaseTimes, Report};
use super::escape::line;
use super::units::{bytes, count, counted, digits, in_unit, length, rate, share, short};
use super::words;
use super::wrap::{middle, put};

/// Maximum number of columns of a URL or a label.
const NAME_MAX: usize = 60;

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    let (label, url) = (middle(&report.label, NAME_MAX), middle(&report.asked.url, NAME_MAX));
    put(&mut out, "", &format!("{}: {}", line(&label), line(&words::headline_of(report, &url))));
    for (grave, notice) in words::notices(report) {
        put(&mut out, if grave { "!! " } else { " ! " }, &line(&notice));
    }
    out.push('\n');
    figures(&mut out, report);
    times(&mut out, report);
    faults(&mut out, report);
    if !report.thresholds.is_empty() {
        out.push_str("\n  thresholds\n");
        for checked in &report.thresholds {
            let word = if checked.passed { "met" } else { "MISSED" };
            let measured = checked.measured.map_or("no data".to_owned(), |value| in_unit(value, checked.unit));
            put(&mut out, &format!("    {word:<8}"), &format!("{:<24}{measured}", line(&checked.threshold)));
        }
    }
    out
}

fn figures(out: &mut String, report: &Report) {
    let (counts, rates, generator) = (&report.counts, &report.rates, &report.generator);
    let mut row = |name: &str, value: String| put(out, &format!("  {name:<14}"), &value);
    row(
        "requests",
        format!(
            "{} succeeded, {} failed ({}), {} unfinished, {} unsent",
            count(counts.succeeded),
            count(counts.failed),
            share(rates.failed_share),
            count(counts.unfinished),
            count(counts.unsent)
        ),
    );
    row("rate", format!("{} succeeded, {} due", rate(rates.succeeded_per_s), rate(rates.due_per_s)));
    let (sent, received) = (bytes(rates.sent_bytes_per_s), bytes(rates.received_bytes_per_s));
    row("bytes", format!("{sent}/s sent, {received}/s received"));
    let mut connections =
        format!("{} opened in {}", count(counts.connections_opened), counted(counts.connections_tried, "attempt"));
    if counts.reconnections > 0 {
        let _ = write!(connections, ", {} to replace one that the server closed", count(counts.reconnections));
    }
    if counts.handshakes_full + counts.handshakes_resumed > 0 {
        let (full, resumed) = (count(counts.handshakes_full), count(counts.handshakes_resumed));
        let _ = write!(connections, "; TLS handshakes: {full} full, {resumed} resumed");
    }
    if counts.sessions_agreed > 0 {
        let _ = write!(connections, "; {} agreed", counted(counts.sessions_agreed, "session"));
        let suites = counts.sessions_by_suite.words();
        if !suites.is_empty() {
            let _ = write!(connections, " ({suites})");
        }
    }
    if counts.keys_fetched + counts.repeats > 0 {
        let (times, repeats) = (counted(counts.keys_fetched, "time"), counted(counts.repeats, "request"));
        let _ = write!(connections, "; keys fetched {times}, {repeats} repeated");
    }
    row("connections", connections);
    let statuses: Vec<_> =
        report.statuses.iter().map(|seen| format!("{}: {}", seen.status, count(seen.count))).collect();
    row("statuses", if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") });
    row("bottleneck", line(&words::limit(&report.limit)));
    row(
        "generator",
        format!(
            "{} of {} cores, timer delay {} (p99) and {} (max), {} of memory",
            digits(generator.cpu),
            generator.cores,
            length(generator.lag_p99),
            length(generator.lag_max),
            bytes(generator.memory_bytes as f64)
        ),
    );
}

fn times(out: &mut String, report: &Report) {
    let _ = write!(out, "\n  {:<20}", "time");
    for name in ["mean", "p50", "p90", "p95", "p99", "p99.9", "max"] {
        let _ = write!(out, "{name:>8}");
    }
    out.push('\n');
    for PhaseTimes { phase, times } in &report.phases {
        let _ = write!(out, "  {:<20}", words::phase(*phase));
        if times.count == 0 {
            let _ = writeln!(out, "{:>8}", "none");
            continue;
        }
        let all = [times.p50_ns, times.p90_ns, times.p95_ns, times.p99_ns, times.p999_ns, times.max_ns];
        let _ = write!(out, "{:>8}", short(times.mean_ns));
        all.into_iter().for_each(|ns| _ = write!(out, "{:>8}", short(ns as f64)));
        out.push('\n');
    }
}

fn faults(out: &mut String, report: &Report) {
    if report.faults.is_empty() {
        return;
    }
    out.push_str("\n  failures\n");
    for failure in &report.faults {
        let (class, seen) = (words::class(failure.class), count(failure.count));
        let _ = writeln!(out, "    {class:<25}{seen:>12}  {:>10}", share(failure.share));
        if !failure.example.is_empty() {
            put(out, "      first: ", &line(&failure.example));
        }
    }
}
