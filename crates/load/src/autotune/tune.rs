//! Measures the load points that a search asks for.

use std::time::Duration;

use super::figures::{LoadPoint, RunFigures};
use super::{Model, Search, SearchResult, Settings, Step};
use crate::engine::{EndReason, Limit, Outcome, StartError};
use crate::figures;
use crate::plan::{Arrival, Plan, Spacing, Steps, Stop};
use crate::progress::Event;
use crate::record::{Phase, Totals};
use crate::run::Driver;
use crate::thresholds::{Check, Threshold, Unit};

/// Default bound of the requests under way during a search for a rate: each request that an overloaded target leaves waiting
/// needs a connection.
const IN_FLIGHT_MAX: usize = 1000;
/// Pause between two runs, for the target to come to rest.
const REST: Duration = Duration::from_millis(200);

/// Plan to tune, and the settings of its search.
#[derive(Clone, Debug)]
pub(crate) struct Tuning {
    /// Plan of each run; the search sets its load, length and warm-up.
    pub(crate) plan: Plan,
    /// Settings of the search for the knee.
    pub(crate) settings: Settings,
    /// Time at the beginning of each run that is left out of its figures.
    pub(crate) warm_up: Duration,
    /// Measured time of each run, after the warm-up.
    pub(crate) run_time: Duration,
    /// Thresholds that each load point must reach.
    pub(crate) thresholds: Vec<Threshold>,
}

/// Searches for the knee, and reports each load point to the displays. A run that is stopped ends the search.
///
/// # Errors
/// If a run cannot start.
pub(crate) async fn tune(driver: &mut Driver, tuning: &Tuning) -> Result<SearchResult, StartError> {
    let mut search = Search::new(tuning.settings.clone());
    let mut step = search.next(None);
    loop {
        let load = match step {
            Step::Done(found) => return Ok(*found),
            Step::Measure(load) => load,
        };
        let measured = point(driver, tuning, load, search.left_max()).await?;
        if driver.is_stopped() {
            // A load point with missing runs says nothing.
            return Ok(search.stopped());
        }
        step = search.next(Some(measured));
    }
}

async fn point(driver: &mut Driver, tuning: &Tuning, load: f64, left_max: u32) -> Result<LoadPoint, StartError> {
    let repeats = tuning.settings.repeats;
    let mut runs: Vec<RunFigures> = Vec::new();
    for repeat in 1..=repeats {
        let offered = tuning.settings.model.offered(load);
        driver.publish(Event::Point { offered, repeat, repeats, left_max }).await;
        let plan = tuning.plan_of(load, repeat);
        let (outcome, before) = driver.run(plan, tuning.warm_up).await?;
        runs.push(figures_of(&outcome, before.as_ref(), &tuning.thresholds));
        let is_hopeless = runs.iter().all(|run| run.succeeded == 0);
        if driver.is_stopped() || is_hopeless {
            break;
        }
        tokio::time::sleep(REST).await;
    }
    Ok(LoadPoint { load, runs })
}

impl Tuning {
    /// Returns the plan of one run. The plan has no warm-up of its own: requests that begin in it and end later count as
    /// throughput.
    fn plan_of(&self, load: f64, repeat: u32) -> Plan {
        let arrival = match (self.settings.model, &self.plan.arrival) {
            (Model::Closed, _) => Arrival::Closed { concurrency: Steps::constant(load), ramp_share: 0.0, loops: 0 },
            (Model::Open, Arrival::Open { spacing, in_flight_max, .. }) => {
                Arrival::Open { rate: Steps::constant(load), spacing: *spacing, in_flight_max: *in_flight_max }
            }
            (Model::Open, _) => {
                Arrival::Open { rate: Steps::constant(load), spacing: Spacing::Even, in_flight_max: IN_FLIGHT_MAX }
            }
        };
        Plan {
            arrival,
            stop: Stop { duration: Some(self.warm_up + self.run_time), requests: None },
            warm_up: Duration::ZERO,
            seed: self.plan.seed.wrapping_add(u64::from(repeat)).wrapping_add((load as u64) << 8),
            ..self.plan.clone()
        }
    }
}

/// Returns the figures of a run, without its warm-up.
fn figures_of(outcome: &Outcome, before: Option<&Totals>, thresholds: &[Threshold]) -> RunFigures {
    let rest = before.map_or_else(|| outcome.totals.clone(), |before| outcome.totals.since(before));
    let seconds = rest.measured.as_secs_f64();
    let response = rest.sum.times(Phase::Response).quantiles();
    let missed = thresholds.iter().map(|threshold| threshold.check(&rest)).find(|check| !check.passed);
    let generator = match &outcome.limit {
        Limit::Generator(reason) => Some(reason.clone()),
        _ => None,
    };
    let failure = outcome.totals.sum.faults().first().map(|failure| {
        if failure.example.is_empty() {
            failure.class.name().to_owned()
        } else {
            format!("{}: {}", failure.class.name(), failure.example)
        }
    });
    let ended = match &outcome.ended {
        EndReason::Failed(reason) => Some(reason.clone()),
        _ => None,
    };
    RunFigures {
        rate: if seconds > 0.0 { rest.sum.counts.succeeded as f64 / seconds } else { 0.0 },
        failed_share: rest.sum.failed_share(),
        succeeded: rest.sum.counts.succeeded,
        mean_ns: response.mean_ns,
        p50_ns: response.p50_ns,
        p95_ns: response.p95_ns,
        p99_ns: response.p99_ns,
        missed: missed.map(|check| describe_miss(&check)),
        generator,
        failure: ended.or(failure),
    }
}

/// Describes a missed rule, with the measured value.
pub(crate) fn describe_miss(check: &Check) -> String {
    let measured = match (check.measured, check.unit) {
        (None, _) => "no data".to_owned(),
        (Some(value), Unit::Nanoseconds) => figures::time(value as u64),
        (Some(value), Unit::Share) => format!("{:.2} %", value * 100.0),
        (Some(value), Unit::PerSecond) => format!("{}/s", figures::rate(value)),
    };
    format!("{}: {measured}", check.threshold)
}
