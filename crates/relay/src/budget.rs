//! A bound on bytes that wait in memory, over all connections.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that wait.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    max: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        Budget { used: AtomicUsize::new(0), max }
    }

    /// Takes so many; false, and nothing taken, when that is too many.
    pub(crate) fn take(&self, len: usize) -> bool {
        let used = self.used.fetch_add(len, Ordering::Relaxed).saturating_add(len);
        let fits = used <= self.max;
        if !fits {
            self.give_back(len);
        }
        fits
    }

    pub(crate) fn give_back(&self, len: usize) {
        self.used.fetch_sub(len, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_takes_nothing() {
        let budget = Budget::new(10);
        assert!(budget.take(6) && !budget.take(5) && budget.take(4));
        budget.give_back(6);
        assert!(budget.take(6) && budget.used() == 10);
    }
}
