//! Control of a run in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Handle that controls a run. Clones share its state.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<ControlState>);

#[derive(Debug)]
struct ControlState {
    paused: AtomicBool,
    stopped: AtomicBool,
    /// Factor on the planned rate or concurrency, in thousandths.
    scale: AtomicU64,
}

impl Default for ControlState {
    fn default() -> Self {
        ControlState { paused: AtomicBool::new(false), stopped: AtomicBool::new(false), scale: AtomicU64::new(1000) }
    }
}

impl Control {
    /// Pauses or resumes the run. A pause starts no requests; requests due meanwhile are not caught up.
    pub fn pause(&self, paused: bool) {
        self.0.paused.store(paused, Ordering::Relaxed);
    }

    /// Returns whether the run is paused.
    pub fn is_paused(&self) -> bool {
        self.0.paused.load(Ordering::Relaxed)
    }

    /// Ends the run now; requests under way are cut and counted as unfinished.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Control::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// Multiplies the planned rate (open loop) or concurrency (closed loop) by a factor, clamped to 0.001..=1000.
    pub fn scale(&self, factor: f64) {
        self.0.scale.store((factor * 1000.0).clamp(1.0, 1e6) as u64, Ordering::Relaxed);
    }

    /// Returns the factor in force.
    pub fn scaled(&self) -> f64 {
        self.0.scale.load(Ordering::Relaxed) as f64 / 1000.0
    }
}
