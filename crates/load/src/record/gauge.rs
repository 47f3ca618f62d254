//! Gauge of things that exist at a time, within one thread.

use std::cell::Cell;
use std::rc::Rc;

/// Number that goes up and down. Clones share the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Rc<Cell<u64>>);

/// One unit of a gauge, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl Gauge {
    /// Returns the current value of the gauge.
    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }

    /// Counts one more until the returned value is dropped.
    pub(crate) fn enter(&self) -> GaugeGuard {
        self.0.set(self.0.get() + 1);
        GaugeGuard(self.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        let gauge = &self.0.0;
        gauge.set(gauge.get().saturating_sub(1));
    }
}
