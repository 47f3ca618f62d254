//! Parts of a gateway with planted defects.

use std::sync::Arc;

use parking_lot::Mutex;
use sealway_exchange::Sessions;
use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::exchange::Refusal;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire};
use sealway_sessions::Authority;
use sealway_sessions::store::postgres::Postgres;
use sealway_sessions::store::{Durable, NonceRecord, ReserveError, Status, Store, StoreError};

use crate::world::Defect;

/// A store with a planted defect.
#[derive(Debug)]
pub(crate) struct FaultyStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) defect: Defect,
}

#[async_trait::async_trait]
impl Store for FaultyStore {
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError> {
        if self.defect == Defect::EarlyAnswer {
            let store = self.store.clone();
            tokio::spawn(async move { store.put(session).await });
            return Ok(());
        }
        self.store.put(session).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        self.store.get(id).await
    }

    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.store.delete(id).await
    }

    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError> {
        if self.defect == Defect::ChainStays {
            return Ok(());
        }
        self.store.end_chain(root, until_ms).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        self.store.reserve(claim).await
    }

    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.store.sweep(now_ms).await
    }

    fn status(&self) -> Status {
        self.store.status()
    }
}

/// A durable side with a planted defect: it records no nonce.
#[derive(Debug)]
pub(crate) struct RecordsNothing(pub(crate) Arc<Postgres>);

#[async_trait::async_trait]
impl Durable for RecordsNothing {
    async fn record(&self, _: &Claim) -> Result<(), ReserveError> {
        Ok(())
    }

    async fn recorded_after(&self, stamp_ms: u64, now_ms: u64) -> Result<Vec<NonceRecord>, StoreError> {
        self.0.recorded_after(stamp_ms, now_ms).await
    }

    async fn revoked(&self, now_ms: u64) -> Result<Vec<(SessionId, u64)>, StoreError> {
        self.0.revoked(now_ms).await
    }

    async fn lost_ms(&self) -> Result<u64, StoreError> {
        self.0.lost_ms().await
    }
}

/// An authority with a planted defect: a request has the session and the time of its beginning to its end.
pub(crate) struct LooksOnce {
    pub(crate) authority: Arc<Authority>,
    pub(crate) now_ms: u64,
    pub(crate) found: Mutex<Option<Arc<Session>>>,
}

impl Sessions for LooksOnce {
    fn provider(&self) -> &'static dyn AgreementProvider {
        self.authority.provider()
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn replay(&self) -> &ReplayPolicy {
        self.authority.replay()
    }

    fn check_wire(&self, wire: Wire) -> Result<(), Refusal> {
        self.authority.check_wire(wire)
    }

    async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, Refusal> {
        let held = self.found.lock().clone();
        if held.is_some() {
            return Ok(held);
        }
        let found = Sessions::find(&*self.authority, id).await?;
        self.found.lock().clone_from(&found);
        Ok(found)
    }

    async fn reserve(&self, session: &Session, claim: &Claim) -> Result<Fresh, Refusal> {
        Sessions::reserve(&*self.authority, session, claim).await
    }

    fn report(&self, refusal: &Refusal, what: &'static str) {
        self.authority.report(refusal, what);
    }
}
