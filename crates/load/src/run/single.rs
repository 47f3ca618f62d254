//! Runs a single plan: displays and judges it, prints a summary, and writes reports.

use std::time::Duration;

use super::{Failure, print, say, view};
use crate::engine::{Ended, Limit, Outcome};
use crate::flags::{Job, Output, Verdict};
use crate::record::Class;
use crate::report::{Document, Format, Machine, Report, write};

/// Runs a job to its end and reports it.
pub(super) async fn run(job: Job) -> Result<(), Failure> {
    let Job { plan, verdict, output } = job;
    let (mut driver, views) = view::start(&output)?;
    let ran = driver.run(plan, Duration::ZERO).await;
    drop(driver);
    views.end().await;
    let (outcome, _) = ran.map_err(Failure::failed)?;
    let report = Report::new(&outcome, &verdict.thresholds, Machine::here());
    let mut reasons = judge(&outcome, &verdict);
    reasons.extend(report.missed().map(|missed| format!("missed: {}", missed.threshold)));
    leave(&report, &output, &mut reasons);
    ended(&reasons)
}

/// Ends a job: prints the reasons for its failure, a line each. Without a reason the job has passed.
pub(super) fn ended(reasons: &[String]) -> Result<(), Failure> {
    for reason in reasons {
        say(format_args!("sealway load: {reason}"));
    }
    if reasons.is_empty() { Ok(()) } else { Err(Failure::Failed(None)) }
}

/// Prints the summary, unless standard output is in use, and writes all reports. A report that cannot be written adds a reason
/// and does not stop the others.
pub(super) fn leave(document: &impl Document, output: &Output, reasons: &mut Vec<String>) {
    let is_taken = output.json_lines || output.out.iter().any(|(file, _)| file.as_os_str() == "-");
    if !is_taken {
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

/// Returns the reasons why the run failed, a sentence each; thresholds are judged elsewhere.
fn judge(outcome: &Outcome, verdict: &Verdict) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Ended::Failed(reason) = &outcome.ended {
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
        && sum.faults().iter().all(|fault| fault.class.is_connecting())
    {
        reasons.push(format!("nothing was measured: {why}"));
    }
    if verdict.fail_on_errors && ended == 0 && outcome.ended != Ended::Stopped {
        reasons.push("no request was answered".to_owned());
    }
    reasons
}
