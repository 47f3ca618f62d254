//! How many messages were sealed under a key's version with nonces of the broker's: random ones of 96 bits may serve 2^32
//! messages (SP 800-38D section 8.3), and no more is granted, over all of the version's life.
//!
//! The count is written ahead: no message is sealed that the disk does not already allow for, so a crash loses counts and
//! never nonces.

use std::sync::atomic::{AtomicU64, Ordering};

/// Messages under one version with random nonces.
pub(crate) const SEALS_MAX: u64 = 1 << 32;
/// How far ahead the count is written: one write for so many messages, and what a crash costs of the version's life.
pub(crate) const STEP: u64 = 1 << 18;

/// A version's count.
#[derive(Debug)]
pub(crate) struct Seals {
    used: AtomicU64,
    /// On the disk.
    reserved: AtomicU64,
}

/// What a claim of messages came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// They may be sealed.
    Granted,
    /// The disk must allow for more first.
    Raise(Raise),
    /// The version has sealed all that it may.
    Exhausted,
}

/// What the disk must allow for before more is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raise {
    /// So many messages in all are needed.
    pub(crate) least: u64,
    /// So many are worth a write.
    pub(crate) most: u64,
}

impl Seals {
    /// After a start: whatever was reserved counts as used.
    pub(crate) fn new(reserved: u64) -> Seals {
        Seals { used: AtomicU64::new(reserved), reserved: AtomicU64::new(reserved) }
    }

    /// Claims `count` messages, at most [`SEALS_MAX`] in all.
    pub(crate) fn claim(&self, count: u64) -> Claimed {
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let next = used.saturating_add(count);
            if next > SEALS_MAX {
                return Claimed::Exhausted;
            }
            if next > self.reserved.load(Ordering::Acquire) {
                return Claimed::Raise(Raise { least: next, most: next.saturating_add(STEP).min(SEALS_MAX) });
            }
            match self.used.compare_exchange_weak(used, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Claimed::Granted,
                Err(now) => used = now,
            }
        }
    }

    /// That the disk allows for so many from now on.
    pub(crate) fn raised(&self, reserved: u64) {
        self.reserved.fetch_max(reserved, Ordering::Release);
    }

    /// What the disk allows for.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Grants nothing more, and says what was used: for the last write of a store's life.
    pub(crate) fn close(&self) -> u64 {
        self.used.swap(SEALS_MAX, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_granted_that_the_disk_does_not_allow_for() {
        let seals = Seals::new(0);
        assert_eq!(seals.claim(1), Claimed::Raise(Raise { least: 1, most: 1 + STEP }));
        seals.raised(3);
        assert_eq!((seals.claim(2), seals.claim(1)), (Claimed::Granted, Claimed::Granted));
        assert_eq!(seals.claim(1), Claimed::Raise(Raise { least: 4, most: 4 + STEP }));
        // A restart: what was reserved counts as used.
        assert_eq!(Seals::new(3 + STEP).claim(1), Claimed::Raise(Raise { least: 4 + STEP, most: 4 + 2 * STEP }));
    }

    #[test]
    fn the_last_message_of_a_version_is_the_last() {
        let seals = Seals::new(SEALS_MAX - 2);
        assert_eq!(seals.claim(3), Claimed::Exhausted);
        assert_eq!(seals.claim(2), Claimed::Raise(Raise { least: SEALS_MAX, most: SEALS_MAX }));
        seals.raised(SEALS_MAX);
        assert_eq!((seals.claim(2), seals.claim(1)), (Claimed::Granted, Claimed::Exhausted));
    }

    #[test]
    fn claims_of_many_threads_add_up_to_no_more_than_was_reserved() {
        let seals = Seals::new(0);
        seals.raised(10_000);
        let granted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while seals.claim(3) == Claimed::Granted {
                        granted.fetch_add(3, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(granted.load(Ordering::Relaxed), 9_999);
    }
}
