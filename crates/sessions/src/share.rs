//! Shares of the nonce store. A full store rejects everyone, since evicting a nonce would readmit its replay. So from
//! half full on each holder is limited to a share: a session for its calls, an address for its inits.
//!
//! With Redis its memory is the bound; this process notices it only when Redis rejects.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use metrics::{Gauge, gauge};
use sealway_exchange::Sessions;
use sealway_proto::session::{Claim, Fresh};
use sealway_proto::wire::{ReplayPolicy, SessionId};
use sealway_runtime::http::share::network;

use crate::answer::Refusal;
use crate::authority::Authority;
use crate::limit::PerMinute;
use crate::store::{Part, ReserveError, Status};

/// Divisor for a share: one holder gets a twentieth of all places over the lifetime of a nonce.
const SHARE: u64 = 20;
/// Time after a rejection for which the store counts as full, in ms.
const FULL_FOR_MS: u64 = 5000;
/// Time between two checks of the store's level, in ms.
const LOOK_EVERY_MS: u64 = 250;

/// A holder of places in the nonce store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder {
    /// The session of a sealed call.
    Session(SessionId),
    /// The client address of an init.
    Address(IpAddr),
}

/// Level of the nonce store, and the places that each holder took since it was half full.
#[derive(Debug)]
pub(crate) struct Shares {
    sessions: PerMinute<SessionId>,
    addresses: PerMinute<IpAddr>,
    looked_ms: AtomicU64,
    is_crowded: AtomicBool,
    full_until_ms: AtomicU64,
    is_told: AtomicBool,
    full: Gauge,
}

impl Shares {
    pub(crate) fn new(nonces_max: usize, replay: &ReplayPolicy) -> Self {
        let share = (nonces_max as u64 / SHARE).saturating_mul(60_000) / replay.nonce_ttl_ms().max(1);
        let per_minute = u32::try_from(share).unwrap_or(u32::MAX);
        Shares {
            sessions: PerMinute::new(per_minute),
            addresses: PerMinute::new(per_minute),
            looked_ms: AtomicU64::new(0),
            is_crowded: AtomicBool::new(false),
            full_until_ms: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
            full: gauge!("sealway_nonces_full"),
        }
    }

    /// Counts one more place for a holder.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`] if places are scarce and the holder has used its share.
    pub(crate) fn take(&self, holder: Holder, now_ms: u64, status: impl FnOnce() -> Status) -> Result<(), Refusal> {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        if now_ms.abs_diff(looked_ms) >= LOOK_EVERY_MS {
            self.looked_ms.store(now_ms, Ordering::Relaxed);
            let Status { nonces: (sealed, inits), nonces_max, redis, .. } = status();
            let is_half = redis != Part::Up && nonces_max > 0 && sealed.max(inits) >= nonces_max / 2;
            self.is_crowded.store(is_half || self.is_full(now_ms), Ordering::Relaxed);
        }
        if !self.is_crowded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let taken = match holder {
            Holder::Session(id) => self.sessions.take(&id),
            Holder::Address(address) => self.addresses.take(&network(address)),
        };
        taken.map_err(Refusal::RateLimited)
    }

    /// Records that the store was full.
    pub(crate) fn refused(&self, now_ms: u64) {
        self.full_until_ms.store(now_ms.saturating_add(FULL_FOR_MS), Ordering::Relaxed);
        if !self.is_told.swap(true, Ordering::Relaxed) {
            self.full.set(1.0);
            tracing::warn!(
                "the nonce store is full: calls and inits are refused until nonces expire, and /ready answers 503; raise \
                 replay.nonces_max, or Redis's maxmemory, or find who floods (docs/reference/failures.md)"
            );
        }
    }

    /// True if the store was full in the last [`FULL_FOR_MS`].
    pub(crate) fn is_full(&self, now_ms: u64) -> bool {
        now_ms < self.full_until_ms.load(Ordering::Relaxed)
    }

    /// Forgets holders that were inactive, and logs when there is room again.
    pub(crate) fn sweep(&self, now_ms: u64) {
        self.sessions.sweep();
        self.addresses.sweep();
        if !self.is_full(now_ms) && self.is_told.swap(false, Ordering::Relaxed) {
            self.full.set(0.0);
            tracing::info!("the nonce store accepts nonces again");
        }
    }
}

impl Authority {
    /// Reserves a nonce. The claim is rebuilt by the current time: a slow body may have moved a stamp, once within the
    /// window, beyond the time for which nonces are remembered.
    // SPEC session.md#nonce-lifetime
    pub(crate) async fn reserve(&self, claim: &Claim) -> Result<Fresh, Refusal> {
        let claim = claim.at(self.now_ms(), &self.policy.replay)?;
        let reserved = self.ask("reserve", self.store().reserve(&claim)).await;
        if matches!(reserved, Err(ReserveError::Full)) {
            self.shares.refused(self.now_ms());
        }
        Ok(reserved?)
    }

    /// Reserves a nonce within its holder's share, if the store is filling up.
    pub(crate) async fn reserve_for(&self, holder: Holder, claim: &Claim) -> Result<Fresh, Refusal> {
        self.shares.take(holder, self.now_ms(), || self.store().status())?;
        self.reserve(claim).await
    }

    /// Reserves the claim of a message whose sender is known by its address alone, within that address's share.
    ///
    /// # Errors
    /// [`sealway_proto::Error::Replayed`] as a [`Refusal`], and errors of the store.
    pub async fn reserve_from(&self, peer: Option<IpAddr>, claim: &Claim) -> Result<Fresh, Refusal> {
        self.reserve_for(Holder::Address(peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))), claim).await
    }

    /// True if a nonce was rejected in the last seconds because the store was full.
    pub fn is_full(&self) -> bool {
        self.shares.is_full(self.now_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_half_full_on_one_address_or_session_has_its_share_and_the_others_go_on() {
        let replay = ReplayPolicy::default();
        let shares = Shares::new(100_000, &replay);
        let status = |inits| move || Status { nonces: (0, inits), nonces_max: 100_000, ..Status::default() };
        let (flood, honest) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        for _ in 0..10_000 {
            shares.take(Holder::Address(flood), 1000, status(49_999)).unwrap();
        }
        // A twentieth of all places, over the life of a nonce.
        let share = 100_000 / 20 * 60_000 / replay.nonce_ttl_ms();
        for _ in 0..share {
            shares.take(Holder::Address(flood), 2000, status(50_000)).unwrap();
        }
        assert!(matches!(shares.take(Holder::Address(flood), 2000, status(50_000)), Err(Refusal::RateLimited(_))));
        shares.take(Holder::Address(honest), 2000, status(50_000)).unwrap();
        shares.take(Holder::Session(SessionId::from_random(&[1; 16], false)), 2000, status(50_000)).unwrap();
        // Redis has its own bound.
        let in_redis = || Status { redis: Part::Up, ..status(50_000)() };
        shares.take(Holder::Address(flood), 3000, in_redis).unwrap();
        assert!(!shares.is_full(3000));
        shares.refused(3000);
        assert!(shares.is_full(3000) && !shares.is_full(3000 + FULL_FOR_MS));
        assert!(shares.take(Holder::Address(flood), 3500, in_redis).is_err(), "Redis is full, and says so");
    }
}
