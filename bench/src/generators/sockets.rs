//! Measures the cost of many open connections in `sealway load`, and the growth of its memory over time.

use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::process::{Resource, getrlimit};

use super::tool::InstalledTool;
use super::watch::Running;
use super::{Bench, Case, PATIENCE};
use crate::procfs;
use crate::table::verdict;

/// The goal: this many open connections in this much memory.
const GOAL: usize = 50_000;
const GOAL_MIB: f64 = 1024.0;
/// Descriptors that a process needs beside its connections.
const SPARE: usize = 500;
/// Connections from one address: half of the ports that the system assigns.
const PER_SOURCE: usize = 14_000;
/// Growth that is no leak: pages of the system and the first values of a histogram.
const GROWTH_MAX_MIB: f64 = 2.0;

/// Opens as many connections as possible, each with one request in ten seconds, and prints their cost.
///
/// # Errors
/// If not all connections open.
pub(super) fn open(bench: &Bench<'_>, ours: &InstalledTool, asked: Option<usize>) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20) as usize;
    // nginx is another process and needs as many descriptors as there are connections.
    let most = limit.saturating_sub(SPARE).min(GOAL);
    let count = asked.unwrap_or(most).min(most);
    let sources: Vec<_> = (0..=count / PER_SOURCE).map(|index| format!("--source 127.0.1.{}", index + 1)).collect();
    let seconds = 30;
    let command = format!(
        "load --threads 1 --concurrency {count} --think 10s --ramp-percent-per-second 10 --duration {seconds} --timeout 30s \
         --no-tui --interval 1m --fail-on-errors false {} {}",
        sources.join(" "),
        bench.target.url(Case::Http)
    );
    let few =
        command.replace(&format!("--concurrency {count}"), "--concurrency 1").replace("--duration 30", "--duration 2");
    let least = run(bench, ours, &few, 2, limit)?;
    let before = procfs::descriptors(bench.target.pid())?;
    let mut running = Running::start(&ours.with(&command), bench.folder, Some(limit as u64))?;
    let begin = Instant::now();
    let mut held = 0;
    while !running.has_ended()? && begin.elapsed() < Duration::from_secs(seconds) + PATIENCE {
        running.look();
        held = held.max(procfs::descriptors(bench.target.pid())?.saturating_sub(before));
        std::thread::sleep(Duration::from_millis(200));
    }
    let cost = running.finish(bench.folder, PATIENCE)?;
    ensure!(held + 50 >= count, "only {held} of {count} connections were open at a time");
    println!("## Open connections of ours\n");
    println!("| connections | RSS MiB | KiB each | bar | |\n| ---: | ---: | ---: | ---: | --- |");
    let bar = GOAL_MIB * count as f64 / GOAL as f64;
    println!(
        "| {held} | {:.0} | {:.1} | {bar:.0} MiB | {} |\n",
        cost.rss_mib,
        (cost.rss_mib - least) * 1024.0 / held as f64,
        verdict(cost.rss_mib, bar)
    );
    if count < GOAL {
        println!("The goal is {GOAL} in {GOAL_MIB} MiB; the limit of descriptors here is {limit}.\n");
    }
    Ok(())
}

/// Returns the peak resident memory of a run of `sealway load`, in MiB.
fn run(bench: &Bench<'_>, ours: &InstalledTool, command: &str, seconds: u64, limit: usize) -> anyhow::Result<f64> {
    let running = Running::start(&ours.with(command), bench.folder, Some(limit as u64))?;
    Ok(running.finish(bench.folder, Duration::from_secs(seconds) + PATIENCE)?.rss_mib)
}

/// Runs at full speed for a long time, and compares memory after a fifth of the time with memory at the end.
///
/// # Errors
/// If the run fails.
pub(super) fn memory(bench: &Bench<'_>, ours: &InstalledTool, minutes: f64) -> anyhow::Result<()> {
    let time = Duration::from_secs_f64(minutes * 60.0);
    let command = format!(
        "load --threads 1 --concurrency 50 --duration {}s --no-tui --interval 1m --fail-on-errors false {}",
        time.as_secs(),
        bench.target.url(Case::Http)
    );
    let mut running = Running::start(&ours.with(&command), bench.folder, None)?;
    let begin = Instant::now();
    let (mut early, mut late) = (0, 0);
    while begin.elapsed() + Duration::from_millis(500) < time {
        let now = running.look();
        ensure!(!running.has_ended()?, "it ended before its time");
        if begin.elapsed() < time / 5 {
            early = now;
        }
        late = now;
        std::thread::sleep(Duration::from_millis(100));
    }
    running.finish(bench.folder, PATIENCE)?;
    let (early, late) = (early as f64 / 1024.0, late as f64 / 1024.0);
    println!("## Memory of ours over {minutes} minutes at full speed\n");
    println!("| after a fifth MiB | at the end MiB | growth MiB | bar MiB | |\n| ---: | ---: | ---: | ---: | --- |");
    let growth = late - early;
    println!("| {early:.1} | {late:.1} | {growth:.1} | {GROWTH_MAX_MIB} | {} |\n", verdict(growth, GROWTH_MAX_MIB));
    Ok(())
}
