//! What the kernel says of a process: processor time to the nanosecond, memory, descriptors.

use anyhow::Context;

/// Processor time that the living threads of a process have used, kernel included, in nanoseconds. It is the scheduler's
/// own sum and not a count of ticks; a thread that has ended takes its share with it. No process that is measured here
/// has workers that are processes.
pub(crate) fn cpu_ns(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    let folder = format!("/proc/{pid}/task");
    for task in std::fs::read_dir(&folder).with_context(|| format!("process {pid} is gone"))? {
        // A thread may end while it is looked at.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let field = text.split_whitespace().next().context("an empty schedstat")?;
        sum += field.parse::<u64>()?;
    }
    Ok(sum)
}

/// Resident memory of a process, in KiB: `VmRSS` for now, `VmHWM` for the most there was.
pub(crate) fn memory_kib(pid: u32, field: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = line.with_context(|| format!("no {field} of {pid}"))?.trim().trim_end_matches(" kB");
    Ok(value.parse()?)
}

/// How many descriptors it has open.
pub(crate) fn descriptors(pid: u32) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}
