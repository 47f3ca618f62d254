//! JSON lines for programs; the module above documents their fields.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Form;
use super::window::Percentiles;
use crate::engine::Outcome;
use crate::figures;
use crate::plan::Plan;
use crate::progress::{CellSummary, Event};
use crate::record::{Phase, Second};

/// Formatter of events as JSON lines.
#[derive(Debug)]
pub(super) struct Json;

impl Form for Json {
    fn event(&mut self, event: &Event) -> String {
        line(match event {
            Event::Cell { name, index, of } => json!({"type": "cell", "name": name, "index": index, "of": of}),
            Event::Point { offered, repeat, repeats, left_max } => json!({
                "type": "point",
                "offered": offered,
                "repeat": repeat,
                "repeats": repeats,
                "points_left_max": left_max,
            }),
            Event::Run { plan, .. } => run(plan),
            Event::Tick(_) => return String::new(),
            Event::Outcome(outcome) => ended(outcome),
            Event::CellDone(summary) => cell_done(summary),
        })
    }

    fn second(&mut self, sum: &Second, times: Option<Percentiles>) -> String {
        let counts = &sum.counts;
        let faults: BTreeMap<_, _> = sum.faults.iter().map(|(class, count)| (class.name(), *count)).collect();
        let statuses: BTreeMap<_, _> = sum.statuses.iter().copied().collect();
        line(json!({
            "type": "second",
            "second": sum.index,
            "at_s": sum.at.as_secs_f64(),
            "length_s": sum.length.as_secs_f64(),
            "warm_up": sum.warm_up,
            "due": counts.due,
            "started": counts.started,
            "succeeded": counts.succeeded,
            "failed": counts.failed,
            "rate_per_s": sum.per_second(counts.succeeded),
            "failed_per_s": sum.per_second(counts.failed),
            "p50_ms": times.map(|times| ms(times.p50)),
            "p95_ms": times.map(|times| ms(times.p95)),
            "p99_ms": times.map(|times| ms(times.p99)),
            "max_ms": times.map(|times| ms(times.max)),
            "service_p99_ms": (sum.service.count > 0).then(|| ms(sum.service.p99_ns)),
            "in_flight": sum.in_flight,
            "connections": sum.connections,
            "connections_opened": counts.connections_opened,
            "handshakes_full": counts.handshakes_full,
            "handshakes_resumed": counts.handshakes_resumed,
            "bytes_sent": counts.bytes_sent,
            "bytes_received": counts.bytes_received,
            "statuses": statuses,
            "errors": faults,
            "generator_cpu": sum.cpu,
            "generator_lag_max_ms": sum.lag_max.as_secs_f64() * 1e3,
        }))
    }

    fn skipped(&mut self, seconds: u64) -> String {
        line(json!({"type": "skipped", "seconds": seconds}))
    }
}

fn line(value: Value) -> String {
    format!("{value}\n")
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn run(plan: &Plan) -> Value {
    json!({
        "type": "run",
        "label": plan.label,
        "method": plan.request.method.as_str(),
        "target": figures::target(plan),
        "protocol": figures::protocol(plan),
        "offered": figures::arrival(plan),
        "duration_s": plan.stop.duration.map(|duration| duration.as_secs_f64()),
        "warm_up_s": plan.warm_up.as_secs_f64(),
        "threads": plan.threads,
    })
}

fn ended(outcome: &Outcome) -> Value {
    let (sum, counts) = (&outcome.totals.sum, &outcome.totals.sum.counts);
    let response = sum.times(Phase::Response).quantiles();
    let time = |ns: u64| (response.count > 0).then(|| ms(ns));
    let (limit, (ended, reason)) = (json!(outcome.limit), outcome.ended.name_and_reason());
    json!({
        "type": "outcome",
        "ended": ended,
        "reason": reason,
        "elapsed_s": outcome.elapsed.as_secs_f64(),
        "measured_s": outcome.totals.measured.as_secs_f64(),
        "due": counts.due,
        "started": counts.started,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "unfinished": counts.unfinished,
        "unsent": counts.unsent,
        "rate_per_s": outcome.rate(),
        "p50_ms": time(response.p50_ns),
        "p95_ms": time(response.p95_ns),
        "p99_ms": time(response.p99_ns),
        "max_ms": time(response.max_ns),
        "statuses": sum.statuses().into_iter().collect::<BTreeMap<u16, u64>>(),
        "errors": sum.faults(),
        "limit": limit["what"],
        "limit_reason": limit["why"],
        "warnings": outcome.warnings,
    })
}

fn cell_done(summary: &CellSummary) -> Value {
    let limit = json!(summary.limit);
    let figure = |value: f64| summary.missing.is_none().then_some(value);
    json!({
        "type": "cell_done",
        "name": summary.name,
        "missing": summary.missing,
        "knee": summary.knee,
        "rate_per_s": figure(summary.rate.mean),
        "rate_error_per_s": figure(summary.rate.half),
        "failed_share": figure(summary.failed_share),
        "mean_ms": figure(summary.mean_ns / 1e6),
        "p95_ms": figure(ms(summary.p95_ns)),
        "p99_ms": figure(ms(summary.p99_ns)),
        "runs": summary.runs,
        "limit": limit["what"],
        "limit_reason": limit["why"],
    })
}
