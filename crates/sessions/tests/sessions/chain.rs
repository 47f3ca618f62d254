//! Sessions of a chain of renewals.

use std::sync::Arc;

use sealway_proto::session::{Auth, Session, SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire};
use sealway_testkit::store_contract::claims::{START_MS, provider, random};

/// A session of the native protocol that ends after `ttl_ms`, the first of its chain or renewed in that of `lineage`.
pub(crate) fn of_chain(lineage: Option<SessionId>, ttl_ms: u64) -> Arc<Session> {
    let record = SessionRecord {
        id: SessionId::from_random(&random(), false),
        wire: Wire::Native,
        client_id: Some("web".into()),
        subject: None,
        tenant: None,
        auth: Auth::None,
        lineage,
        created_ms: START_MS,
        expires_ms: START_MS + ttl_ms,
        key: SessionKey::from_bytes([7; 32]),
    };
    Arc::new(Session::new(provider(), record).unwrap())
}
