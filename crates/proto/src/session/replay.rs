//! Replay protection by types: an opened message cannot be used before its nonce is reserved.
//!
//! [`NonceGuard`] holds a value that is not accessible yet and shows only a [`Claim`]. A store reserves the claim, once among
//! all that try, and turns it into a [`Fresh`], which releases the value. On sealed calls an `NonceGuard` exists only after the
//! tag has verified, so an attacker without the key can use up no nonce and fill no store.

use core::fmt;

use crate::crypto::Provider;
use crate::error::Error;
use crate::wire::{Nonce, ReplayPolicy, SessionId, Timestamp};

/// The key under which a store remembers a nonce: SHA-256 over its scope and itself, cut to 128 bits. A collision would reject
/// a fresh nonce; it can never admit a used one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimKey(pub [u8; 16]);

impl fmt::Debug for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimKey({:032x})", u128::from_be_bytes(self.0))
    }
}

/// The scope within which a nonce must be unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Wire 2 init: the client id, in both families of endpoints together.
    Client(&'a str),
    /// Wire 1 init: one scope for all of them.
    Wire1Init,
    /// Sealed calls: the id of the session.
    Session(&'a SessionId),
    /// Proofs of a key (RFC 9449): the key's thumbprint (RFC 7638), 43 characters.
    Proof(&'a str),
}

/// A nonce to be reserved in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    key: ClaimKey,
    sealed: bool,
    stamp_ms: u64,
    now_ms: u64,
    expires_ms: u64,
    /// The time from which on the key of an unstamped message has been accepted.
    key_since_ms: Option<u64>,
}

/// The tag of claims under a key configuration; the scopes of sessions have 1 to 4.
#[cfg(feature = "one-shot")]
const KEY_TAG: u8 = 5;

impl Claim {
    pub(crate) fn new(
        provider: &dyn Provider,
        scope: Scope<'_>,
        nonce: Nonce<'_>,
        stamp: &Timestamp<'_>,
        now_ms: u64,
        policy: &ReplayPolicy,
    ) -> Self {
        let key = claim_key(provider, scope, nonce.as_str());
        let sealed = matches!(scope, Scope::Session(_));
        let expires_ms = expires_ms(now_ms, policy);
        Claim { key, sealed, stamp_ms: stamp.ms(), now_ms, expires_ms, key_since_ms: None }
    }

    /// Creates the claim of a proof's `jti`, within the key that signed it; `thumbprint` is the key's, `stamp_ms` the proof's
    /// `iat`. Any client can make a key and sign with it, so such claims are bounded as those of inits are.
    ///
    /// # Errors
    /// [`Error::TimestampOutsideWindow`].
    // SPEC session.md#nonces
    pub fn of_proof(
        provider: &dyn Provider,
        thumbprint: &str,
        jti: &str,
        stamp_ms: u64,
        now_ms: u64,
        policy: &ReplayPolicy,
    ) -> Result<Self, Error> {
        Claim::passed_on(claim_key(provider, Scope::Proof(thumbprint), jti), false, stamp_ms, now_ms, policy)
    }

    /// Creates the claim of a request on wire 4: the encapsulated secret within the key that opened the request. `hash` is SHA-256 of the
    /// key configuration. Any client can make a request without a pre-shared key, so such a claim is bounded as those of inits
    /// are: `is_sealed` is false for it.
    // SPEC one-shot.md#claims
    #[cfg(feature = "one-shot")]
    pub(crate) fn one_shot(
        provider: &dyn Provider,
        (hash, enc): (&[u8; 32], &[u8]),
        is_sealed: bool,
        stamp: &Timestamp<'_>,
        now_ms: u64,
        policy: &ReplayPolicy,
    ) -> Self {
        let (key, stamp_ms) = (hashed(provider, KEY_TAG, hash, enc), stamp.ms());
        Claim { key, sealed: is_sealed, stamp_ms, now_ms, expires_ms: expires_ms(now_ms, policy), key_since_ms: None }
    }

    /// Creates a claim that another process forwards, as if it were made here and now: for a store that is asked over a
    /// network. The other's clock and lifetimes do not count, so it can neither shorten a record's life nor claim a nonce too
    /// old to be remembered still. `sealed` is the other's statement that a tag verified.
    ///
    /// # Errors
    /// [`Error::TimestampOutsideWindow`].
    pub fn passed_on(
        key: ClaimKey,
        sealed: bool,
        stamp_ms: u64,
        now_ms: u64,
        policy: &ReplayPolicy,
    ) -> Result<Self, Error> {
        policy.check_ms(stamp_ms, now_ms)?;
        Ok(Claim { key, sealed, stamp_ms, now_ms, expires_ms: expires_ms(now_ms, policy), key_since_ms: None })
    }

    /// Creates the claim of a message that has no authenticated stamp: it lives as long as the key that opened it, which is accepted
    /// from `since_ms` until before `until_ms`. `scope` is SHA-256 of the key configuration, and `enc` the encapsulated secret.
    ///
    /// The end of the key takes the place of the stamp. It is ahead of every clock that accepts the key, so a store makes the claim
    /// durable before it grants it.
    ///
    /// # Errors
    /// [`Error::TimestampOutsideWindow`] if the key is over.
    // SPEC one-shot.md#claims
    #[cfg(feature = "one-shot")]
    pub fn of_key(
        provider: &dyn Provider,
        scope: &[u8; 32],
        enc: &[u8],
        (since_ms, until_ms): (u64, u64),
        now_ms: u64,
    ) -> Result<Self, Error> {
        let key = hashed(provider, KEY_TAG, scope, enc);
        Claim::until_end(key, (since_ms, until_ms), now_ms)
    }

    /// Creates the claim of a message under a key configuration that has an authenticated stamp; the arguments are those of
    /// [`Claim::of_key`].
    ///
    /// # Errors
    /// [`Error::TimestampOutsideWindow`].
    #[cfg(feature = "one-shot")]
    pub fn of_key_stamped(
        provider: &dyn Provider,
        scope: &[u8; 32],
        enc: &[u8],
        stamp_ms: u64,
        now_ms: u64,
        policy: &ReplayPolicy,
    ) -> Result<Self, Error> {
        Claim::passed_on(hashed(provider, KEY_TAG, scope, enc), false, stamp_ms, now_ms, policy)
    }

    fn until_end(key: ClaimKey, (since_ms, until_ms): (u64, u64), now_ms: u64) -> Result<Self, Error> {
        if now_ms >= until_ms {
            return Err(Error::TimestampOutsideWindow);
        }
        let (stamp_ms, expires_ms) = (until_ms, until_ms.saturating_add(1));
        Ok(Claim { key, sealed: false, stamp_ms, now_ms, expires_ms, key_since_ms: Some(since_ms) })
    }

    /// Returns the claim as of a later time, at which a store is asked for it.
    ///
    /// # Errors
    /// [`Error::TimestampOutsideWindow`] if its stamp, or its key, is too old by then.
    pub fn at(&self, now_ms: u64, policy: &ReplayPolicy) -> Result<Self, Error> {
        match self.key_since_ms {
            Some(since_ms) => Claim::until_end(self.key, (since_ms, self.stamp_ms), now_ms),
            None => Claim::passed_on(self.key, self.sealed, self.stamp_ms, now_ms, policy),
        }
    }

    /// Returns the earliest time at which an equal claim may have been granted, but for the window: the stamp, or the time from which
    /// on the key of an unstamped message has been accepted. A store that lost claims until later than this cannot grant the claim.
    pub fn earliest_ms(&self) -> u64 {
        self.key_since_ms.unwrap_or(self.stamp_ms)
    }

    /// Returns the key to remember the nonce by.
    pub fn key(&self) -> ClaimKey {
        self.key
    }

    /// Returns whether the claim comes from a message whose tag verified. Inits have none: a store bounds them separately, so
    /// that unauthenticated peers cannot crowd out those that hold a key.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Returns the request's own stamp, in milliseconds since the epoch.
    pub fn stamp_ms(&self) -> u64 {
        self.stamp_ms
    }

    /// Returns the clock that the stamp was checked against.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the first millisecond at which the nonce may be forgotten.
    pub fn expires_ms(&self) -> u64 {
        self.expires_ms
    }

    /// Returns whether the stamp is ahead of the clock: then the floor that a restart sets does not cover it, and the claim
    /// must be durable before it is granted.
    pub fn is_stamped_ahead(&self) -> bool {
        self.stamp_ms > self.now_ms
    }
}

fn claim_key(provider: &dyn Provider, scope: Scope<'_>, nonce: &str) -> ClaimKey {
    let (tag, name) = match scope {
        Scope::Client(id) => (1_u8, id),
        Scope::Wire1Init => (2, ""),
        Scope::Session(id) => (3, id.as_str()),
        Scope::Proof(thumbprint) => (4, thumbprint),
    };
    hashed(provider, tag, name.as_bytes(), nonce.as_bytes())
}

fn hashed(provider: &dyn Provider, tag: u8, scope: &[u8], nonce: &[u8]) -> ClaimKey {
    // The length makes (scope, nonce) unambiguous; client ids are at most 256 bytes long.
    let [hi, lo] = (scope.len() as u16).to_be_bytes();
    let hash = provider.sha256(&[&[tag, hi, lo], scope, nonce]);
    ClaimKey(hash.first_chunk().copied().unwrap_or_default())
}

/// Inclusive: at now + ttl the record still exists, as the request's own stamp may then just be accepted.
fn expires_ms(now_ms: u64, policy: &ReplayPolicy) -> u64 {
    now_ms.saturating_add(policy.nonce_ttl_ms()).saturating_add(1)
}

/// Proof that a claim was reserved just now, and never before.
#[derive(Debug)]
pub struct Fresh(ClaimKey);

impl Fresh {
    /// Returns the proof that `claim` was not yet reserved, and now is. Only for stores.
    pub fn reserved(claim: &Claim) -> Self {
        Fresh(claim.key)
    }
}

/// A value that stays inaccessible until its nonce is reserved.
pub struct NonceGuard<T> {
    value: T,
    claim: Claim,
}

impl<T> NonceGuard<T> {
    pub(crate) fn new(value: T, claim: Claim) -> Self {
        NonceGuard { value, claim }
    }

    /// Returns the value for a change by its own protocol, which must not hand it out.
    #[cfg(feature = "one-shot")]
    pub(crate) fn value_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the claim for a store to reserve.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Replaces the value and keeps the claim; the new value is as inaccessible as this one.
    pub(crate) fn map<U>(self, to: impl FnOnce(T) -> U) -> NonceGuard<U> {
        NonceGuard { value: to(self.value), claim: self.claim }
    }

    /// Releases the value to the caller.
    ///
    /// # Errors
    /// [`Error::ReservationMismatch`] if `fresh` was made for another claim.
    pub fn release(self, fresh: Fresh) -> Result<T, Error> {
        if fresh.0 == self.claim.key { Ok(self.value) } else { Err(Error::ReservationMismatch) }
    }
}

#[cfg(feature = "one-shot")]
impl NonceGuard<crate::exchange::PlainRequest> {
    /// Returns the state that seals a problem in answer to the request; `None` on other wires than wire 4. It gives out nothing of the
    /// request.
    // SPEC one-shot.md#the-answer
    pub fn problem_seal(&self) -> Option<crate::exchange::ProblemSeal> {
        self.value.reply.problem_seal()
    }
}

impl<T> fmt::Debug for NonceGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unreplayed").field("claim", &self.claim).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_passed_on_lives_by_the_readers_clock_and_policy() {
        let policy = ReplayPolicy::new(300_000, 0);
        let stamps = [
            (699_999, false),
            (700_000, true),
            (1_000_000, true),
            (1_000_001, true),
            (1_300_000, true),
            (1_300_001, false),
        ];
        for (stamp_ms, admitted) in stamps {
            let claim = Claim::passed_on(ClaimKey([1; 16]), true, stamp_ms, 1_000_000, &policy);
            assert_eq!(claim.is_ok(), admitted, "{stamp_ms}");
            if let Ok(claim) = claim {
                assert_eq!((claim.now_ms(), claim.expires_ms()), (1_000_000, 1_600_001));
                assert_eq!((claim.key(), claim.is_sealed(), claim.stamp_ms()), (ClaimKey([1; 16]), true, stamp_ms));
                assert_eq!(claim.is_stamped_ahead(), stamp_ms > 1_000_000);
            }
        }
    }

    #[test]
    fn a_claim_moves_to_a_later_time_until_its_stamp_is_too_old() {
        let policy = ReplayPolicy::new(300_000, 0);
        let claim = Claim::passed_on(ClaimKey([1; 16]), true, 1_000_000, 1_000_000, &policy).unwrap();
        assert_eq!(claim.earliest_ms(), 1_000_000);
        let later = claim.at(1_300_000, &policy).unwrap();
        assert_eq!((later.now_ms(), later.expires_ms(), later.stamp_ms()), (1_300_000, 1_900_001, 1_000_000));
        assert_eq!(later.is_sealed(), claim.is_sealed());
        assert_eq!(claim.at(1_300_001, &policy), Err(Error::TimestampOutsideWindow));
    }

    #[cfg(feature = "one-shot")]
    #[test]
    fn a_claim_without_a_stamp_lives_as_long_as_its_key() {
        let provider = crate::crypto::default_provider();
        let claim = Claim::of_key(provider, &[1; 32], b"enc", (500, 2_000), 1_000).unwrap();
        assert_eq!((claim.earliest_ms(), claim.stamp_ms(), claim.expires_ms()), (500, 2_000, 2_001));
        assert!(claim.is_stamped_ahead() && !claim.is_sealed());
        assert_eq!(claim.at(1_999, &ReplayPolicy::default()).unwrap().now_ms(), 1_999);
        assert_eq!(claim.at(2_000, &ReplayPolicy::default()), Err(Error::TimestampOutsideWindow));
        let over = Claim::of_key(provider, &[1; 32], b"enc", (500, 2_000), 2_000);
        assert_eq!(over, Err(Error::TimestampOutsideWindow));
        let other = Claim::of_key(provider, &[1; 32], b"end", (500, 2_000), 1_000).unwrap();
        assert_ne!(claim.key(), other.key());
    }

    #[test]
    fn scopes_that_share_their_text_have_other_keys() {
        let provider = crate::crypto::default_provider();
        let keys = [
            claim_key(provider, Scope::Client("ab"), "c"),
            claim_key(provider, Scope::Client("a"), "bc"),
            claim_key(provider, Scope::Proof("ab"), "c"),
            claim_key(provider, Scope::Wire1Init, "abc"),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(keys.iter().skip(index + 1).all(|other| other != key), "{index}");
        }
        assert_eq!(claim_key(provider, Scope::Client("ab"), "c"), keys[0]);
    }

    #[test]
    fn a_value_is_released_by_its_own_claim_alone() {
        let policy = ReplayPolicy::default();
        let claim = |first: u8| Claim::passed_on(ClaimKey([first; 16]), true, 1_000_000, 1_000_000, &policy).unwrap();
        let guard = NonceGuard::new(7, claim(1)).map(|value| value + 1);
        let printed = alloc::format!("{guard:?}");
        assert!(printed.contains("01010101") && !printed.contains("value"), "{printed}");
        assert_eq!(guard.claim(), &claim(1));
        assert_eq!(guard.release(Fresh::reserved(&claim(1))), Ok(8));
        let guard = NonceGuard::new(7, claim(1));
        assert_eq!(guard.release(Fresh::reserved(&claim(2))), Err(Error::ReservationMismatch));
    }
}
