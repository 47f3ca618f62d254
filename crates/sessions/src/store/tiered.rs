//! PostgreSQL as the source of truth, Redis as nonce store and cache, and a small cache in this process.
//!
//! A session is committed in PostgreSQL before its client gets the answer; Redis gets it later. A nonce is reserved in
//! Redis, and one stamped ahead of its clock in PostgreSQL too. `spec/session.md#nonce-lifetime`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::SessionId;
use sealway_runtime::clock::Clock;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::Instrument;

use super::postgres::Postgres;
use super::redis::{Lookup, OnLoss, Redis};
use super::{Durable, Part, ReserveError, SessionCache, Status, Store, StoreError};

/// Interval of retries for a revocation that did not reach Redis.
const TELL_AGAIN: Duration = Duration::from_millis(250);
const TELL_AGAIN_MAX: Duration = Duration::from_secs(8);

/// Store with PostgreSQL, Redis and a cache in this process.
#[derive(Debug)]
pub struct TieredStore {
    postgres: Arc<Postgres>,
    redis: Arc<Redis>,
    cache: Arc<SessionCache>,
    on_loss: OnLoss,
    /// Notified when a revocation did not reach Redis.
    untold: Arc<Notify>,
    _tell: JoinSet<()>,
}

impl TieredStore {
    /// Builds the store from its tiers, within a runtime; `cache` is the one that both tiers update with revocations.
    pub fn new(
        postgres: Arc<Postgres>,
        redis: Arc<Redis>,
        cache: Arc<SessionCache>,
        clock: Arc<dyn Clock>,
        on_loss: OnLoss,
    ) -> Self {
        let untold = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(tell(postgres.clone(), redis.clone(), clock, untold.clone()));
        TieredStore { postgres, redis, cache, on_loss, untold, _tell: tasks }
    }

    /// Fetches a session from Redis, else from PostgreSQL, and then updates Redis.
    async fn fetch(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        let ticket = self.cache.ticket();
        match self.redis.find(id).await {
            Ok(Lookup::Session(session)) => return Ok(self.cache.keep(&session, ticket).then_some(session)),
            Ok(Lookup::Revoked) => {
                self.cache.revoke(id);
                return Ok(None);
            }
            // PostgreSQL decides, independent of errors of Redis.
            Ok(Lookup::Absent) | Err(_) => {}
        }
        let Some(session) = self.postgres.fetch(id).await? else { return Ok(None) };
        self.redis.save_later(session.clone());
        Ok(self.cache.keep(&session, ticket).then_some(session))
    }
}

/// Ends a session in PostgreSQL, then in Redis; returns true if it was there.
async fn end(postgres: &Postgres, redis: &Redis, untold: &Notify, id: SessionId) -> Result<bool, StoreError> {
    let revoked = postgres.revoke(&id).await?;
    let (mut was_there, mut end) = (revoked.is_some(), revoked);
    if end.is_none() {
        // An earlier attempt may have committed without its answer and could not update Redis.
        end = postgres.revoked_end(&id).await?;
    }
    if end.is_none()
        && let Ok(Lookup::Session(copy)) = redis.find(&id).await
    {
        // A promoted standby or a restored backup lacks it, and Redis has a copy.
        postgres.end_chain(&id, copy.record().expires_ms).await?;
        (was_there, end) = (true, Some(copy.record().expires_ms));
    }
    if let Some(expires_ms) = end
        && redis.revoke(&id, expires_ms).await.is_err()
    {
        untold.notify_one();
    }
    Ok(was_there)
}

/// Writes revocations to Redis that did not reach it, until it has them: at the start those that an earlier process
/// left, later those of this one.
async fn tell(postgres: Arc<Postgres>, redis: Arc<Redis>, clock: Arc<dyn Clock>, untold: Arc<Notify>) {
    let mut publish = false;
    loop {
        let mut pause = TELL_AGAIN;
        loop {
            while !redis.is_up() || !postgres.status().up {
                tokio::time::sleep(TELL_AGAIN).await;
            }
            if tell_all(&postgres, &redis, clock.now_ms(), publish).await.is_ok() {
                break;
            }
            // A full Redis stays full for long, and each attempt reads all revocations.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(TELL_AGAIN_MAX);
        }
        untold.notified().await;
        publish = true;
    }
}

async fn tell_all(postgres: &Postgres, redis: &Redis, now_ms: u64, publish: bool) -> Result<(), StoreError> {
    redis.tell_revoked(&postgres.revoked(now_ms).await?, publish).await
}

#[async_trait]
impl Store for TieredStore {
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError> {
        self.postgres.put(session.clone()).await?;
        self.redis.save_later(session);
        Ok(())
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        let held = self.cache.get(id);
        if let Some(held) = &held
            && held.is_fresh
        {
            return Ok(Some(held.session.clone()));
        }
        // Redis may not have the revocation yet.
        if self.cache.is_revoked(id) {
            return Ok(None);
        }
        match (self.fetch(id).await, held) {
            // The stores are unavailable: a cached session stays valid until its own end.
            (Err(_), Some(held)) if !self.cache.is_ended(&held.session) => Ok(Some(held.session)),
            (Ok(None), Some(_)) => {
                self.cache.forget(id);
                Ok(None)
            }
            (found, _) => found,
        }
    }

    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        let (postgres, redis, untold, id) = (self.postgres.clone(), self.redis.clone(), self.untold.clone(), *id);
        // Runs to its end even if the caller does not wait: once it is committed, Redis must be updated.
        let ending = async move { end(&postgres, &redis, &untold, id).await };
        let ended = tokio::spawn(ending.in_current_span()).await;
        ended.unwrap_or_else(|err| Err(StoreError::Unavailable(err.to_string())))
    }

    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError> {
        let (postgres, redis, untold, root) = (self.postgres.clone(), self.redis.clone(), self.untold.clone(), *root);
        // Runs to its end, like a deletion.
        let ending = async move {
            postgres.end_chain(&root, until_ms).await?;
            if redis.revoke(&root, until_ms).await.is_err() {
                untold.notify_one();
            }
            Ok(())
        };
        let ended = tokio::spawn(ending.in_current_span()).await;
        ended.unwrap_or_else(|err| Err(StoreError::Unavailable(err.to_string())))
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        self.redis.reserve(claim).await
    }

    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.cache.sweep(now_ms);
        self.redis.sweep_local(now_ms);
        self.postgres.sweep(now_ms).await
    }

    async fn rewrap(&self, count_max: usize) -> Result<usize, StoreError> {
        Store::rewrap(self.postgres.as_ref(), count_max).await
    }

    fn status(&self) -> Status {
        let (postgres, redis) = (self.postgres.status(), self.redis.status());
        let nonces_up = redis.up || self.on_loss == OnLoss::Local;
        Status {
            kind: "tiered",
            up: postgres.up && nonces_up,
            redis: if redis.up { Part::Up } else { Part::Down },
            nonces: redis.nonces,
            nonces_max: redis.nonces_max,
            ..postgres
        }
    }
}
