//! A process's children and their processor time, from `/proc`.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Returns the fields of `/proc/PID/stat` after the name, which may contain any character: the first is the state, the second
/// the parent.
fn stat(pid: Pid) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Returns the living children of a process.
pub(super) fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(|pid| stat(*pid).is_some_and(|fields| fields.get(1) == Some(&parent))).collect()
}

/// Sends a signal to each of them; processes that are gone are ignored.
pub(super) fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _ = kill_process(*pid, signal);
    }
}

/// Waits until none of them lives.
pub(super) fn wait_for_end(pids: &[Pid], at_most: Duration) -> anyhow::Result<()> {
    let until = Instant::now() + at_most;
    // A dead process that nobody has waited for is still present, as a zombie.
    let lives = |pid: &Pid| {
        test_kill_process(*pid).is_ok() && stat(*pid).is_some_and(|fields| fields.first().is_some_and(|s| s != "Z"))
    };
    while pids.iter().any(lives) {
        if Instant::now() > until {
            bail!("some of {pids:?} do not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns the processor time of a process, of its living children and of those that it has waited for.
pub(super) fn cpu(pid: Pid) -> Duration {
    let own: u64 = ticks(pid, 11..15);
    // User and system time; a child's own children are not of interest.
    let theirs: u64 = children(pid).into_iter().map(|child| ticks(child, 11..13)).sum();
    Duration::from_secs_f64((own + theirs) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn ticks(pid: Pid, fields: std::ops::Range<usize>) -> u64 {
    let stat = stat(pid).unwrap_or_default();
    stat.get(fields).unwrap_or_default().iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}
