//! Runs plans of other sources: a preset, a JMeter plan, or the flags of Lite Gateway's load client.

use std::sync::Arc;
use std::time::Duration;

use sealway_runtime::config::{ConfigError, Problems};
use sealway_runtime::shutdown::StopSignals;
use tokio::sync::Notify;

use super::single::{ended, print_beside, write_reports};
use super::sweep::{SearchSettings, run_cells};
use super::{JobError, checked, print, say, single, view};
use crate::channel::{Cost, Watch};
use crate::flags::values::{whole, within};
use crate::flags::{Extra, Flags, LoadArgs, given};
use crate::matrix::{CellNames, six, tabbed};
use crate::preset::litegateway::{Action, HELP, translate};
use crate::preset::{poc, session};
use crate::report::{Machine, Report};

/// Time between two samples of a watched process.
const LOOK: Duration = Duration::from_millis(200);

/// Runs a single plan, from flags, a preset, a JMeter plan or the flags of Lite Gateway's load client.
pub(super) async fn run(mut args: LoadArgs) -> Result<(), JobError> {
    if let Some(words) = &args.source.litegateway {
        return litegateway(words, &args.flags).await;
    }
    match args.source.preset.as_deref() {
        Some("poc") => return proof(&args).await,
        Some("session") => return benchmark(&args).await,
        Some(other) => return Err(JobError::usage(format!("--preset {other}: expected one of poc, session"))),
        None => {}
    }
    let without = [("--benchmark", args.source.benchmark.is_some()), ("--watch-pid", args.source.watch_pid.is_some())];
    let mut problems = Problems::default();
    for (flag, _) in without.into_iter().filter(|(_, given)| *given) {
        problems.add(flag, "applies to a preset only: --benchmark to --preset session, --watch-pid to --preset poc");
    }
    problems.into_result().map_err(JobError::usage)?;
    if let Some(file) = &args.source.jmeter {
        let plan = crate::jmeter::read(std::path::Path::new(file)).map_err(JobError::usage)?;
        plan.warnings.iter().for_each(|warning| say(format_args!("sealway load: {warning}")));
        args.flags.fill(&plan.flags).map_err(JobError::failed)?;
        args.url = args.url.or(plan.url);
    }
    single::run(checked(args.url.as_deref(), &args.flags, Extra::default())?).await
}

/// Runs the acceptance test of `--preset poc`.
async fn proof(args: &LoadArgs) -> Result<(), JobError> {
    let mut problems = Problems::default();
    let pid = whole(&mut problems, "--watch-pid", &args.source.watch_pid, 1..=u64::from(u32::MAX));
    problems.into_result().map_err(JobError::usage)?;
    let mut flags = args.flags.clone();
    flags.fill(&poc::flags()).map_err(JobError::failed)?;
    let job = checked(args.url.as_deref(), &flags, Extra::default())?;
    if job.plan.target.tls.as_ref().is_none_or(|tls| tls.files.cert.is_none()) {
        say(
            "sealway load: no client certificate is sent (--cert), so these are not the mTLS connections of the acceptance test",
        );
    }
    let watch = pid.map(|pid| Watch::start(pid as u32)).transpose();
    let watch = watch.map_err(|err| JobError::usage(format!("--watch-pid: {err}")))?;
    let (mut driver, views) = view::start(&job.output)?;
    let stop = Arc::new(Notify::new());
    let watching = watch.map(|watch| tokio::spawn(look(watch, Arc::clone(&stop))));
    let ran = driver.run(job.plan, Duration::ZERO).await;
    stop.notify_one();
    let usage = match watching {
        Some(watching) => watching.await.ok(),
        None => None,
    };
    views.end(driver).await;
    let (outcome, _) = ran.map_err(JobError::failed)?;
    let report = Report::new(&outcome, &job.verdict.thresholds, Machine::here());
    let mut reasons = Vec::new();
    write_reports(&report, &job.output, &mut reasons);
    let verdict = poc::verdict(&outcome, usage.as_ref());
    print_beside(&job.output, &verdict.text());
    reasons.extend(report.missed().map(|missed| format!("missed: {}", missed.threshold)));
    reasons.extend(verdict.refusal());
    ended(&reasons)
}

/// Samples a process until `stop` is notified, and returns its cost.
async fn look(mut watch: Watch, stop: Arc<Notify>) -> Cost {
    loop {
        watch.look(false);
        tokio::select! {
            () = stop.notified() => {
                watch.look(false);
                return watch.cost();
            }
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Runs the benchmark of `--preset session`.
async fn benchmark(args: &LoadArgs) -> Result<(), JobError> {
    let taken = ["--concurrency"];
    let others: Vec<_> = given(&args.flags).into_iter().filter(|flag| !taken.contains(&flag.as_str())).collect();
    if let Some(flag) = others.first() {
        return Err(JobError::usage(format!(
            "{flag}: does not apply to the preset session, which takes only --benchmark and --concurrency"
        )));
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let concurrency = args.flags.arrival.concurrency.as_ref();
    let benchmark = session::Benchmark::new(args.url.as_deref(), args.source.benchmark.as_ref(), concurrency, variable);
    let benchmark = benchmark.map_err(JobError::usage)?;
    let stop = Arc::new(Notify::new());
    let mut signals = StopSignals::install().map_err(JobError::failed)?;
    let stopping = Arc::clone(&stop);
    tokio::spawn(async move {
        signals.stopped().await;
        stopping.notify_one();
    });
    let figures = session::run(&benchmark, stop, |line| print(&format!("{line}\n"))).await.map_err(JobError::failed)?;
    print(&figures.block(benchmark.workers));
    if figures.failed > 0 { Err(JobError::Failed(None)) } else { Ok(()) }
}

/// Runs the job of the arguments after `--litegateway`.
async fn litegateway(words: &[String], ours: &Flags) -> Result<(), JobError> {
    let named = |err: ConfigError| JobError::usage(within("--litegateway", &err));
    // A variable that is not UTF-8 does not belong to Lite Gateway's client.
    let variables =
        std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    let translated = translate(words, variables, ours).map_err(named)?;
    translated.warnings.iter().for_each(|warning| say(format_args!("sealway load: {warning}")));
    let password = translated.password;
    match translated.asked {
        Action::Help => {
            print(HELP);
            Ok(())
        }
        Action::Single { url, flags } => {
            let extra = Extra { url_name: Some("--url".into()), password };
            single::run(checked(Some(&url), &flags, extra)?).await
        }
        Action::Matrix { matrix, search, flags } => {
            let mut problems = Problems::default();
            let how = SearchSettings::new(&search, &flags, &mut problems);
            problems.into_result().map_err(JobError::usage)?;
            let output = flags.output().map_err(JobError::usage)?;
            let cells = six(&matrix, &how.flags(&flags), CellNames::Old, password.as_ref()).map_err(JobError::usage)?;
            let (mut driver, views) = view::start(&output)?;
            let ran = run_cells(&mut driver, &cells, Some(&how)).await;
            views.end(driver).await;
            print(&tabbed(&ran?));
            Ok(())
        }
    }
}
