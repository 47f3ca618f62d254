//! A bounded set of nonces, each with an expiry. Nothing is evicted before its time: a full set rejects.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use sealway_proto::session::ClaimKey;

use super::ReserveError;

const SHARDS: usize = 64;

/// The set of nonces, in shards.
#[derive(Debug)]
pub(crate) struct Nonces {
    shards: Vec<Mutex<Shard>>,
    len: AtomicUsize,
    len_max: usize,
    cleanup_from: usize,
    swept_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    seen: HashSet<ClaimKey>,
    /// Keys by the second in which they expire, in order; about 16 bytes a key in addition to the set's.
    by_second: VecDeque<(u64, Vec<ClaimKey>)>,
    /// The last second whose keys were removed.
    forgotten: Option<u64>,
}

impl Shard {
    /// Removes every second that is wholly over; returns the number of removed keys.
    fn sweep(&mut self, now_ms: u64) -> usize {
        let mut gone = 0;
        while self.by_second.front().is_some_and(|(second, _)| (second + 1).saturating_mul(1000) <= now_ms) {
            if let Some((second, keys)) = self.by_second.pop_front() {
                gone += keys.len();
                self.forgotten = self.forgotten.max(Some(second));
                for key in keys {
                    self.seen.remove(&key);
                }
            }
        }
        gone
    }

    /// True if a nonce with this stamp may have been taken and forgotten already. Not possible while the clock runs
    /// evenly; but it may step ahead and back, and a request whose stamp was checked in time may take its nonce late,
    /// after a slow body.
    fn may_have_forgotten(&self, stamp_ms: u64, now_ms: u64, expires_ms: u64) -> bool {
        // Keys are kept for at least twice the window, and taken no earlier than a window before their stamp.
        let kept_ms = expires_ms.saturating_sub(now_ms).saturating_sub(1);
        let gone_ms = stamp_ms.saturating_add(kept_ms / 2).saturating_add(1);
        self.forgotten.is_some_and(|second| gone_ms / 1000 <= second)
    }

    fn insert(&mut self, key: ClaimKey, expires_ms: u64) {
        self.seen.insert(key);
        let second = expires_ms / 1000;
        // Nearly always the last second; not when the clock has stepped back, and then a key must not live as long as
        // those that the wrong clock made.
        let at = self.by_second.partition_point(|(known, _)| *known < second);
        match self.by_second.get_mut(at) {
            Some((known, keys)) if *known == second => keys.push(key),
            _ => self.by_second.insert(at, (second, vec![key])),
        }
    }
}

impl Nonces {
    /// Creates a set of at most `len_max` keys; from `cleanup_from` on, all shards are swept before more are taken.
    pub(crate) fn new(len_max: usize, cleanup_from: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Nonces { shards, len: AtomicUsize::new(0), len_max, cleanup_from, swept_ms: AtomicU64::new(0) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Reserves `key` of a request stamped `stamp_ms`, unless the key is or may have been in the set.
    pub(crate) fn reserve(
        &self,
        key: ClaimKey,
        stamp_ms: u64,
        now_ms: u64,
        expires_ms: u64,
    ) -> Result<(), ReserveError> {
        let len = self.len();
        // At most once a second below the bound; at the bound for each new key.
        if len >= self.len_max || (len >= self.cleanup_from && self.swept_ms.load(Ordering::Relaxed) + 1000 <= now_ms) {
            self.sweep(now_ms);
        }
        let shard = usize::from(key.0[0]) % SHARDS;
        let mut shard = self.shards[shard].lock();
        let gone = shard.sweep(now_ms);
        self.len.fetch_sub(gone, Ordering::Relaxed);
        if shard.seen.contains(&key) || shard.may_have_forgotten(stamp_ms, now_ms, expires_ms) {
            return Err(ReserveError::Replayed);
        }
        // Reserve a place before taking it, so that shards cannot together pass the bound.
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.len_max {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return Err(ReserveError::Full);
        }
        shard.insert(key, expires_ms);
        Ok(())
    }

    /// Restores a key from before a restart, beyond the bound if need be: leaving it out could readmit it.
    pub(crate) fn restore(&self, key: ClaimKey, expires_ms: u64) {
        let mut shard = self.shards[usize::from(key.0[0]) % SHARDS].lock();
        if !shard.seen.contains(&key) {
            shard.insert(key, expires_ms);
            self.len.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn sweep(&self, now_ms: u64) {
        self.swept_ms.store(now_ms, Ordering::Relaxed);
        for shard in &self.shards {
            let gone = shard.lock().sweep(now_ms);
            self.len.fetch_sub(gone, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> ClaimKey {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&n.to_le_bytes());
        ClaimKey(key)
    }

    #[test]
    fn a_full_set_refuses_and_evicts_nothing_until_time_has_passed() {
        let nonces = Nonces::new(1000, 800);
        for n in 0..1000 {
            nonces.reserve(key(n), 5_000, 5_000, 605_001).unwrap();
        }
        assert_eq!(nonces.reserve(key(1000), 6_000, 6_000, 606_001), Err(ReserveError::Full));
        for n in 0..1000 {
            assert_eq!(nonces.reserve(key(n), 305_000, 605_000, 1_205_001), Err(ReserveError::Replayed), "{n}");
        }
        // The second that 605,001 ms falls into is over.
        nonces.reserve(key(1000), 606_000, 606_000, 1_206_001).unwrap();
        assert_eq!(nonces.len(), 1);
    }

    #[test]
    fn a_clock_that_steps_back_forgets_nothing_early() {
        let nonces = Nonces::new(1000, 800);
        nonces.reserve(key(1), 100_000, 100_000, 700_001).unwrap();
        nonces.reserve(key(2), 50_000, 50_000, 650_001).unwrap();
        assert_eq!(nonces.reserve(key(2), 350_001, 650_001, 1_250_002), Err(ReserveError::Replayed));
        assert_eq!(nonces.reserve(key(1), 400_000, 700_000, 1_300_001), Err(ReserveError::Replayed));
    }

    #[test]
    fn a_clock_that_steps_ahead_and_back_readmits_nothing() {
        let nonces = Nonces::new(1000, 800);
        nonces.reserve(key(1), 100_000, 100_000, 700_001).unwrap();
        nonces.sweep(9_000_000);
        assert_eq!(nonces.len(), 0);
        assert_eq!(nonces.reserve(key(1), 100_000, 110_000, 710_001), Err(ReserveError::Replayed));
        // Every stamp whose nonce would outlive the forgotten ones is accepted.
        nonces.reserve(key(65), 401_000, 401_000, 1_001_001).unwrap();
    }

    #[test]
    fn a_nonce_taken_late_is_refused_when_its_first_use_may_be_forgotten() {
        let nonces = Nonces::new(1000, 800);
        // Stamped at the future edge of a window of 300 s.
        nonces.reserve(key(1), 400_000, 100_000, 700_001).unwrap();
        nonces.sweep(701_000);
        // Checked at the past edge of the window, taken after a slow body.
        assert_eq!(nonces.reserve(key(1), 400_000, 700_000, 1_300_001), Err(ReserveError::Replayed));
    }

    #[test]
    fn a_nonce_is_kept_through_the_second_of_its_expiry() {
        let nonces = Nonces::new(1000, 800);
        nonces.reserve(key(1), 5_000, 5_000, 605_001).unwrap();
        for (now_ms, len) in [(604_999, 1), (605_001, 1), (605_999, 1), (606_000, 0)] {
            nonces.sweep(now_ms);
            assert_eq!(nonces.len(), len, "{now_ms}");
        }
    }

    #[test]
    fn from_a_number_on_all_expired_nonces_are_removed_at_most_once_a_second() {
        let nonces = Nonces::new(1000, 3);
        // Each in another shard; the shard of a new nonce is always swept.
        let reserve = |n: u32, now_ms: u64, kept_ms: u64| {
            nonces.reserve(key(n), now_ms, now_ms, now_ms + kept_ms).unwrap();
            nonces.len()
        };
        assert_eq!([1, 2].map(|n| reserve(n, 10_000, 1_000)), [1, 2]);
        assert_eq!(reserve(3, 1_000_500, 400), 3, "two are below the number");
        assert_eq!(reserve(4, 1_000_500, 400), 2, "the first two were over");
        assert_eq!(reserve(5, 1_000_500, 100_000), 3);
        assert_eq!(reserve(6, 1_001_499, 100_000), 4, "less than a second after the last search");
        assert_eq!(reserve(7, 1_001_500, 100_000), 3, "the two of 1,000,900 ms were over");
    }

    #[test]
    fn nonces_of_one_second_stand_together_in_the_order_of_time() {
        let mut shard = Shard::default();
        for (n, expires_ms) in [(1, 5_000), (2, 3_999), (3, 5_999), (4, 4_000), (5, 3_000), (6, 6_000)] {
            shard.insert(key(n), expires_ms);
        }
        let listed: Vec<(u64, Vec<ClaimKey>)> = shard.by_second.iter().cloned().collect();
        let keys = |keys: &[u32]| keys.iter().map(|n| key(*n)).collect::<Vec<_>>();
        assert_eq!(listed, [(3, keys(&[2, 5])), (4, keys(&[4])), (5, keys(&[1, 3])), (6, keys(&[6]))]);
        assert_eq!(shard.sweep(5_000), 3);
        assert!(shard.seen.len() == 3 && shard.seen.contains(&key(3)) && !shard.seen.contains(&key(4)));
    }
}
