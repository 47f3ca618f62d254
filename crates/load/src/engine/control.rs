//! What can be changed while a run goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A handle on a run. Clones are the same handle.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    paused: AtomicBool,
    stopped: AtomicBool,
    /// Of the planned rate or concurrency, in thousandths.
    scale: AtomicU64,
}

impl Default for Shared {
    fn default() -> Self {
        Shared { paused: AtomicBool::new(false), stopped: AtomicBool::new(false), scale: AtomicU64::new(1000) }
    }
}

impl Control {
    /// Starts no more requests until it is called with false. What is due meanwhile is not made up for.
    pub fn pause(&self, paused: bool) {
        self.0.paused.store(paused, Ordering::Relaxed);
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.0.paused.load(Ordering::Relaxed)
    }

    /// Ends the run now; what is under way is cut and counted as unfinished.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was told to end.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// Multiplies the planned rate (open model) or concurrency (closed model): 0.001 to 1000.
    pub fn scale(&self, factor: f64) {
        self.0.scale.store((factor * 1000.0).clamp(1.0, 1e6) as u64, Ordering::Relaxed);
    }

    /// The factor in force.
    pub fn scaled(&self) -> f64 {
        self.0.scale.load(Ordering::Relaxed) as f64 / 1000.0
    }
}
