//! What all calls that are under way may hold of this process's memory together, over all connections: each of its own bounds
//! lets through what a thousand of them at once must not have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a call counts before anything of it was read: its stream, its headers, its place among the tasks. In bytes.
const CALL_LEN: usize = 8 * 1024;

/// So many bytes.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    max: usize,
}

impl Budget {
    /// Of this many bytes.
    pub(super) fn new(max: usize) -> Arc<Budget> {
        Arc::new(Budget { used: AtomicUsize::new(0), max })
    }

    /// Room for a call; nothing where there is none.
    pub(super) fn call(self: &Arc<Self>) -> Option<Held> {
        self.take(CALL_LEN).then(|| Held { budget: self.clone(), len: AtomicUsize::new(CALL_LEN) })
    }

    fn take(&self, len: usize) -> bool {
        let with = |used: usize| used.checked_add(len).filter(|all| *all <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
    }
}

/// What a call holds, given back when the last of it is gone: its request, its task, its answer.
#[derive(Debug)]
pub(super) struct Held {
    budget: Arc<Budget>,
    len: AtomicUsize,
}

impl Held {
    /// Room for so many bytes more; false where there is none.
    pub(super) fn more(&self, len: usize) -> bool {
        let is_taken = len == 0 || self.budget.take(len);
        if is_taken {
            self.len.fetch_add(len, Ordering::Relaxed);
        }
        is_taken
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(*self.len.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_hold_together_stays_within_the_budget_and_comes_back() {
        let budget = Budget::new(3 * CALL_LEN);
        let (one, two) = (budget.call().unwrap(), budget.call().unwrap());
        assert!(one.more(CALL_LEN - 1) && one.more(0) && !one.more(2) && two.more(1) && !two.more(1));
        assert!(budget.call().is_none());
        drop(one);
        let three = budget.call().unwrap();
        drop((two, three));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
        assert!(!budget.call().unwrap().more(usize::MAX), "no sum overflows");
    }

    #[test]
    fn many_threads_hold_no_more_than_there_is() {
        let budget = Budget::new(10 * CALL_LEN);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let held: Vec<_> = (0..4).filter_map(|_| budget.call()).collect();
                        assert!(budget.used.load(Ordering::Relaxed) <= 10 * CALL_LEN);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
