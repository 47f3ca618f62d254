//! One run: shown, summed up, judged, written down.

use std::time::Duration;

use super::{Failure, print, say, view};
use crate::engine::{Ended, Outcome};
use crate::flags::{Job, Verdict};
use crate::record::Class;

/// Runs a job to its end.
pub(super) async fn run(job: Job) -> Result<(), Failure> {
    let Job { plan, verdict, output } = job;
    let (mut driver, views) = view::start(&output)?;
    let ran = driver.run(plan, Duration::ZERO).await;
    drop(driver);
    views.end().await;
    let (outcome, _) = ran.map_err(Failure::failed)?;
    let reasons = judge(&outcome, &verdict);
    print(&summary(&outcome));
    for reason in &reasons {
        say(format_args!("sealway load: {reason}"));
    }
    if reasons.is_empty() { Ok(()) } else { Err(Failure::Failed(None)) }
}

/// Why the run is a failed one, a sentence each.
fn judge(outcome: &Outcome, verdict: &Verdict) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Ended::Failed(reason) = &outcome.ended {
        reasons.push(reason.clone());
    }
    let sum = &outcome.totals.sum;
    let of = |class: Class| sum.faults[class.index()];
    let asserted = of(Class::Assertion) + if verdict.status_asserted { of(Class::Status) } else { 0 };
    let failed = sum.counts.failed;
    if asserted > 0 {
        reasons.push(format!("assertions failed in {asserted} of {} requests", sum.counts.succeeded + failed));
    }
    if verdict.fail_on_errors && failed > asserted {
        reasons.push(format!("{failed} of {} requests failed", sum.counts.succeeded + failed));
    }
    reasons
}

fn summary(outcome: &Outcome) -> String {
    let sum = &outcome.totals.sum;
    format!(
        "{} requests succeeded, {} failed, {} unfinished; {:.1} a second\n",
        sum.counts.succeeded,
        sum.counts.failed,
        sum.counts.unfinished,
        outcome.rate()
    )
}
