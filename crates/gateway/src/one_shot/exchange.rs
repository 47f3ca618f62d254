//! Keys of wire 4 for its exchange, and the sessions and claims beside them.

use std::net::IpAddr;
use std::sync::Arc;

use sealway_exchange::{OneShotKeys, Sessions};
use sealway_proto::Error;
use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::hpke::{Kem, PrivateKey};
use sealway_proto::limits::KEY_LEN;
use sealway_proto::one_shot::RecipientKey;
use sealway_proto::session::{Claim, Fresh, SealRandoms, Session};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire};
use sealway_sessions::Authority;
use sealway_sessions::answer::Refusal;
use zeroize::Zeroizing;

use super::{Key, LiveKeys};

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
        psk.is_some_and(|psk| psk.is_accepted && *psk.key == *key)
    }

    fn document(&self, now_ms: u64) -> Option<serde_json::Value> {
        self.published(now_ms).value.clone()
    }
}

/// The authority's sessions and claims with the keys of wire 4, for a request of one peer.
pub(crate) struct KeyedAuthority {
    pub(crate) authority: Arc<Authority>,
    pub(crate) keys: Arc<LiveKeys>,
    pub(crate) peer: Option<IpAddr>,
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

    async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, Refusal> {
        self.authority.find(id).await
    }

    async fn reserve(&self, session: &Session, claim: &Claim) -> Result<Fresh, Refusal> {
        match (session.key_name(), session.record().subject.as_deref()) {
            (Some(_), Some(psk_id)) => self.authority.reserve_psk(psk_id, claim).await,
            // All strangers share the name of the key, so their network has the share of the store.
            (Some(_), None) => self.authority.reserve_from(self.peer, claim).await,
            (None, _) => self.authority.reserve(session, claim).await,
        }
    }

    fn one_shot(&self) -> Option<&dyn OneShotKeys> {
        Some(&*self.keys)
    }

    fn randoms(&self) -> Result<SealRandoms, Error> {
        self.authority.randoms()
    }

    fn report(&self, refusal: &Refusal, what: &'static str) {
        Sessions::report(&*self.authority, refusal, what);
    }

    fn admitted(&self, wire: Wire) {
        self.authority.admitted(wire);
    }
}
