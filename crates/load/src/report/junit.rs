//! JUnit XML for build servers: each threshold is a test case, and so is the run itself. Classes of failures are listed with
//! their first example.

use std::fmt::Write;

use super::document::Report;
use super::escape::markup;
use super::units::{count, in_unit, share};
use super::words;
use crate::engine::EndReason;
use crate::thresholds::Check;

pub(super) fn render(report: &Report) -> String {
    let failures = report.missed().count();
    let error = error(report);
    let (tests, errors) = (report.thresholds.len() + 1, usize::from(error.is_some()));
    let totals = format!(r#"tests="{tests}" failures="{failures}" errors="{errors}" time="{:.3}""#, report.elapsed_s);
    let label = markup(&report.label);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, r#"<testsuites name="sealway load" {totals}>"#);
    let stamp = report.started_at.trim_end_matches('Z').split('.').next().unwrap_or_default();
    let _ = writeln!(out, r#"  <testsuite name="{label}" {totals} skipped="0" timestamp="{stamp}">"#);
    out.push_str("    <properties>\n");
    for (name, value) in properties(report) {
        let _ = writeln!(out, r#"      <property name="{name}" value="{}"/>"#, markup(&value));
    }
    out.push_str("    </properties>\n");
    match error {
        None => case(&mut out, &label, "the run is valid", report.elapsed_s, None),
        Some(why) => {
            let inner = format!(r#"<error type="run" message="{0}">{0}</error>"#, markup(&why));
            case(&mut out, &label, "the run is valid", report.elapsed_s, Some(&inner));
        }
    }
    for checked in &report.thresholds {
        let inner = (!checked.passed)
            .then(|| format!(r#"<failure type="threshold" message="{0}">{0}</failure>"#, markup(&missed(checked))));
        case(&mut out, &label, &checked.threshold, 0.0, inner.as_deref());
    }
    let _ = writeln!(out, "    <system-out>{}</system-out>", markup(&words::headline(report)));
    if !report.faults.is_empty() {
        out.push_str("    <system-err>");
        for failure in &report.faults {
            let (class, example) = (failure.class.name(), markup(&failure.example));
            let _ = writeln!(
                out,
                "{class}: {} ({}), first: {example}",
                count(failure.count),
                markup(&share(failure.share))
            );
        }
        out.push_str("</system-err>\n");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn case(out: &mut String, label: &str, name: &str, seconds: f64, inner: Option<&str>) {
    let head = format!(r#"    <testcase classname="{label}" name="{}" time="{seconds:.3}""#, markup(name));
    let _ = match inner {
        Some(inner) => writeln!(out, "{head}>{inner}</testcase>"),
        None => writeln!(out, "{head}/>"),
    };
}

/// Returns the reason if the run's figures are meaningless.
fn error(report: &Report) -> Option<String> {
    if let EndReason::Failed(why) = &report.ended {
        return Some(format!("the run was aborted: {why}"));
    }
    report.is_generator_limited().then(|| words::limit(&report.limit))
}

fn missed(checked: &Check) -> String {
    match checked.measured {
        Some(measured) => format!("{} was missed: {}", checked.threshold, in_unit(measured, checked.unit)),
        None => format!("{} was missed: there is no data for it", checked.threshold),
    }
}

fn properties(report: &Report) -> Vec<(&'static str, String)> {
    let mut properties = vec![
        ("succeeded", report.counts.succeeded.to_string()),
        ("failed", report.counts.failed.to_string()),
        ("unfinished", report.counts.unfinished.to_string()),
        ("unsent", report.counts.unsent.to_string()),
        ("succeeded_per_s", format!("{:.3}", report.rates.succeeded_per_s)),
        ("limit", words::limit(&report.limit)),
    ];
    if let Some(times) = report.phase(crate::record::Phase::Response).filter(|times| times.count > 0) {
        properties.push(("response_p50_ns", times.p50_ns.to_string()));
        properties.push(("response_p95_ns", times.p95_ns.to_string()));
        properties.push(("response_p99_ns", times.p99_ns.to_string()));
    }
    properties
}
