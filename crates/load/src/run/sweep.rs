//! Runs plans in sequence: the search for a knee, and the cells of a matrix.

use std::path::Path;
use std::time::{Duration, Instant};

use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::Problems;

use super::single::{ended, write_reports};
use super::{Driver, JobError, view};
use crate::autotune::{Model, SearchResult, Settings, Tuning, Why, tune};
use crate::engine::EndReason;
use crate::flags::values::parse_time;
use crate::flags::{ArrivalFlags, AutotuneFlags, Extra, Flags, Job, MatrixFlags, Output, filled, given, resolve};
use crate::matrix::{Cells, usual};
use crate::plan::Arrival;
use crate::progress::{CellSummary, Estimate, Event, OfferedLoad};
use crate::record::Phase;
use crate::report::{AutotuneReport, Format, Knee, Machine, MatrixReport, Point};

/// Default length of the warm-up of each run, in whole seconds.
const WARM_UP: Duration = Duration::from_secs(1);

/// Runs the search of `sealway load autotune`.
pub(super) async fn autotune(url: Option<&str>, search: &AutotuneFlags, flags: &Flags) -> Result<(), JobError> {
    let (tuning, job) = tuning(url, search, flags)?;
    has_form(&job.output)?;
    let (started_ms, started) = (SystemClock.now_ms(), Instant::now());
    let (mut driver, views) = view::start(&job.output)?;
    let found = tune(&mut driver, &tuning).await;
    views.end(driver).await;
    let found = found.map_err(JobError::failed)?;
    let mut report = AutotuneReport::new(&tuning.plan, Machine::here(), started_ms, started.elapsed().as_secs_f64());
    fill_report(&mut report, &found, &tuning);
    let mut reasons = Vec::new();
    write_reports(&report, &job.output, &mut reasons);
    if let Why::Failed(_) = found.why {
        reasons.push(found.why.to_string());
    }
    ended(&reasons)
}

/// Resolves a search and the job that it tunes, from flags for everything but the load.
fn tuning(url: Option<&str>, search: &AutotuneFlags, flags: &Flags) -> Result<(Tuning, Job), JobError> {
    let mut problems = Problems::default();
    let how = SearchSettings::new(search, flags, &mut problems);
    let resolved = resolve(url, &how.flags(flags), Extra::default());
    let found = problems.into_result().err().map(|err| err.0);
    match (resolved, found) {
        (Ok(job), None) => Ok((how.tuning(&job), job)),
        (Ok(_), Some(problems)) => Err(JobError::Usage(problems)),
        (Err(err), found) => Err(JobError::Usage(found.into_iter().chain([err.0]).collect::<Vec<_>>().join("\n"))),
    }
}

/// Settings of a search, and the times of each of its runs.
pub(super) struct SearchSettings {
    settings: Settings,
    warm_up: Duration,
    run_time: Duration,
}

impl SearchSettings {
    /// Resolves the settings. Each flag that the search sets itself, such as `--concurrency`, adds a problem.
    pub(super) fn new(search: &AutotuneFlags, flags: &Flags, problems: &mut Problems) -> Self {
        let (settings, run_time) = search.resolve(problems);
        let arrival = &flags.arrival;
        let set = ArrivalFlags { every: None, times: None, ..arrival.clone() };
        let set = ArrivalFlags { warm_up: None, think: None, threads: None, seed: None, ..set };
        for flag in given(&ArrivalFlags { spacing: None, in_flight_max: None, ..set }) {
            problems.add(
                flag,
                "not allowed, the search sets the load: see --search, --search-min, --search-max and --run-time",
            );
        }
        // Figures are counted by the second, so that the warm-up ends with a whole second. The plan's check reports a wrong
        // value.
        let wanted = arrival.warm_up.as_deref().and_then(parse_time);
        let whole = wanted.map_or(WARM_UP, |time| Duration::from_secs(time.as_secs_f64().ceil() as u64));
        SearchSettings { settings, warm_up: whole, run_time }
    }

    /// Returns the flags of a plan without those of the load, which the search sets.
    pub(super) fn flags(&self, flags: &Flags) -> Flags {
        let (mut flags, arrival) = (flags.clone(), flags.arrival.clone());
        flags.arrival = ArrivalFlags {
            warm_up: arrival.warm_up,
            think: arrival.think,
            threads: arrival.threads,
            seed: arrival.seed,
            spacing: arrival.spacing,
            in_flight_max: arrival.in_flight_max,
            ..ArrivalFlags::default()
        };
        if self.settings.model == Model::Open {
            flags.arrival.rate = Some(self.settings.min.to_string());
            // Each request that an overloaded target leaves waiting needs a connection.
            flags.arrival.in_flight_max.get_or_insert_with(|| "1000".into());
        }
        flags
    }

    pub(super) fn tuning(&self, job: &Job) -> Tuning {
        Tuning {
            plan: job.plan.clone(),
            settings: self.settings.clone(),
            warm_up: self.warm_up,
            run_time: self.run_time,
            thresholds: job.verdict.thresholds.clone(),
        }
    }
}

/// Checks that no report has a format of single runs alone, which are the histogram log and JUnit.
fn has_form(output: &Output) -> Result<(), JobError> {
    let mut problems = Problems::default();
    for (file, format) in output.out.iter().filter(|(_, format)| matches!(format, Format::Hlog | Format::Junit)) {
        let allowed = "give .json, .csv, .md, .html or .txt, or --format";
        problems.add(
            format!("--out {}", file.display()),
            format!("several runs cannot be written as {}: {allowed}", format.name()),
        );
    }
    problems.into_result().map_err(JobError::usage)
}

/// Adds the result of a search to the report.
fn fill_report(report: &mut AutotuneReport, found: &SearchResult, tuning: &Tuning) {
    let model = tuning.settings.model;
    for point in &found.points {
        let generator = point.generator();
        let verdict = if generator.is_some() {
            "client-limited".to_owned()
        } else if found.knee.as_ref().is_some_and(|knee| knee.load == point.load) {
            "the knee".to_owned()
        } else if point.failed_share() > tuning.settings.errors_max {
            format!("too many errors: {}", point.failure().unwrap_or("requests failed"))
        } else {
            point.missed().map_or_else(|| "good".to_owned(), |rule| format!("missed {rule}"))
        };
        report.points.push(Point {
            offered: model.offered(point.load),
            repeats_per_s: point.runs.iter().map(|run| run.rate).collect(),
            succeeded_per_s: point.estimate(),
            failed_share: point.failed_share(),
            mean_ns: point.mean(|run| run.mean_ns),
            p50_ns: point.mean(|run| run.p50_ns as f64) as u64,
            p95_ns: point.mean(|run| run.p95_ns as f64) as u64,
            p99_ns: point.mean(|run| run.p99_ns as f64) as u64,
            healthy: point.failed_share() <= tuning.settings.errors_max && point.missed().is_none(),
            verdict,
            limit: point.limit(),
        });
    }
    let summary = found.summary(&report.label, model);
    report.knee =
        found.knee.as_ref().map(|knee| Knee { offered: model.offered(knee.load), succeeded_per_s: knee.estimate() });
    report.missing = summary.missing;
    report.limit = summary.limit;
    report.warnings.push(found.why.to_string());
    // With a larger error, the knee could as well be the load next to it.
    let noisy = found.knee.as_ref().filter(|knee| knee.rate_error() > 0.1 * knee.rate());
    if let Some(knee) = noisy {
        let share = knee.rate_error() / knee.rate() * 100.0;
        report.warnings.push(format!(
            "The runs at the knee differ, so its rate is known only to ±{share:.0} %: use longer or more runs \
             (--run-time, --repeats), or a less busy machine."
        ));
    }
}

/// Runs the cells of `sealway load matrix`.
pub(super) async fn matrix(
    file: Option<&str>,
    matrix: &MatrixFlags,
    search: &AutotuneFlags,
    flags: &Flags,
) -> Result<(), JobError> {
    // Resolved here once, and not again by each cell.
    let output = flags.output().map_err(JobError::usage)?;
    has_form(&output)?;
    let mut problems = Problems::default();
    let (cells, how) = match file {
        Some(file) => {
            let swept = crate::matrix::read(Path::new(file), flags).map_err(JobError::usage)?;
            let search = filled(search, &swept.search).map_err(JobError::usage)?;
            let (settings, run_time) = search.resolve(&mut problems);
            let how = SearchSettings { settings, warm_up: WARM_UP, run_time };
            (swept.cells, (swept.tune && !matrix.fixed).then_some(how))
        }
        None if matrix.fixed => (usual(matrix, flags).map_err(JobError::usage)?, None),
        None => {
            let how = SearchSettings::new(search, flags, &mut problems);
            let cells = usual(matrix, &how.flags(flags)).map_err(JobError::usage)?;
            (cells, Some(how))
        }
    };
    problems.into_result().map_err(JobError::usage)?;
    sweep(cells, how, &output).await
}

async fn sweep(cells: Cells, how: Option<SearchSettings>, output: &Output) -> Result<(), JobError> {
    let (started_ms, started) = (SystemClock.now_ms(), Instant::now());
    let (mut driver, views) = view::start(output)?;
    let ran = run_cells(&mut driver, &cells, how.as_ref()).await;
    views.end(driver).await;
    let summaries = ran?;
    let elapsed = started.elapsed().as_secs_f64();
    let report = MatrixReport::new(&cells.label, summaries, Machine::here(), started_ms, elapsed);
    let mut reasons = Vec::new();
    write_reports(&report, output, &mut reasons);
    let failed = |cell: &&CellSummary| cell.missing.as_deref().is_some_and(|why| why.starts_with("failed"));
    let named = report.cells.iter().filter(failed);
    reasons.extend(named.map(|cell| format!("{}: {}", cell.name, cell.missing.as_deref().unwrap_or_default())));
    if report.cells.iter().all(|cell| cell.missing.is_some()) && reasons.is_empty() {
        reasons.push("no cell was run".to_owned());
    }
    ended(&reasons)
}

/// Runs or tunes each cell. After a stop, the remaining cells are skipped.
pub(super) async fn run_cells(
    driver: &mut Driver,
    cells: &Cells,
    how: Option<&SearchSettings>,
) -> Result<Vec<CellSummary>, JobError> {
    let of = cells.cells.len();
    let mut summaries = Vec::with_capacity(of);
    for (index, cell) in cells.cells.iter().enumerate() {
        driver.publish(Event::Cell { name: cell.name.clone(), index, of }).await;
        let summary = match &cell.job {
            _ if driver.is_stopped() => CellSummary::missing(&cell.name, "skipped: the matrix was stopped before"),
            Err(reason) => CellSummary::missing(&cell.name, &format!("skipped: {reason}")),
            Ok(job) => match run_cell(driver, &cell.name, job, how).await {
                Ok(summary) => summary,
                Err(err) => CellSummary::missing(&cell.name, &format!("failed: {err}")),
            },
        };
        driver.publish(Event::CellDone(summary.clone())).await;
        summaries.push(summary);
    }
    Ok(summaries)
}

async fn run_cell(
    driver: &mut Driver,
    name: &str,
    job: &Job,
    how: Option<&SearchSettings>,
) -> Result<CellSummary, crate::engine::StartError> {
    if let Some(how) = how {
        let found = tune(driver, &how.tuning(job)).await?;
        return Ok(found.summary(name, how.settings.model));
    }
    let (outcome, _) = driver.run(job.plan.clone(), Duration::ZERO).await?;
    let times = outcome.totals.sum.times(Phase::Response).quantiles();
    let mut summary = CellSummary::missing(name, "");
    summary.missing = match &outcome.ended {
        EndReason::Failed(reason) => Some(format!("failed: {reason}")),
        _ => None,
    };
    summary.knee = match &outcome.plan.arrival {
        Arrival::Closed { concurrency, .. } => Some(OfferedLoad::Concurrency(concurrency.max() as u64)),
        Arrival::Open { rate, .. } => Some(OfferedLoad::Rate(rate.max())),
        Arrival::Bursts { burst, .. } => Some(OfferedLoad::Concurrency(*burst as u64)),
    };
    summary.rate = Estimate::new(outcome.rate(), 0.0);
    summary.failed_share = outcome.totals.sum.failed_share();
    (summary.mean_ns, summary.p95_ns, summary.p99_ns) = (times.mean_ns, times.p95_ns, times.p99_ns);
    (summary.runs, summary.limit) = (1, Some(outcome.limit));
    Ok(summary)
}
