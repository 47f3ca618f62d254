//! What a process costs, seen from outside: memory, processor time, threads, descriptors.

use serde::Serialize;

use crate::preset::poc::{cpu_ms, rss};

/// What was seen of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Resident memory before the first channel, in bytes.
    pub(crate) rss_before_bytes: u64,
    /// Resident memory at most, in bytes.
    pub(crate) rss_max_bytes: u64,
    /// Resident memory when all channels were open and idle, in bytes: the last that was seen; null where none was.
    pub(crate) rss_steady_bytes: Option<u64>,
    /// Processor time until no more channels were made, in milliseconds.
    pub(crate) cpu_setup_ms: f64,
    /// Processor time while all were open and idle, in milliseconds.
    pub(crate) cpu_steady_ms: f64,
    /// Threads at most.
    pub(crate) threads_max: u64,
    /// Descriptors at most.
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
    /// From now on.
    ///
    /// # Errors
    /// When there is no such process, or it cannot be looked at.
    pub(crate) fn start(pid: u32) -> std::io::Result<Self> {
        let rss = rss(pid)?;
        let cost = Cost { rss_before_bytes: rss, rss_max_bytes: rss, ..Cost::default() };
        Ok(Watch { pid, began_ms: cpu_ms(pid)?, setup_ms: None, cost })
    }

    /// Looks at memory and processor time. Of a process that has ended what was seen last stays.
    pub(crate) fn look(&mut self, is_steady: bool) {
        // One that has ended and was not waited for has none.
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

    /// What was seen.
    pub(crate) fn cost(&self) -> Cost {
        self.cost
    }
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
