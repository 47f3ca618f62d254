//! A bound on the buffered bytes of all connections.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of buffered bytes, and its bound.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    max: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        Budget { used: AtomicUsize::new(0), max }
    }

    /// Acquires `len` bytes; returns false, and acquires nothing, if that passes the bound.
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
    fn a_request_that_exceeds_the_bound_reserves_nothing() {
        let budget = Budget::new(10);
        assert!(budget.take(6) && !budget.take(5) && budget.take(4));
        budget.give_back(6);
        assert!(budget.take(6) && budget.used() == 10);
    }
}
