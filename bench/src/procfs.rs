//! Reads the kernel's figures of a process: processor time in nanoseconds, memory, descriptors.

use anyhow::Context;

/// Returns the processor time that the living threads of a process have used, kernel included, in nanoseconds. It is the
/// scheduler's own sum and not a count of ticks; it does not include threads that have ended. No process measured here has
/// workers that are processes.
pub(crate) fn cpu_ns(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    let folder = format!("/proc/{pid}/task");
    for task in std::fs::read_dir(&folder).with_context(|| format!("process {pid} is gone"))? {
        // A thread may end while it is being read.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let field = text.split_whitespace().next().context("an empty schedstat")?;
        sum += field.parse::<u64>()?;
    }
    Ok(sum)
}

/// Returns the processor time of a process in seconds, rounded to the kernel's tick. The process may be running, or a zombie;
/// threads that have ended are included.
pub(crate) fn cpu_s(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields 14 and 15, counted after the name, which may contain spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |index: usize| fields.get(index).context("a short stat")?.parse::<f64>().context("no number in stat");
    Ok((field(11)? + field(12)?) / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns resident memory of a process in KiB: `VmRSS` is the current value, `VmHWM` the peak.
pub(crate) fn memory_kib(pid: u32, field: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = line.with_context(|| format!("no {field} of {pid}"))?.trim().trim_end_matches(" kB");
    Ok(value.parse()?)
}

/// Returns the number of descriptors that a process has open.
pub(crate) fn descriptors(pid: u32) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Returns the processor time of the whole machine so far without idle time, in nanoseconds, rounded to the kernel's tick.
fn machine_ns() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("an empty /proc/stat")?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = fields.iter().take(8).sum::<u64>() - fields.iter().skip(3).take(2).sum::<u64>();
    Ok(busy * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// The share of the machine that other processes used between two points in time.
pub(crate) struct Others {
    pids: Vec<u32>,
    start: std::time::Instant,
    before_ns: u64,
}

impl Others {
    /// Starts now. These processes and this one do not count as others.
    pub(crate) fn start(pids: &[u32]) -> anyhow::Result<Self> {
        let pids: Vec<u32> = pids.iter().copied().chain([std::process::id()]).collect();
        let before_ns = Self::others_ns(&pids)?;
        Ok(Others { pids, start: std::time::Instant::now(), before_ns })
    }

    /// Returns the share of all cores, as a sentence for a report.
    pub(crate) fn in_words(&self) -> anyhow::Result<String> {
        self.in_words_without(0)
    }

    /// Does the same as [`Others::in_words`], and subtracts the processor time of measured processes that have exited.
    pub(crate) fn in_words_without(&self, gone_ns: u64) -> anyhow::Result<String> {
        // `available_parallelism` counts only the cores that this process may use.
        let text = std::fs::read_to_string("/proc/stat")?;
        let cores = text.lines().filter(|line| line.starts_with("cpu")).count() - 1;
        let time = self.start.elapsed().as_nanos() as f64 * cores as f64;
        let share = Self::others_ns(&self.pids)?.saturating_sub(self.before_ns + gone_ns) as f64 / time * 100.0;
        Ok(format!("Other processes took {share:.0} % of the machine meanwhile."))
    }

    fn others_ns(pids: &[u32]) -> anyhow::Result<u64> {
        let mut ours = 0;
        for pid in pids {
            ours += (cpu_s(*pid)? * 1e9) as u64;
        }
        Ok(machine_ns()?.saturating_sub(ours))
    }
}
