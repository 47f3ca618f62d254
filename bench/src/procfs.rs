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

/// Processor time of a process that runs, or has ended and was not waited for yet, all its threads together, those that have
/// ended too, in seconds; to the kernel's tick.
pub(crate) fn cpu_s(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields 14 and 15, counted after the name, which may hold spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |index: usize| fields.get(index).context("a short stat")?.parse::<f64>().context("no number in stat");
    Ok((field(11)? + field(12)?) / rustix::param::clock_ticks_per_second() as f64)
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

/// Processor time of the whole machine so far that was not idle, in nanoseconds; to the kernel's tick.
fn machine_ns() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("an empty /proc/stat")?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = fields.iter().take(8).sum::<u64>() - fields.iter().skip(3).take(2).sum::<u64>();
    Ok(busy * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// What part of the machine somebody else took, measured between two points in time.
pub(crate) struct Others {
    pids: Vec<u32>,
    start: std::time::Instant,
    before_ns: u64,
}

impl Others {
    /// From now on; these processes and this one are not others.
    pub(crate) fn start(pids: &[u32]) -> anyhow::Result<Self> {
        let pids: Vec<u32> = pids.iter().copied().chain([std::process::id()]).collect();
        let before_ns = Self::others_ns(&pids)?;
        Ok(Others { pids, start: std::time::Instant::now(), before_ns })
    }

    /// Share of all cores, in words for a report.
    pub(crate) fn in_words(&self) -> anyhow::Result<String> {
        self.in_words_without(0)
    }

    /// As [`Others::in_words`], without what processes that are gone are known to have used.
    pub(crate) fn in_words_without(&self, gone_ns: u64) -> anyhow::Result<String> {
        // Not `available_parallelism`, which counts the cores that this process may use.
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
