//! Markdown for a pull request: the verdict, the warnings, and the main figures.

use std::fmt::Write;

use super::document::{PhaseTimes, Report};
use super::escape::markdown as code;
use super::units::{bytes, count, digits, in_unit, length, rate, share, time};
use super::words;

pub(super) fn render(report: &Report) -> String {
    let mut out = format!("## Load test {}: {}\n\n", code(&report.label), words::verdict(report));
    for (grave, notice) in words::notices(report) {
        // The sentence may contain untrusted text.
        let _ = writeln!(out, "> **{}:** {}\n", if grave { "Unreliable" } else { "Note" }, code(&notice));
    }
    let _ = writeln!(out, "{}\n", code(&words::headline(report)));
    thresholds(&mut out, report);
    headline_figures(&mut out, report);
    out.push_str("\n| time | count | mean | p50 | p90 | p95 | p99 | p99.9 | max |\n| --- |");
    out.push_str(&" ---: |".repeat(8));
    out.push('\n');
    for PhaseTimes { phase, times } in report.phases.iter().filter(|one| one.times.count > 0) {
        let all = [times.p50_ns, times.p90_ns, times.p95_ns, times.p99_ns, times.p999_ns, times.max_ns];
        let all: Vec<_> = all.into_iter().map(|ns| time(ns as f64)).collect();
        let (name, seen) = (words::phase(*phase), count(times.count));
        let _ = writeln!(out, "| {name} | {seen} | {} | {} |", time(times.mean_ns), all.join(" | "));
    }
    if !report.faults.is_empty() {
        out.push_str("\n| failure | count | share | first example |\n| --- | ---: | ---: | --- |\n");
        for failure in &report.faults {
            let (class, seen) = (words::class(failure.class), count(failure.count));
            let _ = writeln!(out, "| {class} | {seen} | {} | {} |", cell_share(failure.share), code(&failure.example));
        }
    }
    machine(&mut out, report);
    out
}

fn thresholds(out: &mut String, report: &Report) {
    if report.thresholds.is_empty() {
        return;
    }
    out.push_str("| threshold | measured | |\n| --- | ---: | --- |\n");
    for checked in &report.thresholds {
        let measured =
            checked.measured.map_or("no data".to_owned(), |value| in_unit(value, checked.unit).replace('<', "\\<"));
        let word = if checked.passed { "met" } else { "**missed**" };
        let _ = writeln!(out, "| {} | {measured} | {word} |", code(&checked.threshold));
    }
    out.push('\n');
}

fn headline_figures(out: &mut String, report: &Report) {
    let (counts, rates) = (&report.counts, &report.rates);
    out.push_str("| figure | |\n| --- | ---: |\n");
    let statuses: Vec<_> =
        report.statuses.iter().map(|seen| format!("{}: {}", seen.status, count(seen.count))).collect();
    for (name, value) in [
        ("succeeded", format!("{} ({})", count(counts.succeeded), rate(rates.succeeded_per_s))),
        ("failed", format!("{} ({})", count(counts.failed), cell_share(rates.failed_share))),
        ("unfinished, unsent", format!("{}, {}", count(counts.unfinished), count(counts.unsent))),
        ("statuses", statuses.join(", ")),
        (
            "connections, opened and attempted",
            format!("{}, {}", count(counts.connections_opened), count(counts.connections_tried)),
        ),
        (
            "TLS handshakes, full and resumed",
            format!("{}, {}", count(counts.handshakes_full), count(counts.handshakes_resumed)),
        ),
        ("received", format!("{}/s", bytes(rates.received_bytes_per_s))),
        ("bottleneck", code(&words::limit(&report.limit))),
    ] {
        let _ = writeln!(out, "| {name} | {value} |");
    }
}

fn machine(out: &mut String, report: &Report) {
    let (machine, generator) = (&report.machine, &report.generator);
    let _ = writeln!(
        out,
        "\nMeasured at {} by sealway {} on {} cores ({}). The generator used {} cores; its timer delay was {} (p99).",
        report.started_at,
        machine.sealway,
        machine.cores,
        code(&machine.processor),
        digits(generator.cpu),
        length(generator.lag_p99)
    );
}

/// Formats a share for a table cell; a bare `<` would begin HTML.
fn cell_share(value: f64) -> String {
    share(value).replace('<', "\\<")
}
