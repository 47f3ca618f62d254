//! What the kernel says of a process: processor time to the nanosecond, memory.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// Processor time that the living threads of a process and of its descendants have used, kernel included, in
/// nanoseconds. It is the scheduler's own sum and not a count of ticks; a thread that has ended takes its share with it.
pub(crate) fn cpu_ns(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for pid in family(pid)? {
        for task in tasks(pid)? {
            // A thread may end while it is looked at.
            let Ok(text) = std::fs::read_to_string(task.join("schedstat")) else { continue };
            let field = text.split_whitespace().next().context("an empty schedstat")?;
            sum += field.parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// Resident memory of a process and its descendants, in KiB: `VmRSS` for now, `VmHWM` for the most there was.
pub(crate) fn memory_kib(pid: u32, field: &str) -> anyhow::Result<u64> {
    let mut sum = 0;
    for pid in family(pid)? {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let value = line.with_context(|| format!("no {field} of {pid}"))?.trim().trim_end_matches(" kB");
        sum += value.parse::<u64>()?;
    }
    Ok(sum)
}

/// How many descriptors it has open.
pub(crate) fn descriptors(pid: u32) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// The process and all below it.
fn family(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(&pid) = family.get(at) {
        at += 1;
        for task in tasks(pid)? {
            let Ok(text) = std::fs::read_to_string(task.join("children")) else { continue };
            family.extend(text.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    Ok(family)
}

fn tasks(pid: u32) -> anyhow::Result<Vec<PathBuf>> {
    let folder = format!("/proc/{pid}/task");
    let entries = std::fs::read_dir(Path::new(&folder)).with_context(|| format!("process {pid} is gone"))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
}
