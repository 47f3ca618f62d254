//! Resources of a process, seen from outside, and how they grow over a long run.

use anyhow::Context;

/// Resources of a process at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory that no file backs, in KiB: what the process has allocated, without its program.
    pub memory_kib: u64,
    /// Number of descriptors that are open.
    pub descriptors: u64,
    /// Number of threads, those that sleep included.
    pub threads: u64,
}

impl Usage {
    /// Reads those of a process of this machine.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn of(pid: u32) -> anyhow::Result<Usage> {
        Ok(Usage {
            memory_kib: status(pid, "RssAnon:")?,
            descriptors: descriptors(pid)?,
            threads: status(pid, "Threads:")?,
        })
    }

    /// Returns the lesser of each resource.
    pub fn least(self, other: Usage) -> Usage {
        Usage {
            memory_kib: self.memory_kib.min(other.memory_kib),
            descriptors: self.descriptors.min(other.descriptors),
            threads: self.threads.min(other.threads),
        }
    }
}

/// Returns the number of a line of `/proc/PID/status`, such as `VmRSS:` in KiB.
///
/// # Errors
/// If there is no such process, or no such line.
pub fn status(pid: u32, name: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no line {name}"))?;
    Ok(line.split_whitespace().next().context("an empty line")?.parse()?)
}

/// Returns the number of open descriptors of a process.
///
/// # Errors
/// If there is no such process.
pub fn descriptors(pid: u32) -> anyhow::Result<u64> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64)
}

/// Returns the growth of a series of (time, value) from its first time to its last: the median of the slopes between all pairs
/// of points (Theil and Sen), times the span. Fewer than half of the points, whatever their values, do not move it far. Returns
/// `None` for fewer than three points.
pub fn growth(series: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (series.first()?, series.last()?);
    if series.len() < 3 {
        return None;
    }
    let mut slopes = Vec::new();
    for (index, (from, before)) in series.iter().enumerate() {
        slopes.extend(series[index + 1..].iter().map(|(to, after)| (after - before) / (to - from)));
    }
    Some(median(&mut slopes)? * (last.0 - first.0))
}

/// Returns the median, and sorts the values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    Some((values.get(middle)? + values.get(values.len().saturating_sub(1) / 2)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(value: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
        (0..20).map(|minute| (minute as f64, value(minute))).collect()
    }

    #[test]
    fn the_growth_of_a_leak_is_seen_through_noise_and_single_peaks() {
        let noise = |minute: usize| [0.0, 3.0, -2.0, 1.0, -3.0][minute % 5];
        let peak = |minute: usize| if minute % 7 == 3 { 500.0 } else { 0.0 };
        let level = growth(&series(|minute| 100.0 + noise(minute) + peak(minute))).unwrap();
        assert!(level.abs() < 4.0, "{level}");
        let leak = growth(&series(|minute| 100.0 + 2.0 * minute as f64 + noise(minute) + peak(minute))).unwrap();
        assert!((leak - 38.0).abs() < 6.0, "{leak}");
        assert_eq!(growth(&series(|_| 1.0)[..2]), None);
    }

    #[test]
    fn the_usage_of_this_process_has_memory_descriptors_and_threads() {
        let before = Usage::of(std::process::id()).unwrap();
        assert!(before.memory_kib > 100 && before.descriptors >= 3 && before.threads >= 1, "{before:?}");
        let held: Vec<_> = (0..10).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let after = Usage::of(std::process::id()).unwrap();
        assert!(after.descriptors >= before.descriptors + held.len() as u64, "{before:?}, {after:?}");
        assert!(Usage::of(u32::MAX).is_err());
    }
}
