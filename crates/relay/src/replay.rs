//! Used tokens, remembered for as long as they could be used again: until their end and the skew.
//!
//! Nothing is forgotten early. A full memory rejects tokens.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::digest;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use sealway_proto::relay::{Claims, SKEW_S};

const SHARDS: usize = 16;

/// A token's fingerprint: of audience, issuer and token id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenKey(pub(crate) [u8; 16]);

impl TokenKey {
    pub(crate) fn of(claims: &Claims) -> Self {
        TokenKey(fingerprint(&[&claims.aud, &claims.iss, &claims.token_id]))
    }
}

/// Returns the first `N` bytes of the SHA-256 of texts, each after its length.
pub(crate) fn fingerprint<const N: usize>(texts: &[&str]) -> [u8; N] {
    let mut context = digest::Context::new(&digest::SHA256);
    for text in texts {
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text.as_bytes());
    }
    let mut out = [0; N];
    out.copy_from_slice(&context.finish().as_ref()[..N]);
    out
}

/// The result of using a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenUse {
    /// The token was fresh, and is used now.
    Fresh,
    /// The token was used before.
    Replayed,
    /// There is no room to remember it.
    Full,
}

/// A part of the memory.
#[derive(Debug)]
struct Shard {
    /// Used tokens, each with the last second at which it verifies.
    used: HashMap<TokenKey, i64, RandomState>,
    /// The latest such second among the forgotten tokens.
    forgotten_s: i64,
}

impl Default for Shard {
    fn default() -> Self {
        Shard { used: HashMap::default(), forgotten_s: i64::MIN }
    }
}

/// The memory of one process.
#[derive(Debug)]
pub(crate) struct Replays {
    shards: Vec<Mutex<Shard>>,
    len: AtomicUsize,
    max: usize,
}

impl Replays {
    pub(crate) fn new(max: usize) -> Self {
        Replays { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), len: AtomicUsize::new(0), max }
    }

    /// Uses a token, once among all that try.
    pub(crate) fn burn(&self, key: TokenKey, exp_s: i64, now_s: i64) -> TokenUse {
        let until_s = exp_s.saturating_add(SKEW_S);
        let shard = &mut *self.shards[usize::from(key.0[0]) % SHARDS].lock();
        // A clock that stepped ahead has made the memory forget; once it has stepped back, such a token verifies again.
        if until_s <= shard.forgotten_s {
            return TokenUse::Replayed;
        }
        match shard.used.get_mut(&key) {
            // The same names in a later token are not a replay of the expired one.
            Some(known_s) if *known_s < now_s && *known_s < until_s => {
                shard.forgotten_s = shard.forgotten_s.max(*known_s);
                *known_s = until_s;
                TokenUse::Fresh
            }
            Some(_) => TokenUse::Replayed,
            None if self.len.fetch_add(1, Ordering::Relaxed) >= self.max => {
                self.len.fetch_sub(1, Ordering::Relaxed);
                TokenUse::Full
            }
            None => {
                shard.used.insert(key, until_s);
                TokenUse::Fresh
            }
        }
    }

    /// Removes expired entries from the memory.
    pub(crate) fn sweep(&self, now_s: i64) {
        for shard in &self.shards {
            let Shard { used, forgotten_s } = &mut *shard.lock();
            let before = used.len();
            used.retain(|_, until_s| {
                let is_kept = *until_s >= now_s;
                if !is_kept {
                    *forgotten_s = (*forgotten_s).max(*until_s);
                }
                is_kept
            });
            self.len.fetch_sub(before - used.len(), Ordering::Relaxed);
            if used.capacity() > 1024 && used.len() < used.capacity() / 4 {
                let len = used.len();
                used.shrink_to(len * 2);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(first: u8) -> TokenKey {
        TokenKey([first; 16])
    }

    #[test]
    fn a_token_is_remembered_until_its_end_and_the_skew_and_a_full_memory_refuses() {
        let replays = Replays::new(2);
        assert_eq!(replays.burn(key(1), 100, 90), TokenUse::Fresh);
        for now in [90, 100, 101, 130] {
            replays.sweep(now);
            assert_eq!(replays.burn(key(1), 100, now), TokenUse::Replayed, "{now}");
        }
        assert_eq!(replays.burn(key(2), 100, 90), TokenUse::Fresh);
        assert_eq!(replays.burn(key(3), 100, 90), TokenUse::Full);
        assert_eq!(replays.burn(key(2), 100, 90), TokenUse::Replayed, "a full memory forgets nothing");
        replays.sweep(131);
        assert_eq!((replays.len(), replays.burn(key(3), 200, 131)), (0, TokenUse::Fresh));
    }

    #[test]
    fn a_clock_that_steps_ahead_and_back_readmits_no_token() {
        let replays = Replays::new(2);
        assert_eq!(replays.burn(key(1), 100, 90), TokenUse::Fresh);
        replays.sweep(131);
        assert_eq!(replays.burn(key(1), 100, 90), TokenUse::Replayed, "a token that was forgotten");
        assert_eq!(replays.burn(key(1), 101, 90), TokenUse::Fresh, "a token that outlives the forgotten one");
        let replays = Replays::new(2);
        assert_eq!(replays.burn(key(1), 100, 90), TokenUse::Fresh);
        assert_eq!(replays.burn(key(1), 200, 130), TokenUse::Replayed, "the first one verifies still");
        assert_eq!(replays.burn(key(1), 100, 131), TokenUse::Replayed, "a token that expired after it was verified");
        assert_eq!(replays.burn(key(1), 200, 131), TokenUse::Fresh, "a later token of the same name");
        assert_eq!(replays.burn(key(1), 100, 90), TokenUse::Replayed, "a token whose place another one took");
    }

    #[test]
    fn tokens_of_two_issuers_may_have_one_id() {
        let claims = |aud: &str, iss: &str| {
            TokenKey::of(&Claims { aud: aud.into(), iss: iss.into(), token_id: "t".into(), ..Claims::default() })
        };
        assert_ne!(claims("a", "b"), claims("ab", ""));
        assert_eq!(claims("a", "b"), claims("a", "b"));
    }

    #[test]
    fn a_sweep_returns_the_memory_of_tokens_that_expired_and_only_when_most_are_gone() {
        /// Fills one shard, lets all but `kept` tokens expire, and returns the capacity before and after.
        fn swept(kept: impl Fn(usize) -> usize) -> [usize; 3] {
            let replays = Replays::new(10_000);
            let capacity = || replays.shards[0].lock().used.capacity();
            let token = |number: usize| {
                let mut key = [0; 16];
                key[8..].copy_from_slice(&(number as u64).to_be_bytes());
                TokenKey(key)
            };
            for number in 0..2_000 {
                assert_eq!(replays.burn(token(number), 100, 90), TokenUse::Fresh);
            }
            let before = capacity();
            let kept = kept(before);
            for number in 2_000..2_000 + kept {
                assert_eq!(replays.burn(token(number), 1_000, 90), TokenUse::Fresh);
            }
            assert_eq!(capacity(), before, "the test needs one capacity");
            replays.sweep(131);
            assert_eq!(replays.len(), kept);
            [kept, before, capacity()]
        }
        let [kept, before, after] = swept(|_| 100);
        assert!(before > 1_024 && after < 1_024 && after >= 2 * kept, "{before} {after}");
        // Removed entries may leave marks behind, which count as used until the table grows.
        let [_, before, after] = swept(|capacity| capacity / 4);
        assert!(after > before / 2, "{before} {after}");
    }
}
