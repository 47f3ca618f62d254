//! Keys of wire 4 for its exchange, and the sessions and claims beside them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::HeaderMap;
use metrics::counter;
use sealway_exchange::{OneShotKeys, Sessions};
use sealway_proto::Error;
use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::is_equal;
use sealway_proto::hpke::{Aead, Kem, PrivateKey, Suite};
use sealway_proto::limits::KEY_LEN;
use sealway_proto::one_shot::RecipientKey;
use sealway_proto::session::{Claim, Fresh, SealRandoms, Session};
use sealway_proto::wire::header::X_KID;
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire};
use sealway_sessions::Authority;
use sealway_sessions::answer::Refusal;
use zeroize::Zeroizing;

use super::{Key, LiveKeys, Openings, kem_name};
use crate::used::count_hpke;

/// The KEMs of wire 4.
pub(crate) const HPKE_KEMS: [Kem; 4] = [Kem::XWing, Kem::MlKem768P256, Kem::X25519, Kem::P256];

/// Settings of a route for requests on wire 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneShotPolicy {
    /// KEMs that the route accepts.
    pub kems: Vec<Kem>,
    /// True if the route accepts clients with a pre-shared key alone.
    pub needs_psk: bool,
}

impl Default for OneShotPolicy {
    fn default() -> Self {
        OneShotPolicy { kems: HPKE_KEMS.to_vec(), needs_psk: false }
    }
}

impl RecipientKey for Key {
    fn private(&self) -> &PrivateKey {
        self.private()
    }

    fn hash(&self) -> &[u8; 32] {
        self.hash()
    }

    fn not_after_ms(&self) -> u64 {
        self.times().accepted_until_ms
    }
}

impl OneShotKeys for LiveKeys {
    fn key(&self, name: &str, now_ms: u64) -> Option<Arc<dyn RecipientKey>> {
        self.by_name(name, now_ms).map(|key| key as Arc<dyn RecipientKey>)
    }

    fn psk(&self, id: &str) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        if let Some(psks) = self.psks() {
            return Ok(psks.get(self.provider(), id)?.key);
        }
        // Without any pre-shared key, a name has one that nobody knows.
        let mut key = Zeroizing::new([0; KEY_LEN]);
        self.provider().fill_random(key.as_mut_slice())?;
        Ok(key)
    }

    fn is_psk_accepted(&self, id: &str, key: &[u8; KEY_LEN]) -> bool {
        let psk = self.psks().and_then(|psks| psks.get(self.provider(), id).ok());
        psk.is_some_and(|psk| psk.is_accepted && is_equal(psk.key.as_slice(), key))
    }

    fn document(&self, now_ms: u64) -> Option<serde_json::Value> {
        self.published(now_ms).value.clone()
    }
}

/// The authority's sessions and claims with the keys of wire 4, for one request of a peer.
pub(crate) struct KeyedAuthority {
    authority: Arc<Authority>,
    keys: Arc<LiveKeys>,
    openings: Arc<Openings>,
    peer: Option<IpAddr>,
    /// The key that the request names, for the metrics.
    key: Option<Arc<Key>>,
    /// True once the request goes to the service.
    is_passed: AtomicBool,
}

impl KeyedAuthority {
    /// Creates the interface for a request with these headers.
    pub(crate) fn new(
        authority: Arc<Authority>,
        keys: Arc<LiveKeys>,
        openings: Arc<Openings>,
        peer: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Self {
        let kid = headers.get(X_KID).and_then(|kid| kid.to_str().ok()).unwrap_or_default();
        let name = kid.strip_prefix("hpke:");
        let key = name.and_then(|name| keys.by_name(name, authority.now_ms()));
        KeyedAuthority { authority, keys, openings, peer, key, is_passed: AtomicBool::new(false) }
    }

    fn count_open(&self, result: &'static str) {
        let Some(key) = &self.key else { return };
        let kem = kem_name(key.config().public_key().kem());
        counter!("sealway_one_shot_opens_total", "mode" => "hpke", "kem" => kem, "result" => result).increment(1);
        if result == "ok" {
            let name = key.name().to_owned();
            counter!("sealway_one_shot_key_used_total", "use" => "hpke", "key_id" => name).increment(1);
        }
    }

    /// Counts the algorithms of a request that was opened, for the inventory.
    pub(crate) fn count_use(&self, route: &str) {
        let Some(key) = self.key.as_ref().filter(|_| self.is_passed.load(Ordering::Relaxed)) else { return };
        let suite = Suite { kem: key.config().public_key().kem(), aead: Aead::Aes256Gcm };
        count_hpke(route, "wire-4", key.name(), suite);
    }

    /// Reserves a claim of wire 4.
    async fn reserve_one_shot(&self, psk_id: Option<&str>, claim: &Claim) -> Result<Fresh, Refusal> {
        let fresh = if let Some(psk_id) = psk_id {
            let fresh = self.authority.reserve_psk(psk_id, claim).await?;
            // No stranger made it, nor sent it again.
            self.openings.give_back(self.peer);
            fresh
        } else {
            // All strangers share the name of the key, so their network has the share of the store.
            self.authority.reserve_from(self.peer, claim).await?
        };
        self.is_passed.store(true, Ordering::Relaxed);
        self.count_open("ok");
        Ok(fresh)
    }
}

impl Sessions for KeyedAuthority {
    fn provider(&self) -> &'static dyn AgreementProvider {
        self.authority.provider()
    }

    fn now_ms(&self) -> u64 {
        self.authority.now_ms()
    }

    fn replay(&self) -> &ReplayPolicy {
        self.authority.replay()
    }

    fn check_wire(&self, wire: Wire) -> Result<(), Refusal> {
        self.authority.check_wire(wire)
    }

    fn count_opening(&self) -> Result<(), Refusal> {
        self.openings.take(self.peer)
    }

    async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, Refusal> {
        self.authority.find(id).await
    }

    async fn reserve(&self, session: &Session, claim: &Claim) -> Result<Fresh, Refusal> {
        match session.key_name() {
            Some(_) => self.reserve_one_shot(session.record().subject.as_deref(), claim).await,
            None => self.authority.reserve(session, claim).await,
        }
    }

    fn one_shot(&self) -> Option<&dyn OneShotKeys> {
        Some(&*self.keys)
    }

    fn randoms(&self) -> Result<SealRandoms, Error> {
        self.authority.randoms()
    }

    fn report(&self, refusal: &Refusal, what: &'static str) {
        let is_limited = matches!(refusal, Refusal::RateLimited(_));
        if !is_limited && !self.is_passed.load(Ordering::Relaxed) {
            self.count_open("rejected");
        }
        Sessions::report(&*self.authority, refusal, what);
    }

    fn admitted(&self, wire: Wire) {
        self.authority.admitted(wire);
    }
}
