//! Conversion of an outcome into a report.

use sealway_runtime::clock::iso8601;

use super::document::{FailureShare, HistogramText, Kind, Omission, PhaseTimes, Rates, Report, StatusCount};
use super::machine::Machine;
use super::plan::PlanSummary;
use super::units::{finite, time};
use super::{VERSION, histogram};
use crate::engine::{Limit, Outcome};
use crate::plan::Arrival;
use crate::record::{Phase, Totals};
use crate::thresholds::Threshold;

/// Ratio of both percentiles from which a report explains their difference.
const OMISSION_FACTOR: f64 = 1.5;
/// Minimum difference that a report explains: 1 ms, in nanoseconds.
const OMISSION_MIN_NS: u64 = 1_000_000;

impl Report {
    /// Creates the report of a run: checks these thresholds and names this machine.
    pub(crate) fn new(outcome: &Outcome, thresholds: &[Threshold], machine: Machine) -> Report {
        let totals = &outcome.totals;
        let checks: Vec<_> = thresholds.iter().map(|threshold| threshold.check(totals)).collect();
        Report {
            kind: Kind::Run,
            version: VERSION,
            label: outcome.plan.label.clone(),
            started_at: iso8601(outcome.started_ms),
            started_ms: outcome.started_ms,
            elapsed_s: outcome.elapsed.as_secs_f64(),
            measured_s: totals.measured.as_secs_f64(),
            ended: outcome.ended.clone(),
            warnings: outcome.warnings.clone(),
            limit: outcome.limit.clone(),
            passed: (!checks.is_empty()).then(|| checks.iter().all(|check| check.passed)),
            thresholds: checks,
            asked: PlanSummary::from(&outcome.plan),
            machine,
            generator: outcome.generator.clone(),
            counts: totals.sum.counts,
            rates: rates(totals),
            statuses: totals.sum.statuses().into_iter().map(|(status, count)| StatusCount { status, count }).collect(),
            faults: faults(totals),
            phases: phases(totals),
            omission: omission(outcome),
            seconds: outcome.seconds.clone(),
            histograms: histograms(totals),
        }
    }
}

fn rates(totals: &Totals) -> Rates {
    let (counts, seconds) = (&totals.sum.counts, totals.measured.as_secs_f64());
    let per_s = |count: u64| if seconds > 0.0 { finite(count as f64 / seconds) } else { 0.0 };
    Rates {
        due_per_s: per_s(counts.due),
        succeeded_per_s: per_s(counts.succeeded),
        ended_per_s: per_s(counts.succeeded.saturating_add(counts.failed)),
        failed_share: finite(totals.sum.failed_share()),
        sent_bytes_per_s: per_s(counts.bytes_sent),
        received_bytes_per_s: per_s(counts.bytes_received),
    }
}

fn faults(totals: &Totals) -> Vec<FailureShare> {
    let ended = totals.sum.counts.succeeded.saturating_add(totals.sum.counts.failed).max(1) as f64;
    let seen = totals.sum.faults().into_iter();
    seen.map(|failure| FailureShare {
        class: failure.class,
        count: failure.count,
        share: failure.count as f64 / ended,
        example: failure.example,
    })
    .collect()
}

fn phases(totals: &Totals) -> Vec<PhaseTimes> {
    let all = Phase::ALL.into_iter().map(|phase| (phase, totals.sum.times(phase).quantiles()));
    all.filter(|(phase, times)| times.count > 0 || matches!(phase, Phase::Response | Phase::Service))
        .map(|(phase, times)| PhaseTimes { phase, times })
        .collect()
}

fn omission(outcome: &Outcome) -> Omission {
    let sum = &outcome.totals.sum;
    let response_p99_ns = sum.times(Phase::Response).quantile_ns(0.99);
    let service_p99_ns = sum.times(Phase::Service).quantile_ns(0.99);
    let apart = response_p99_ns.saturating_sub(service_p99_ns);
    let large = apart >= OMISSION_MIN_NS && response_p99_ns as f64 >= OMISSION_FACTOR * service_p99_ns as f64;
    let cause = match (&outcome.limit, &outcome.plan.arrival) {
        (Limit::Generator(_), _) => "requests waited in the generator, which was the bottleneck",
        (_, Arrival::Bursts { .. }) => "the requests of a burst were sent one after another",
        _ => "the target stalled, and requests that were due meanwhile waited",
    };
    let note = large.then(|| {
        format!(
            "The response time p99, counted since requests were due, is {}; the service time p99, counted since they were \
             sent, is {}: {cause}. Tools that show only the service time hide this wait (coordinated omission).",
            time(response_p99_ns as f64),
            time(service_p99_ns as f64)
        )
    });
    Omission { response_p99_ns, service_p99_ns, note }
}

fn histograms(totals: &Totals) -> Vec<HistogramText> {
    let all = Phase::ALL.into_iter().map(|phase| (phase, totals.sum.times(phase)));
    all.filter(|(_, times)| !times.is_empty())
        .map(|(phase, times)| HistogramText { phase, v2_deflate_base64: histogram::encode(times.histogram()) })
        .collect()
}
