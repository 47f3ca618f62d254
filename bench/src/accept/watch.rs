//! Samples processes while they work: processor time, the busiest second, memory, descriptors.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use crate::procfs;

const PAUSE: Duration = Duration::from_millis(100);
/// The number of samples in one second.
const WINDOW: usize = 10;

/// Resources that a process used.
pub(super) struct Usage {
    pub(super) name: &'static str,
    pid: u32,
    start_ns: u64,
    pub(super) cpu_ns: f64,
    /// The share of a core in the busiest second.
    pub(super) busy_max: f64,
    pub(super) rss_kib_max: u64,
    pub(super) descriptors_max: usize,
    recent: VecDeque<(Instant, u64)>,
}

/// A thread that samples processes until it is stopped.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Vec<Usage>>>,
}

impl Watch {
    pub(super) fn start(processes: &[(&'static str, u32)]) -> anyhow::Result<Self> {
        let mut usages = Vec::new();
        for (name, pid) in processes {
            usages.push(Usage {
                name,
                pid: *pid,
                start_ns: procfs::cpu_ns(*pid)?,
                cpu_ns: 0.0,
                busy_max: 0.0,
                rss_kib_max: 0,
                descriptors_max: 0,
                recent: VecDeque::new(),
            });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut round = 0_usize;
            loop {
                let last = stopped.load(Ordering::Relaxed);
                for usage in &mut usages {
                    usage.look(last || round.is_multiple_of(WINDOW))?;
                }
                if last {
                    return Ok(usages);
                }
                round += 1;
                std::thread::sleep(PAUSE);
            }
        });
        Ok(Watch { stop, thread })
    }

    /// Takes a last sample, and returns the resources that each process used.
    pub(super) fn stop(self) -> anyhow::Result<Vec<Usage>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the watch broke"))?
    }
}

impl Usage {
    fn look(&mut self, thoroughly: bool) -> anyhow::Result<()> {
        let (now, cpu_ns) = (Instant::now(), procfs::cpu_ns(self.pid)?);
        self.cpu_ns = (cpu_ns - self.start_ns) as f64;
        if self.recent.len() == WINDOW
            && let Some((then, before)) = self.recent.pop_front()
        {
            let share = (cpu_ns - before) as f64 / (now - then).as_nanos() as f64;
            self.busy_max = self.busy_max.max(share);
        }
        self.recent.push_back((now, cpu_ns));
        // Listing thousands of descriptors takes processor time from the sampled processes.
        if thoroughly {
            self.rss_kib_max = procfs::memory_kib(self.pid, "VmHWM")?;
            self.descriptors_max = self.descriptors_max.max(procfs::descriptors(self.pid)?);
        }
        Ok(())
    }
}
