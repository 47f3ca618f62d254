//! Costs of a process, seen from outside: memory, processor time, threads, descriptors.

use serde::Serialize;

/// Costs of a process during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Resident memory before the first channel or request, in bytes.
    pub(crate) rss_before_bytes: u64,
    /// Highest resident memory that was sampled, in bytes.
    pub(crate) rss_max_bytes: u64,
    /// Last sample of the resident memory while all channels were open and idle, in bytes; null without a sample.
    pub(crate) rss_steady_bytes: Option<u64>,
    /// Processor time until all channels were made, or of all requests, in milliseconds.
    pub(crate) cpu_setup_ms: f64,
    /// Processor time while all channels were open and idle, in milliseconds.
    pub(crate) cpu_steady_ms: f64,
    /// Highest number of threads that was counted.
    pub(crate) threads_max: u64,
    /// Highest number of descriptors that was counted.
    pub(crate) descriptors_max: u64,
}

/// Watches a process of this machine.
#[derive(Debug)]
pub(crate) struct Watch {
    pid: u32,
    began_ms: f64,
    setup_ms: Option<f64>,
    cost: Cost,
}

impl Watch {
    /// Starts watching, with a first sample.
    ///
    /// # Errors
    /// If there is no such process, or its files in `/proc` cannot be read.
    pub(crate) fn start(pid: u32) -> std::io::Result<Self> {
        let rss = rss(pid)?;
        let cost = Cost { rss_before_bytes: rss, rss_max_bytes: rss, ..Cost::default() };
        Ok(Watch { pid, began_ms: cpu_ms(pid)?, setup_ms: None, cost })
    }

    /// Samples memory and processor time. After the process has ended, the last samples stay.
    pub(crate) fn look(&mut self, is_steady: bool) {
        // A process that has ended but was not waited for has no memory.
        if let Some(bytes) = rss(self.pid).ok().filter(|bytes| *bytes > 0) {
            self.cost.rss_max_bytes = self.cost.rss_max_bytes.max(bytes);
            if is_steady {
                self.cost.rss_steady_bytes = Some(bytes);
            }
        }
        let Ok(now) = cpu_ms(self.pid) else { return };
        if is_steady {
            let setup = *self.setup_ms.get_or_insert(now);
            self.cost.cpu_steady_ms = now - setup;
        } else if self.setup_ms.is_none() {
            self.cost.cpu_setup_ms = now - self.began_ms;
        }
    }

    /// Counts threads and descriptors, which takes longer the more there are.
    pub(crate) fn count(&mut self) {
        let of = |folder: &str| std::fs::read_dir(format!("/proc/{}/{folder}", self.pid)).map_or(0, Iterator::count);
        self.cost.threads_max = self.cost.threads_max.max(of("task") as u64);
        self.cost.descriptors_max = self.cost.descriptors_max.max(of("fd") as u64);
    }

    /// Returns the costs that were sampled until now.
    pub(crate) fn cost(&self) -> Cost {
        self.cost
    }
}

/// Returns the processor time of a process, its ended threads included, in milliseconds.
fn cpu_ms(pid: u32) -> std::io::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let odd = || std::io::Error::other(format!("/proc/{pid}/stat has an unexpected form"));
    // The name in brackets may hold any character, also brackets.
    let (_, fields) = stat.rsplit_once(')').ok_or_else(odd)?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || fields.next().and_then(|field| field.parse::<u64>().ok()).ok_or_else(odd);
    let ticks = next()? + next()?;
    Ok(ticks as f64 * 1000.0 / rustix::param::clock_ticks_per_second() as f64)
}

fn rss(pid: u32) -> std::io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.unwrap_or(0) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_measured_before_and_while_it_is_idle() {
        let mut watch = Watch::start(std::process::id()).unwrap();
        watch.look(false);
        assert_eq!(watch.cost().rss_steady_bytes, None);
        watch.look(true);
        watch.count();
        let cost = watch.cost();
        assert!(cost.rss_max_bytes > 1 << 20 && cost.rss_steady_bytes.is_some());
        assert!(cost.threads_max > 0 && cost.descriptors_max > 2);
        assert!(Watch::start(u32::MAX - 1).is_err());
    }
}
