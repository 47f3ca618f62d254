//! PostgreSQL as the source of truth, Redis as nonce store and cache, and a small cache in this process.
//!
//! A session is committed in PostgreSQL before its client hears of it; Redis is told later. A nonce is reserved in Redis,
//! and one stamped ahead of its clock in PostgreSQL too. `spec/session.md#nonce-lifetime`.

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
use super::redis::{Found, OnLoss, Redis};
use super::{Durable, Part, ReserveError, SessionCache, Status, Store, StoreError};

/// How often a revocation that Redis did not hear is told again.
const TELL_AGAIN: Duration = Duration::from_millis(250);
const TELL_AGAIN_MAX: Duration = Duration::from_secs(8);

/// The store.
#[derive(Debug)]
pub struct Tiered {
    postgres: Arc<Postgres>,
    redis: Arc<Redis>,
    cache: Arc<SessionCache>,
    on_loss: OnLoss,
    /// Told when Redis did not hear of a revocation.
    untold: Arc<Notify>,
    _tell: JoinSet<()>,
}

impl Tiered {
    /// Puts the tiers together, within a runtime; `cache` is the one that both tell of revocations.
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
        Tiered { postgres, redis, cache, on_loss, untold, _tell: tasks }
    }

    /// Asks PostgreSQL, and lets Redis know what it did not.
    async fn fetch(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        let ticket = self.cache.ticket();
        match self.redis.find(id).await {
            Ok(Found::Session(session)) => return Ok(self.cache.keep(&session, ticket).then_some(session)),
            Ok(Found::Revoked) => {
                self.cache.revoke(id);
                return Ok(None);
            }
            // PostgreSQL knows, whatever ails Redis.
            Ok(Found::Absent) | Err(_) => {}
        }
        let Some(session) = self.postgres.fetch(id).await? else { return Ok(None) };
        self.redis.save_later(session.clone());
        Ok(self.cache.keep(&session, ticket).then_some(session))
    }
}

/// Ends a session in PostgreSQL, then in Redis; whether it was there.
async fn end(postgres: &Postgres, redis: &Redis, untold: &Notify, id: SessionId) -> Result<bool, StoreError> {
    let ended = postgres.revoke(&id).await?;
    let expires_ms = match ended {
        Some(expires_ms) => Some(expires_ms),
        // Perhaps by a try of ours whose answer was lost, and who made it could not tell Redis.
        None => postgres.revoked_end(&id).await?,
    };
    if let Some(expires_ms) = expires_ms
        && redis.revoke(&id, expires_ms).await.is_err()
    {
        untold.notify_one();
    }
    Ok(ended.is_some())
}

/// Tells Redis of revocations that it did not hear of, until it has heard: at the start those that an earlier process had
/// no time to tell, later those of this one.
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
            // A Redis that is full stays so for long, and each try reads all.
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
impl Store for Tiered {
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
        // Redis may not have heard yet.
        if self.cache.is_revoked(id) {
            return Ok(None);
        }
        match (self.fetch(id).await, held) {
            // Nobody can be asked: what was good goes on, until its own end.
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
        // To its end, whether or not the caller waits for it: once it is committed Redis must be told.
        let ending = async move { end(&postgres, &redis, &untold, id).await };
        let ended = tokio::spawn(ending.in_current_span()).await;
        ended.unwrap_or_else(|err| Err(StoreError::Unavailable(err.to_string())))
    }

    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError> {
        let (postgres, redis, untold, root) = (self.postgres.clone(), self.redis.clone(), self.untold.clone(), *root);
        // To its end, as a deletion.
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
