//! An outcome becomes a report.

use std::time::Duration;

use sealway_runtime::clock::iso8601;

use super::asked::Asked;
use super::document::{
    Checked, Ended, FaultSeen, GeneratorCost, HistogramText, LimitTold, Made, Omission, PhaseTimes, Rates, Report,
    SecondRow, StatusSeen, Times,
};
use super::machine::Machine;
use super::units::{finite, time};
use super::{VERSION, histogram};
use crate::engine::{self, Limit, Outcome};
use crate::plan::Arrival;
use crate::record::{Phase, Quantiles, Second, Totals};
use crate::thresholds::{Check, Threshold, Unit};

/// From this factor between the two percentiles on, the difference is explained.
const OMISSION_FACTOR: f64 = 1.5;
/// Below this difference it is not, whatever the factor: 1 ms.
const OMISSION_MIN_NS: u64 = 1_000_000;

impl Report {
    /// The report of this run, held against these thresholds, as measured on this machine.
    pub(crate) fn new(outcome: &Outcome, thresholds: &[Threshold], machine: Machine) -> Report {
        let totals = &outcome.totals;
        let checks: Vec<_> = thresholds.iter().map(|threshold| checked(&threshold.check(totals))).collect();
        Report {
            kind: Made::Run,
            version: VERSION,
            label: outcome.plan.label.clone(),
            started_at: iso8601(outcome.started_ms),
            started_ms: outcome.started_ms,
            elapsed_s: outcome.elapsed.as_secs_f64(),
            measured_s: totals.measured.as_secs_f64(),
            ended: Ended::from(&outcome.ended),
            warnings: outcome.warnings.clone(),
            limit: LimitTold::from(&outcome.limit),
            passed: (!checks.is_empty()).then(|| checks.iter().all(|check| check.passed)),
            thresholds: checks,
            asked: Asked::from(&outcome.plan),
            machine,
            generator: GeneratorCost::from(&outcome.generator),
            counts: totals.sum.counts,
            rates: rates(totals),
            statuses: totals.sum.statuses().into_iter().map(|(status, count)| StatusSeen { status, count }).collect(),
            faults: faults(totals),
            phases: phases(totals),
            omission: omission(outcome),
            seconds: outcome.seconds.iter().map(SecondRow::from).collect(),
            histograms: histograms(totals),
        }
    }
}

impl From<&engine::Ended> for Ended {
    fn from(ended: &engine::Ended) -> Self {
        match ended {
            engine::Ended::Done => Ended::Done,
            engine::Ended::Stopped => Ended::Stopped,
            engine::Ended::Failed(why) => Ended::Failed { why: why.clone() },
        }
    }
}

impl From<&Limit> for LimitTold {
    fn from(limit: &Limit) -> Self {
        match limit {
            Limit::Target => LimitTold::Target,
            Limit::Offered => LimitTold::Offered,
            Limit::Generator(why) => LimitTold::Generator { why: why.clone() },
            Limit::Unmeasured(why) => LimitTold::Unmeasured { why: why.clone() },
        }
    }
}

impl From<&engine::Generator> for GeneratorCost {
    fn from(generator: &engine::Generator) -> Self {
        GeneratorCost {
            threads: generator.threads,
            cores: generator.cores,
            cpu_cores: finite(generator.cpu),
            cpu_busiest_share: finite(generator.cpu_busiest),
            lag_p99_ns: ns(generator.lag_p99),
            lag_max_ns: ns(generator.lag_max),
            memory_bytes: generator.memory_bytes,
        }
    }
}

impl From<Quantiles> for Times {
    fn from(of: Quantiles) -> Self {
        Times {
            count: of.count,
            min_ns: of.min_ns,
            mean_ns: finite(of.mean_ns),
            stdev_ns: finite(of.stdev_ns),
            p50_ns: of.p50_ns,
            p75_ns: of.p75_ns,
            p90_ns: of.p90_ns,
            p95_ns: of.p95_ns,
            p99_ns: of.p99_ns,
            p999_ns: of.p999_ns,
            max_ns: of.max_ns,
        }
    }
}

impl From<&Second> for SecondRow {
    fn from(second: &Second) -> Self {
        let heat = second.heat.0.iter().enumerate().filter(|(_, count)| **count > 0);
        SecondRow {
            at_s: second.at.as_secs_f64(),
            length_s: second.length.as_secs_f64(),
            warm_up: second.warm_up,
            counts: second.counts,
            response: second.response.into(),
            service: second.service.into(),
            heat: heat.map(|(column, count)| (column as u8, *count)).collect(),
            statuses: second.statuses.clone(),
            faults: second.faults.clone(),
            in_flight: second.in_flight,
            connections: second.connections,
            lag_max_ns: ns(second.lag_max),
            cpu_cores: finite(second.cpu),
        }
    }
}

/// A check as it is written.
pub(super) fn checked(check: &Check) -> Checked {
    let unit = match check.threshold.figure.unit() {
        Unit::Nanoseconds => "ns",
        Unit::Share => "share",
        Unit::PerSecond => "per_s",
    };
    Checked {
        threshold: check.threshold.text.clone(),
        unit: unit.to_owned(),
        bound: finite(check.threshold.bound),
        measured: check.measured.map(finite),
        passed: check.passed,
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
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

fn faults(totals: &Totals) -> Vec<FaultSeen> {
    let ended = totals.sum.counts.succeeded.saturating_add(totals.sum.counts.failed).max(1) as f64;
    let seen = totals.sum.faults().into_iter();
    seen.map(|fault| FaultSeen {
        class: fault.class,
        count: fault.count,
        share: fault.count as f64 / ended,
        example: fault.example,
    })
    .collect()
}

fn phases(totals: &Totals) -> Vec<PhaseTimes> {
    let all = Phase::ALL.into_iter().map(|phase| (phase, totals.sum.times(phase).quantiles()));
    all.filter(|(phase, times)| times.count > 0 || matches!(phase, Phase::Response | Phase::Service))
        .map(|(phase, times)| PhaseTimes { phase, times: times.into() })
        .collect()
}

fn omission(outcome: &Outcome) -> Omission {
    let sum = &outcome.totals.sum;
    let response_p99_ns = sum.times(Phase::Response).quantile_ns(0.99);
    let service_p99_ns = sum.times(Phase::Service).quantile_ns(0.99);
    let apart = response_p99_ns.saturating_sub(service_p99_ns);
    let large = apart >= OMISSION_MIN_NS && response_p99_ns as f64 >= OMISSION_FACTOR * service_p99_ns as f64;
    let cause = match (&outcome.limit, &outcome.plan.arrival) {
        (Limit::Generator(_), _) => "requests waited in the generator, which was the limit",
        (_, Arrival::Bursts { .. }) => "requests of a burst waited for their turn",
        _ => "the target held up requests, and those due meanwhile waited for it",
    };
    let note = large.then(|| {
        format!(
            "Counted from when requests were due, 99 % of them took up to {}; counted from when they were sent, {}: {cause}. \
             A figure that starts only when a request is sent, as most tools show it, hides that wait.",
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
