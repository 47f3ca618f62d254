//! Counts messages encrypted under a key's version with random nonces: nonces of 96 bits may serve 2^32 messages over
//! the version's life (SP 800-38D section 8.3), and no more are granted.
//!
//! The count is recorded in advance: no message is encrypted that the disk does not already allow, so that a crash
//! loses counts and never repeats nonces.

use std::sync::atomic::{AtomicU64, Ordering};

/// Most messages under one version with random nonces.
pub(crate) const SEALS_MAX: u64 = 1 << 32;
/// Messages reserved per write; also the most that a crash wastes.
pub(crate) const STEP: u64 = 1 << 18;

/// Message count of a version.
#[derive(Debug)]
pub(crate) struct Seals {
    used: AtomicU64,
    /// Count that the disk allows.
    reserved: AtomicU64,
}

/// Result of a claim for messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The messages may be encrypted.
    Granted,
    /// The disk must allow more first.
    Raise(Raise),
    /// The version has no messages left.
    Exhausted,
}

/// Reservation to write before more messages are granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raise {
    /// Smallest sufficient total of messages.
    pub(crate) least: u64,
    /// Total that makes the write worthwhile.
    pub(crate) most: u64,
}

impl Seals {
    /// Creates the count after a start: all reserved messages count as used.
    pub(crate) fn new(reserved: u64) -> Seals {
        Seals { used: AtomicU64::new(reserved), reserved: AtomicU64::new(reserved) }
    }

    /// Claims `count` messages; the total is at most [`SEALS_MAX`].
    pub(crate) fn claim(&self, count: u64) -> Claim {
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let next = used.saturating_add(count);
            if next > SEALS_MAX {
                return Claim::Exhausted;
            }
            if next > self.reserved.load(Ordering::Acquire) {
                return Claim::Raise(Raise { least: next, most: next.saturating_add(STEP).min(SEALS_MAX) });
            }
            match self.used.compare_exchange_weak(used, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Claim::Granted,
                Err(now) => used = now,
            }
        }
    }

    /// Records that the disk allows this many messages.
    pub(crate) fn raised(&self, reserved: u64) {
        self.reserved.fetch_max(reserved, Ordering::Release);
    }

    /// Returns the messages that the disk allows.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Grants no further messages, and returns the used ones: for the last write of a store's life.
    pub(crate) fn close(&self) -> u64 {
        self.used.swap(SEALS_MAX, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_use_is_granted_beyond_the_count_on_the_disk() {
        let seals = Seals::new(0);
        assert_eq!(seals.claim(1), Claim::Raise(Raise { least: 1, most: 1 + STEP }));
        seals.raised(3);
        assert_eq!((seals.claim(2), seals.claim(1)), (Claim::Granted, Claim::Granted));
        assert_eq!(seals.claim(1), Claim::Raise(Raise { least: 4, most: 4 + STEP }));
        // A restart: all reserved messages count as used.
        assert_eq!(Seals::new(3 + STEP).claim(1), Claim::Raise(Raise { least: 4 + STEP, most: 4 + 2 * STEP }));
    }

    #[test]
    fn no_message_is_sealed_after_the_last_one_of_a_key_version() {
        let seals = Seals::new(SEALS_MAX - 2);
        assert_eq!(seals.claim(3), Claim::Exhausted);
        assert_eq!(seals.claim(2), Claim::Raise(Raise { least: SEALS_MAX, most: SEALS_MAX }));
        seals.raised(SEALS_MAX);
        assert_eq!((seals.claim(2), seals.claim(1)), (Claim::Granted, Claim::Exhausted));
    }

    #[test]
    fn concurrent_claims_never_exceed_the_reservation() {
        let seals = Seals::new(0);
        seals.raised(10_000);
        let granted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while seals.claim(3) == Claim::Granted {
                        granted.fetch_add(3, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(granted.load(Ordering::Relaxed), 9_999);
    }
}
