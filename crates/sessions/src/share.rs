//! Shares of the nonce store. A full store rejects everyone, since evicting a nonce would readmit its replay. So from
//! half full on each holder is limited to a share: a session or a pre-shared key for its calls, an address for its inits and for what
//! strangers seal. Each of the two parts of the store is judged by itself, so that strangers take no share of others.
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
pub(crate) enum Holder<'a> {
    /// The session of a sealed call.
    Session(SessionId),
    /// The name of the pre-shared key of a call on wire 4.
    Psk(&'a str),
    /// The client address of an init, or of a call that a stranger can make.
    Address(IpAddr),
}

/// Level of a part of the nonce store.
#[derive(Debug, Default)]
struct Level {
    is_crowded: AtomicBool,
    full_until_ms: AtomicU64,
}

/// Levels of the nonce store, and the places that each holder took since its part was half full.
#[derive(Debug)]
pub(crate) struct Shares {
    sessions: PerMinute<SessionId>,
    psks: PerMinute<Box<str>>,
    addresses: PerMinute<IpAddr>,
    looked_ms: AtomicU64,
    /// Claims of holders of a key.
    sealed: Level,
    /// Claims that strangers can make.
    inits: Level,
    is_told: AtomicBool,
    full: Gauge,
}

impl Shares {
    pub(crate) fn new(nonces_max: usize, replay: &ReplayPolicy) -> Self {
        let share = (nonces_max as u64 / SHARE).saturating_mul(60_000) / replay.nonce_ttl_ms().max(1);
        let per_minute = u32::try_from(share).unwrap_or(u32::MAX);
        Shares {
            sessions: PerMinute::new(per_minute),
            psks: PerMinute::new(per_minute),
            addresses: PerMinute::new(per_minute),
            looked_ms: AtomicU64::new(0),
            sealed: Level::default(),
            inits: Level::default(),
            is_told: AtomicBool::new(false),
            full: gauge!("sealway_nonces_full"),
        }
    }

    /// Counts one more place for a holder.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`] if places are scarce and the holder has used its share.
    pub(crate) fn take(&self, holder: Holder<'_>, now_ms: u64, status: impl FnOnce() -> Status) -> Result<(), Refusal> {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        if now_ms.abs_diff(looked_ms) >= LOOK_EVERY_MS {
            self.looked_ms.store(now_ms, Ordering::Relaxed);
            let Status { nonces: (sealed, inits), nonces_max, redis, .. } = status();
            for (level, held) in [(&self.sealed, sealed), (&self.inits, inits)] {
                // The memory of Redis has no parts.
                let is_crowded = if redis == Part::Up {
                    self.is_full(now_ms)
                } else {
                    level.is_full(now_ms) || (nonces_max > 0 && held >= nonces_max / 2)
                };
                level.is_crowded.store(is_crowded, Ordering::Relaxed);
            }
        }
        let level = self.level(!matches!(holder, Holder::Address(_)));
        if !level.is_crowded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let taken = match holder {
            Holder::Session(id) => self.sessions.take(&id),
            Holder::Psk(id) => self.psks.take(&id.into()),
            Holder::Address(address) => self.addresses.take(&network(address)),
        };
        taken.map_err(Refusal::RateLimited)
    }

    fn level(&self, is_sealed: bool) -> &Level {
        if is_sealed { &self.sealed } else { &self.inits }
    }

    /// Records that the store was full for a claim.
    pub(crate) fn refused(&self, is_sealed: bool, now_ms: u64) {
        self.level(is_sealed).full_until_ms.store(now_ms.saturating_add(FULL_FOR_MS), Ordering::Relaxed);
        if !self.is_told.swap(true, Ordering::Relaxed) {
            self.full.set(1.0);
            tracing::warn!(
                "the nonce store is full: calls and inits are refused until nonces expire, and /ready answers 503; raise \
                 replay.nonces_max, or Redis's maxmemory, or find who floods (docs/reference/failures.md)"
            );
        }
    }

    /// True if a part of the store was full in the last [`FULL_FOR_MS`].
    pub(crate) fn is_full(&self, now_ms: u64) -> bool {
        self.sealed.is_full(now_ms) || self.inits.is_full(now_ms)
    }

    /// Forgets holders that were inactive, and logs when there is room again.
    pub(crate) fn sweep(&self, now_ms: u64) {
        self.sessions.sweep();
        self.psks.sweep();
        self.addresses.sweep();
        if !self.is_full(now_ms) && self.is_told.swap(false, Ordering::Relaxed) {
            self.full.set(0.0);
            tracing::info!("the nonce store accepts nonces again");
        }
    }
}

impl Level {
    fn is_full(&self, now_ms: u64) -> bool {
        now_ms < self.full_until_ms.load(Ordering::Relaxed)
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
            self.shares.refused(claim.is_sealed(), self.now_ms());
        }
        Ok(reserved?)
    }

    /// Reserves a nonce within its holder's share, if the store is filling up.
    pub(crate) async fn reserve_for(&self, holder: Holder<'_>, claim: &Claim) -> Result<Fresh, Refusal> {
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

    /// Reserves the claim of a message under a pre-shared key, within that key's share.
    ///
    /// # Errors
    /// Those of [`Authority::reserve_from`].
    pub async fn reserve_psk(&self, id: &str, claim: &Claim) -> Result<Fresh, Refusal> {
        self.reserve_for(Holder::Psk(id), claim).await
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
        // What strangers take is no concern of those who hold a key.
        for _ in 0..=share {
            shares.take(Holder::Session(SessionId::from_random(&[1; 16], false)), 2000, status(50_000)).unwrap();
            shares.take(Holder::Psk("partner"), 2000, status(50_000)).unwrap();
        }
        // Redis has its own bound.
        let in_redis = || Status { redis: Part::Up, ..status(50_000)() };
        shares.take(Holder::Address(flood), 3000, in_redis).unwrap();
        assert!(!shares.is_full(3000));
        shares.refused(false, 3000);
        assert!(shares.is_full(3000) && !shares.is_full(3000 + FULL_FOR_MS));
        shares.take(Holder::Psk("partner"), 3250, status(50_000)).unwrap();
        assert!(shares.take(Holder::Address(flood), 3500, in_redis).is_err(), "Redis is full, and says so");
    }

    #[test]
    fn each_pre_shared_key_has_its_share_of_a_crowded_store() {
        let replay = ReplayPolicy::default();
        let shares = Shares::new(100_000, &replay);
        let status = || Status { nonces: (50_000, 0), nonces_max: 100_000, ..Status::default() };
        let share = 100_000 / 20 * 60_000 / replay.nonce_ttl_ms();
        for _ in 0..share {
            shares.take(Holder::Psk("flood"), 1000, status).unwrap();
        }
        assert!(matches!(shares.take(Holder::Psk("flood"), 1000, status), Err(Refusal::RateLimited(_))));
        shares.take(Holder::Psk("partner"), 1000, status).unwrap();
        shares.take(Holder::Address(IpAddr::from([192, 0, 2, 1])), 1000, status).unwrap();
    }
}
