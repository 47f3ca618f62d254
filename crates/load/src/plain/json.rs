//! Lines for programs; their shape is in the module above.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::Form;
use super::window::Window;
use crate::engine::{Ended, Limit, Outcome};
use crate::figures;
use crate::plan::Plan;
use crate::progress::{CellSummary, Event};
use crate::record::Phase;

/// What JSON lines are made with.
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
            Event::Note(text) => json!({"type": "note", "text": text}),
        })
    }

    fn second(&mut self, window: &Window) -> String {
        let Some(last) = window.last() else { return String::new() };
        let (counts, length) = (window.counts(), window.length().as_secs_f64());
        let times = window.percentiles();
        let per_second = |count: u64| if length > 0.0 { count as f64 / length } else { 0.0 };
        let service = window.seconds.iter().map(|second| second.service).filter(|service| service.count > 0);
        let faults: BTreeMap<_, _> = window.faults().into_iter().map(|(class, count)| (class.name(), count)).collect();
        line(json!({
            "type": "second",
            "second": last.index,
            "at_s": last.at.as_secs_f64(),
            "length_s": length,
            "warm_up": last.warm_up,
            "due": counts.due,
            "started": counts.started,
            "succeeded": counts.succeeded,
            "failed": counts.failed,
            "rate_per_s": per_second(counts.succeeded),
            "failed_per_s": per_second(counts.failed),
            "p50_ms": times.map(|times| ms(times.p50)),
            "p95_ms": times.map(|times| ms(times.p95)),
            "p99_ms": times.map(|times| ms(times.p99)),
            "max_ms": times.map(|times| ms(times.max)),
            "service_p99_ms": service.map(|service| service.p99_ns).max().map(ms),
            "in_flight": last.in_flight,
            "connections": last.connections,
            "connections_opened": counts.connections_opened,
            "handshakes_full": counts.handshakes_full,
            "handshakes_resumed": counts.handshakes_resumed,
            "bytes_sent": counts.bytes_sent,
            "bytes_received": counts.bytes_received,
            "statuses": window.statuses(),
            "errors": faults,
            "generator_cpu": window.seconds.iter().map(|second| second.cpu).fold(0.0, f64::max),
            "generator_lag_max_ms": window.seconds.iter().map(|second| second.lag_max).max().map(length_ms),
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

fn length_ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
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

fn limit(limit: Option<&Limit>) -> (Option<&'static str>, Option<&str>) {
    match limit {
        Some(Limit::Target) => (Some("target"), None),
        Some(Limit::Offered) => (Some("offered"), None),
        Some(Limit::Generator(why)) => (Some("generator"), Some(why)),
        Some(Limit::Unmeasured(why)) => (Some("unmeasured"), Some(why)),
        None => (None, None),
    }
}

fn ended(outcome: &Outcome) -> Value {
    let (sum, counts) = (&outcome.totals.sum, &outcome.totals.sum.counts);
    let response = sum.times(Phase::Response).quantiles();
    let time = |ns: u64| (response.count > 0).then(|| ms(ns));
    let (limit, limit_reason) = limit(Some(&outcome.limit));
    let (ended, reason) = match &outcome.ended {
        Ended::Done => ("done", None),
        Ended::Stopped => ("stopped", None),
        Ended::Failed(why) => ("failed", Some(why)),
    };
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
        "limit": limit,
        "limit_reason": limit_reason,
        "warnings": outcome.warnings,
    })
}

fn cell_done(summary: &CellSummary) -> Value {
    let (limit, limit_reason) = limit(summary.limit.as_ref());
    let figure = |value: f64| summary.missing.is_none().then_some(value);
    json!({
        "type": "cell_done",
        "name": summary.name,
        "missing": summary.missing,
        "knee": summary.knee,
        "rate_per_s": figure(summary.rate),
        "rate_error_per_s": figure(summary.rate_error),
        "failed_share": figure(summary.failed_share),
        "mean_ms": figure(summary.mean_ns / 1e6),
        "p95_ms": figure(ms(summary.p95_ns)),
        "p99_ms": figure(ms(summary.p99_ns)),
        "runs": summary.runs,
        "limit": limit,
        "limit_reason": limit_reason,
    })
}
