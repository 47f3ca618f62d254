//! Runs that lead from one to the next: the search for a knee, and a matrix.

use std::time::{Duration, Instant};

use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::Problems;

use super::single::{ended, leave};
use super::{Failure, view};
use crate::autotune::{Found, Measured, Model, Tuning, Why, tune};
use crate::flags::{AutotuneFlags, Extra, Flags, Job, MatrixFlags, resolve};
use crate::report::{AutotuneReport, Interval, Knee, LimitTold, Machine, Point};

/// What is left out at the beginning of each run, unless said.
const WARM_UP: Duration = Duration::from_secs(1);

/// `sealway load autotune`.
pub(super) async fn autotune(url: Option<&str>, search: &AutotuneFlags, flags: &Flags) -> Result<(), Failure> {
    let (tuning, job) = tuning(url, search, flags)?;
    let (started_ms, started) = (SystemClock.now_ms(), Instant::now());
    let (mut driver, views) = view::start(&job.output)?;
    let found = tune(&mut driver, &tuning).await;
    drop(driver);
    views.end().await;
    let found = found.map_err(Failure::failed)?;
    let mut report = AutotuneReport::new(&tuning.plan, Machine::here(), started_ms, started.elapsed().as_secs_f64());
    tell(&mut report, &found, &tuning);
    let mut reasons = Vec::new();
    leave(&report, &job.output, &mut reasons);
    if let Why::Failed(_) = found.why {
        reasons.push(found.why.to_string());
    }
    ended(&reasons)
}

/// What is tuned, from flags that say everything but the load.
fn tuning(url: Option<&str>, search: &AutotuneFlags, flags: &Flags) -> Result<(Tuning, Job), Failure> {
    let mut problems = Problems::default();
    let (settings, run_time) = search.resolve(&mut problems);
    let arrival = &flags.arrival;
    let given = [
        ("--concurrency", arrival.concurrency.is_some()),
        ("--rate", arrival.rate.is_some()),
        ("--stage", !arrival.stage.is_empty()),
        ("--burst", arrival.burst.is_some()),
        ("--ramp-percent-per-second", arrival.ramp_percent_per_second.is_some()),
        ("--duration", arrival.duration.is_some()),
        ("--requests", arrival.requests.is_some()),
        ("--loops", arrival.loops.is_some()),
    ];
    for (flag, _) in given.into_iter().filter(|(_, given)| *given) {
        problems.add(flag, "the search sets it: see --search, --search-min, --search-max and --run-time");
    }
    let mut flags = flags.clone();
    flags.arrival = crate::flags::ArrivalFlags {
        warm_up: arrival.warm_up.clone(),
        think: arrival.think.clone(),
        threads: arrival.threads.clone(),
        seed: arrival.seed.clone(),
        ..Default::default()
    };
    if settings.model == Model::Open {
        flags.arrival.rate = Some(settings.min.to_string());
        (flags.arrival.spacing, flags.arrival.in_flight_max) = (arrival.spacing.clone(), arrival.in_flight_max.clone());
        flags.arrival.in_flight_max.get_or_insert_with(|| "1000".into());
    }
    let resolved = resolve(url, &flags, Extra::default());
    let found = problems.into_result().err().map(|err| err.0);
    let job = match (resolved, found) {
        (Ok(job), None) => job,
        (Ok(_), Some(problems)) => return Err(Failure::Usage(problems)),
        (Err(err), found) => {
            return Err(Failure::Usage(found.into_iter().chain([err.0]).collect::<Vec<_>>().join("\n")));
        }
    };
    // Figures are told by the second, so that a warm-up ends with one.
    let asked = Duration::from_secs(job.plan.warm_up.as_secs_f64().ceil() as u64);
    let warm_up = if arrival.warm_up.is_some() { asked } else { WARM_UP };
    let thresholds = job.verdict.thresholds.clone();
    Ok((Tuning { plan: job.plan.clone(), settings, warm_up, run_time, thresholds }, job))
}

/// Puts what was found into the report.
fn tell(report: &mut AutotuneReport, found: &Found, tuning: &Tuning) {
    let model = tuning.settings.model;
    let interval = |point: &Measured| Interval::around(point.rate(), point.rate_error());
    for point in &found.points {
        let generator = point.generator();
        let verdict = if generator.is_some() {
            "client-limited".to_owned()
        } else if found.knee.as_ref().is_some_and(|knee| knee.load == point.load) {
            "the knee".to_owned()
        } else if point.failed_share() > tuning.settings.errors_max {
            format!("too many errors: {}", point.fault().unwrap_or("requests failed"))
        } else {
            point.missed().map_or_else(|| "good".to_owned(), |rule| format!("missed {rule}"))
        };
        report.points.push(Point {
            offered: model.offered(point.load),
            repeats_per_s: point.runs.iter().map(|run| run.rate).collect(),
            succeeded_per_s: interval(point),
            failed_share: point.failed_share(),
            mean_ns: point.mean(|run| run.mean_ns),
            p50_ns: point.mean(|run| run.p50_ns as f64) as u64,
            p95_ns: point.mean(|run| run.p95_ns as f64) as u64,
            p99_ns: point.mean(|run| run.p99_ns as f64) as u64,
            healthy: point.failed_share() <= tuning.settings.errors_max && point.missed().is_none(),
            verdict,
            limit: LimitTold::from(
                &generator
                    .map_or(crate::engine::Limit::Target, |reason| crate::engine::Limit::Generator(reason.to_owned())),
            ),
        });
    }
    let summary = found.summary(&report.label, model);
    report.knee =
        found.knee.as_ref().map(|knee| Knee { offered: model.offered(knee.load), succeeded_per_s: interval(knee) });
    report.missing = summary.missing;
    report.limit = summary.limit.as_ref().map(LimitTold::from);
    report.warnings.push(found.why.to_string());
    // More than this, and the knee may as well be the load beside.
    let noisy = found.knee.as_ref().filter(|knee| knee.rate_error() > 0.1 * knee.rate());
    if let Some(knee) = noisy {
        let share = knee.rate_error() / knee.rate() * 100.0;
        report.warnings.push(format!(
            "The runs at the knee differ, so that its rate is known to {share:.0} % only: something else was at work, or \
             the runs are too short (--run-time, --repeats)."
        ));
    }
}

/// `sealway load matrix`.
pub(super) async fn matrix(
    _file: Option<&str>,
    _matrix: &MatrixFlags,
    _search: &AutotuneFlags,
    _flags: &Flags,
) -> Result<(), Failure> {
    Err(Failure::failed("a matrix is not in this binary yet"))
}
