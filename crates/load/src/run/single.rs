//! Runs a single plan: displays and judges it, prints a summary, and writes reports.

use std::time::Duration;

use super::{JobError, print, say, view};
use crate::engine::{EndReason, Limit, Outcome};
use crate::flags::{Job, Output, Verdict};
use crate::record::Class;
use crate::report::{Document, Format, Machine, Report, write};

/// Runs a job to its end and reports it.
pub(super) async fn run(job: Job) -> Result<(), JobError> {
    let Job { plan, verdict, output } = job;
    let (mut driver, views) = view::start(&output)?;
    let ran = driver.run(plan, Duration::ZERO).await;
    views.end(driver).await;
    let (outcome, _) = ran.map_err(JobError::failed)?;
    let report = Report::new(&outcome, &verdict.thresholds, Machine::here());
    let mut reasons = judge(&outcome, &verdict);
    reasons.extend(report.missed().map(|missed| format!("missed: {}", missed.threshold)));
    write_reports(&report, &output, &mut reasons);
    ended(&reasons)
}

/// Ends a job: prints the reasons for its failure, a line each. Without a reason the job has passed.
pub(super) fn ended(reasons: &[String]) -> Result<(), JobError> {
    for reason in reasons {
        say(format_args!("sealway load: {reason}"));
    }
    if reasons.is_empty() { Ok(()) } else { Err(JobError::Failed(None)) }
}

/// Prints the summary, unless standard output is in use, and writes all reports. A report that cannot be written adds a reason
/// and does not stop the others.
pub(super) fn write_reports(document: &impl Document, output: &Output, reasons: &mut Vec<String>) {
    if !output.takes_stdout() {
        match document.render(Format::Text) {
            Ok(text) => print(&text),
            Err(err) => reasons.push(err.to_string()),
        }
    }
    for (file, format) in &output.out {
        if let Err(err) = write(file, document, *format) {
            reasons.push(err.to_string());
        }
    }
}

/// Prints text on standard output, or on standard error if reports or JSON lines take standard output.
pub(super) fn print_beside(output: &Output, text: &str) {
    if output.takes_stdout() { say(text.trim_end()) } else { print(text) }
}

/// Returns the reasons why the run failed, a sentence each; thresholds are judged elsewhere.
fn judge(outcome: &Outcome, verdict: &Verdict) -> Vec<String> {
    let mut reasons = Vec::new();
    if let EndReason::Failed(reason) = &outcome.ended {
        reasons.push(reason.clone());
    }
    let sum = &outcome.totals.sum;
    let of = |class: Class| sum.faults[class.index()];
    let asserted = of(Class::Assertion) + if verdict.status_asserted { of(Class::Status) } else { 0 };
    let (failed, ended) = (sum.counts.failed, sum.counts.succeeded + sum.counts.failed);
    if asserted > 0 {
        reasons.push(format!("assertions failed in {asserted} of {ended} requests"));
    }
    if verdict.fail_on_errors && failed > asserted {
        reasons.push(format!("{} of {ended} requests failed", failed - asserted));
    }
    if let (Limit::Unmeasured(why), true) = (&outcome.limit, reasons.is_empty())
        && sum.faults().iter().all(|failure| failure.class.is_connecting())
    {
        reasons.push(format!("nothing was measured: {why}"));
    }
    if verdict.fail_on_errors && ended == 0 && outcome.ended != EndReason::Stopped {
        reasons.push("no request ended".to_owned());
    }
    reasons
}
