//! How many there are of something, within one thread.

use std::cell::Cell;
use std::rc::Rc;

/// A number that goes up and down. Clones are the same gauge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Rc<Cell<u64>>);

/// One that is counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Entered(Gauge);

impl Gauge {
    /// How many there are.
    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }

    /// One more.
    pub(crate) fn enter(&self) -> Entered {
        self.0.set(self.0.get() + 1);
        Entered(self.clone())
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let gauge = &self.0.0;
        gauge.set(gauge.get().saturating_sub(1));
    }
}
