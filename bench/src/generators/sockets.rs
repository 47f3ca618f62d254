//! What ours needs for many open connections, and whether its memory grows with time.

use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::process::{Resource, getrlimit};

use super::tool::Found;
use super::watch::Running;
use super::{Bench, Case, PATIENCE};
use crate::procfs;
use crate::table::verdict;

/// The goal: so many open connections in so much memory.
const GOAL: usize = 50_000;
const GOAL_MIB: f64 = 1024.0;
/// Descriptors that a process needs besides.
const SPARE: usize = 500;
/// Connections from one address: half of the ports that the system gives out.
const PER_SOURCE: usize = 14_000;
/// Growth of memory that is none: what the system's pages and a histogram's first values make.
const GROWTH_MAX_MIB: f64 = 2.0;

/// Opens as many connections as can be, each with a request once in ten seconds, and prints what they need.
///
/// # Errors
/// When they do not all open.
pub(super) fn open(bench: &Bench<'_>, ours: &Found, asked: Option<usize>) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20) as usize;
    // nginx has as many descriptors as connections, in a process of its own.
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

/// Most resident MiB of a run of ours.
fn run(bench: &Bench<'_>, ours: &Found, command: &str, seconds: u64, limit: usize) -> anyhow::Result<f64> {
    let running = Running::start(&ours.with(command), bench.folder, Some(limit as u64))?;
    Ok(running.finish(bench.folder, Duration::from_secs(seconds) + PATIENCE)?.rss_mib)
}

/// A long run at full speed: its memory after a fifth of the time and at the end.
///
/// # Errors
/// When the run fails.
pub(super) fn memory(bench: &Bench<'_>, ours: &Found, minutes: f64) -> anyhow::Result<()> {
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
