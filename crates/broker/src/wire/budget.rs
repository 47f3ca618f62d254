//! What all calls that are under way may hold of this process's memory together, over all connections: each of its own bounds
//! lets through what a thousand of them at once must not have. One user has three quarters of it at most, so that who sends
//! without end, or reads nothing, leaves room for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a call counts before anything of it was read: its stream, its headers, its place among the tasks. In bytes.
const CALL_LEN: usize = 8 * 1024;
/// Counters of users; those of two may be one.
const USERS: u32 = 64;

/// So many bytes.
#[derive(Debug)]
pub(super) struct Budget {
    all: Part,
    users: [Part; USERS as usize],
}

/// A part of it, counted by itself.
#[derive(Debug)]
struct Part {
    used: AtomicUsize,
    max: usize,
}

impl Part {
    fn new(max: usize) -> Part {
        Part { used: AtomicUsize::new(0), max }
    }

    fn take(&self, len: usize) -> bool {
        let with = |used: usize| used.checked_add(len).filter(|all| *all <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
    }

    fn give_back(&self, len: usize) {
        self.used.fetch_sub(len, Ordering::Relaxed);
    }
}

impl Budget {
    /// Of this many bytes.
    pub(super) fn new(max: usize) -> Arc<Budget> {
        Arc::new(Budget { all: Part::new(max), users: std::array::from_fn(|_| Part::new(max - max / 4)) })
    }

    /// Room for a call of this user's; nothing where there is none.
    pub(super) fn call(self: &Arc<Self>, uid: u32) -> Option<Held> {
        let user = (uid % USERS) as usize;
        self.take(user, CALL_LEN).then(|| Held { budget: self.clone(), user, len: AtomicUsize::new(CALL_LEN) })
    }

    fn take(&self, user: usize, len: usize) -> bool {
        let own = &self.users[user];
        if !own.take(len) {
            return false;
        }
        let is_taken = self.all.take(len);
        if !is_taken {
            own.give_back(len);
        }
        is_taken
    }
}

/// What a call holds, given back when the last of it is gone: its request, its task, its answer.
#[derive(Debug)]
pub(super) struct Held {
    budget: Arc<Budget>,
    user: usize,
    len: AtomicUsize,
}

impl Held {
    /// Room for so many bytes more; false where there is none.
    pub(super) fn more(&self, len: usize) -> bool {
        let is_taken = len == 0 || self.budget.take(self.user, len);
        if is_taken {
            self.len.fetch_add(len, Ordering::Relaxed);
        }
        is_taken
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let len = *self.len.get_mut();
        self.budget.users[self.user].give_back(len);
        self.budget.all.give_back(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(budget: &Budget) -> usize {
        let users: usize = budget.users.iter().map(|part| part.used.load(Ordering::Relaxed)).sum();
        assert_eq!(users, budget.all.used.load(Ordering::Relaxed));
        users
    }

    #[test]
    fn what_calls_hold_together_stays_within_the_budget_and_comes_back() {
        let budget = Budget::new(4 * CALL_LEN);
        let (one, two) = (budget.call(1).unwrap(), budget.call(1).unwrap());
        assert!(one.more(CALL_LEN - 1) && one.more(0) && !one.more(2) && two.more(1) && !two.more(1));
        assert!(budget.call(1).is_none(), "three quarters are one user's");
        let other = budget.call(2).unwrap();
        assert!(!other.more(1) && budget.call(3).is_none(), "there is no more than all of it");
        drop(one);
        let three = budget.call(1).unwrap();
        drop((two, three, other));
        assert_eq!(used(&budget), 0);
        assert!(!budget.call(1).unwrap().more(usize::MAX), "no sum overflows");
    }

    #[test]
    fn many_threads_hold_no_more_than_there_is() {
        let budget = Budget::new(10 * CALL_LEN);
        std::thread::scope(|scope| {
            for uid in 0..4 {
                let budget = &budget;
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        let held: Vec<_> = (0..4).filter_map(|_| budget.call(uid)).collect();
                        assert!(budget.all.used.load(Ordering::Relaxed) <= 10 * CALL_LEN);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(used(&budget), 0);
    }
}
