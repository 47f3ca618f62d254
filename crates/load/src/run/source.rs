//! Runs plans of other sources: a preset, a JMeter plan, or the flags of Lite Gateway's load client.

use std::sync::Arc;
use std::time::Duration;

use sealway_runtime::config::{ConfigError, Problems};
use sealway_runtime::shutdown::StopSignals;
use tokio::sync::Notify;

use super::single::{ended, leave};
use super::sweep::{How, run_cells};
use super::{Failure, checked, print, say, single, view};
use crate::channel::{Cost, Watch};
use crate::flags::values::whole;
use crate::flags::{Extra, Flags, LoadArgs, given};
use crate::matrix::{Naming, six, tabbed};
use crate::preset::litegateway::{Asked, HELP, translate};
use crate::preset::{poc, session};
use crate::report::{Machine, Report};

/// Time between two samples of a watched process.
const LOOK: Duration = Duration::from_millis(200);

/// Runs a single plan, from flags, a preset, a JMeter plan or the flags of Lite Gateway's load client.
pub(super) async fn run(mut args: LoadArgs) -> Result<(), Failure> {
    if let Some(words) = &args.source.litegateway {
        return litegateway(words, &args.flags).await;
    }
    match args.source.preset.as_deref() {
        Some("poc") => return proof(&args).await,
        Some("session") => return benchmark(&args).await,
        Some(other) => return Err(Failure::usage(format!("--preset {other}: expected one of poc, session"))),
        None => {}
    }
    let without = [("--benchmark", args.source.benchmark.is_some()), ("--watch-pid", args.source.watch_pid.is_some())];
    let mut problems = Problems::default();
    for (flag, _) in without.into_iter().filter(|(_, given)| *given) {
        problems.add(flag, "is of a preset: --preset session has --benchmark, --preset poc has --watch-pid");
    }
    problems.into_result().map_err(Failure::usage)?;
    if let Some(file) = &args.source.jmeter {
        let plan = crate::jmeter::read(std::path::Path::new(file)).map_err(Failure::usage)?;
        plan.warnings.iter().for_each(|warning| say(format_args!("sealway load: {warning}")));
        args.flags.fill(&plan.flags).map_err(Failure::failed)?;
        args.url = args.url.or(plan.url);
    }
    single::run(checked(args.url.as_deref(), &args.flags, Extra::default())?).await
}

/// Runs the acceptance test of `--preset poc`.
async fn proof(args: &LoadArgs) -> Result<(), Failure> {
    let mut problems = Problems::default();
    let pid = whole(&mut problems, "--watch-pid", &args.source.watch_pid, 1..=u64::from(u32::MAX));
    problems.into_result().map_err(Failure::usage)?;
    let mut flags = args.flags.clone();
    flags.fill(&poc::flags()).map_err(Failure::failed)?;
    let job = checked(args.url.as_deref(), &flags, Extra::default())?;
    if job.plan.target.tls.as_ref().is_none_or(|tls| tls.files.cert.is_none()) {
        say(
            "sealway load: no certificate is shown (--cert): these are not the mTLS connections of the acceptance test",
        );
    }
    let watch = pid.map(|pid| Watch::start(pid as u32)).transpose();
    let watch = watch.map_err(|err| Failure::usage(format!("--watch-pid: {err}")))?;
    let (mut driver, views) = view::start(&job.output)?;
    let stop = Arc::new(Notify::new());
    let watching = watch.map(|watch| tokio::spawn(look(watch, Arc::clone(&stop))));
    let ran = driver.run(job.plan, Duration::ZERO).await;
    stop.notify_one();
    let usage = match watching {
        Some(watching) => watching.await.ok(),
        None => None,
    };
    drop(driver);
    views.end().await;
    let (outcome, _) = ran.map_err(Failure::failed)?;
    let report = Report::new(&outcome, &job.verdict.thresholds, Machine::here());
    let mut reasons = Vec::new();
    leave(&report, &job.output, &mut reasons);
    let verdict = poc::verdict(&outcome, usage.as_ref());
    let text = verdict.text();
    if job.output.json_lines || job.output.out.iter().any(|(file, _)| file.as_os_str() == "-") {
        say(text.trim_end());
    } else {
        print(&text);
    }
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
async fn benchmark(args: &LoadArgs) -> Result<(), Failure> {
    let taken = ["--concurrency"];
    let others: Vec<_> = given(&args.flags).into_iter().filter(|flag| !taken.contains(&flag.as_str())).collect();
    if let Some(flag) = others.first() {
        return Err(Failure::usage(format!("{flag}: the preset session takes --benchmark and --concurrency alone")));
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let concurrency = args.flags.arrival.concurrency.as_ref();
    let benchmark = session::Benchmark::new(args.url.as_deref(), args.source.benchmark.as_ref(), concurrency, variable);
    let benchmark = benchmark.map_err(Failure::usage)?;
    let stop = Arc::new(Notify::new());
    let mut signals = StopSignals::install().map_err(Failure::failed)?;
    let stopping = Arc::clone(&stop);
    tokio::spawn(async move {
        signals.stopped().await;
        stopping.notify_one();
    });
    let figures = session::run(&benchmark, stop, |line| print(&format!("{line}\n"))).await.map_err(Failure::failed)?;
    print(&figures.block(benchmark.workers));
    if figures.failed > 0 { Err(Failure::Failed(None)) } else { Ok(()) }
}

/// Runs the job of the arguments after `--litegateway`.
async fn litegateway(words: &[String], ours: &Flags) -> Result<(), Failure> {
    let named = |err: ConfigError| {
        Failure::Usage(err.0.lines().map(|line| format!("--litegateway: {line}")).collect::<Vec<_>>().join("\n"))
    };
    // A variable that is not UTF-8 does not belong to Lite Gateway's client.
    let variables =
        std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    let translated = translate(words, variables, ours).map_err(named)?;
    translated.warnings.iter().for_each(|warning| say(format_args!("sealway load: {warning}")));
    let password = translated.password;
    match translated.asked {
        Asked::Help => {
            print(HELP);
            Ok(())
        }
        Asked::Single { url, flags } => {
            let extra = Extra { url_name: Some("--url".into()), password };
            single::run(checked(Some(&url), &flags, extra)?).await
        }
        Asked::Matrix { matrix, search, flags } => {
            let mut problems = Problems::default();
            let how = How::new(&search, &flags, &mut problems);
            problems.into_result().map_err(Failure::usage)?;
            let output = flags.output().map_err(Failure::usage)?;
            let cells = six(&matrix, &how.flags(&flags), Naming::Old, password.as_ref()).map_err(Failure::usage)?;
            let (mut driver, views) = view::start(&output)?;
            let ran = run_cells(&mut driver, &cells, Some(&how)).await;
            drop(driver);
            views.end().await;
            print(&tabbed(&ran?));
            Ok(())
        }
    }
}
