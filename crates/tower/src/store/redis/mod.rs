//! Sessions and claims in the Redis that an authority keeps them in. `spec/redis-store.md`.
//!
//! A round trip less than asking the authority, and in exchange this process holds a key that opens all stored session keys.

mod epoch;
mod keys;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use redis::{Client, Cmd, FromRedisValue, ServerErrorKind};
use sealway_proto::crypto::{Provider, default_provider};
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::store::row::{Row, RowFault};
use sealway_proto::store::script::AHEAD_MS;
use sealway_proto::wire::SessionId;
use tokio::sync::Mutex;

use super::held::Held;
use super::{ReserveError, Store, StoreError};
use epoch::{Answer, Epoch, Membership, key, told};
pub use keys::KeySource;
use keys::Keys;

/// What stands in the place of a session that was revoked.
const TOMBSTONE: &[u8] = b"x";
/// How long a claim that is stamped ahead of Redis's clock may wait, in ms.
const WAIT_MAX_MS: u64 = 2000;

/// Which Redis it is, and which keys open its sessions.
#[derive(Clone)]
pub struct RedisSettings {
    /// `redis://` or `rediss://` with user, password, host, port and perhaps `/database`: one server, no cluster. TLS is verified by
    /// the machine's certificate authorities.
    pub url: String,
    /// The authority's `sessions.redis.prefix`.
    pub prefix: String,
    /// The authority's key-encryption keys.
    pub keys: KeySource,
    /// The authority's store is PostgreSQL and Redis, so that nothing is lost with Redis's memory.
    pub postgres_behind: bool,
    /// Sessions of earlier releases are read, on wires 1 and 2, if they end by then, in milliseconds since the epoch: whoever can write
    /// Redis can give the client of such a session another name. 0 accepts none. A fixed date, set once for a move.
    pub accept_unauthenticated_rows_until_ms: u64,
    /// How long each question may take.
    pub deadline: Duration,
}

impl RedisSettings {
    /// Those of `url` and `keys`, with the authority's defaults for the rest.
    pub fn new(url: impl Into<String>, keys: KeySource) -> Self {
        RedisSettings {
            url: url.into(),
            prefix: "sealway".into(),
            keys,
            postgres_behind: false,
            accept_unauthenticated_rows_until_ms: 0,
            deadline: Duration::from_millis(500),
        }
    }
}

impl std::fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may hold a password.
        f.debug_struct("RedisSettings").field("prefix", &self.prefix).field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Settings that cannot be used. The text holds neither password nor key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RedisSettingsError(String);

/// A [`Store`] over the authority's Redis. The layer's window has to be the authority's.
pub struct Redis {
    provider: &'static dyn Provider,
    client: Client,
    settings: RedisSettings,
    keys: Keys,
    held: Held,
    membership: Mutex<Membership>,
}

impl Redis {
    /// Reads the keys. Redis is connected to at the first question.
    ///
    /// # Errors
    /// [`RedisSettingsError`], naming the setting, or file and line, at fault.
    pub fn new(settings: RedisSettings) -> Result<Self, RedisSettingsError> {
        let fail = |what: &str| RedisSettingsError(what.into());
        let has_scheme = settings.url.starts_with("redis://") || settings.url.starts_with("rediss://");
        // The library would take options from there: that a certificate is not verified, for one.
        if !has_scheme || settings.url.contains(['?', '#']) {
            return Err(fail("the URL of Redis is redis:// or rediss:// with a host, without ? and #"));
        }
        let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        if !(1..=64).contains(&settings.prefix.len()) || !settings.prefix.bytes().all(is_named) {
            return Err(fail("a prefix has 1 to 64 letters, digits, - _ . or :"));
        }
        if settings.deadline.is_zero() {
            return Err(fail("the deadline is zero"));
        }
        // The library's error may hold the password.
        let client = Client::open(settings.url.as_str());
        let client = client.map_err(|_| fail("the URL of Redis is redis:// or rediss:// with a host"))?;
        let provider = default_provider();
        let keys = Keys::open(provider, settings.keys.clone())?;
        Ok(Redis { provider, client, settings, keys, held: Held::default(), membership: Mutex::default() })
    }

    /// Asks once, within the deadline. A connection that broke is not used again.
    async fn ask<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T, String> {
        let asked = tokio::time::timeout(self.settings.deadline, async {
            let mut link = self.membership.lock().await.link(&self.client).await?;
            cmd.query_async(&mut link).await
        });
        match asked.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(err)) => {
                let mut membership = self.membership.lock().await;
                if err.kind() == ServerErrorKind::NoScript.into() {
                    membership.lose();
                } else if err.is_unrecoverable_error() {
                    membership.drop_link();
                }
                Err(told(&err))
            }
            Err(_) => {
                self.membership.lock().await.drop_link();
                Err("it did not answer in time".into())
            }
        }
    }

    async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, String> {
        let since = Instant::now();
        let Some(value) = self.value(id).await?.filter(|value| value != TOMBSTONE) else { return Ok(None) };
        let (expires, row) = value.split_first_chunk::<8>().ok_or("a session is malformed")?;
        let row = Row::parse(u64::from_be_bytes(*expires), *id, row).map_err(|err| err.to_string())?;
        let aad = match row.aad(self.settings.accept_unauthenticated_rows_until_ms) {
            Err(RowFault::Unauthenticated(_)) => return Ok(None),
            aad => aad.map_err(|err| err.to_string())?,
        };
        let key = self.keys.unwrap(&aad, &row.wrapped).map_err(|err| err.to_string())?;
        // The end of one session is the end of its whole chain of renewals.
        if let Some(lineage) = &row.facts.lineage
            && self.value(lineage).await?.is_some_and(|first| first == TOMBSTONE)
        {
            return Ok(None);
        }
        let session = Session::new(self.provider, row.facts.with(key)).map_err(|err| err.to_string())?;
        let session = Arc::new(session);
        self.held.hold(&session, since);
        Ok(Some(session))
    }

    async fn value(&self, id: &SessionId) -> Result<Option<Vec<u8>>, String> {
        let mut cmd = redis::cmd("GET");
        cmd.arg(format!("{}:s:{id}", self.settings.prefix));
        self.ask(&cmd).await
    }

    /// The epoch in force.
    async fn join(&self) -> Result<Epoch, String> {
        let joined = tokio::time::timeout(self.settings.deadline, async {
            self.membership.lock().await.join(&self.client, &self.settings.prefix).await
        });
        joined.await.unwrap_or_else(|_| Err("it did not answer in time".into()))
    }

    /// Runs the script once.
    async fn run(&self, cmd: &Cmd) -> Result<Answer, String> {
        let (state, time_ms, floor_ms) = self.ask::<(String, u64, u64)>(cmd).await?;
        if state == "EPOCH" || state == "CLOCK" {
            self.membership.lock().await.lose();
        }
        Ok(Answer { state, time_ms, floor_ms })
    }

    /// Waits until Redis's clock has come to a time, and has it say that its memory is the same one: a loss of it before could
    /// forget a claim whose stamp is ahead.
    async fn come_to(&self, epoch: &Epoch, until_ms: u64, mut time_ms: u64) -> Result<(), String> {
        let mut left_ms = WAIT_MAX_MS;
        while time_ms < until_ms {
            let wait_ms = until_ms - time_ms;
            let rest = left_ms.checked_sub(wait_ms);
            left_ms = rest.ok_or("the stamp is too far ahead of its clock")?;
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            let mut cmd = epoch.call(&self.settings.prefix, key(&self.settings.prefix, "epoch").as_bytes());
            cmd.arg("").arg(0).arg(0).arg(0);
            let answer = self.run(&cmd).await?;
            if answer.state != "OK" {
                return Err("its memory is another one".into());
            }
            time_ms = answer.time_ms;
        }
        Ok(())
    }
}

fn unavailable(why: impl std::fmt::Display) -> ReserveError {
    ReserveError::Unavailable(format!("Redis: {why}"))
}

#[async_trait]
impl Store for Redis {
    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        if let Some(session) = self.held.at_hand(id) {
            return Ok(Some(session));
        }
        let found = self.find(id).await.map_err(|why| StoreError::Unavailable(format!("Redis: {why}")))?;
        if found.is_none() {
            self.held.forget(id);
        }
        Ok(found)
    }

    // SPEC redis-store.md#nonces
    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        let epoch = self.join().await.map_err(unavailable)?;
        let kept_ms = claim.expires_ms().saturating_sub(claim.now_ms());
        let window_ms = kept_ms.saturating_sub(1) / 2;
        if epoch.is_again
            && !self.settings.postgres_behind
            && claim.stamp_ms() <= epoch.made_ms.saturating_add(window_ms)
        {
            // Whoever began this epoch may not have known of the loss.
            return Err(unavailable("the request may be older than its memory"));
        }
        let mut token = [0_u8; 8];
        self.provider.fill_random(&mut token).map_err(unavailable)?;
        let mut name = key(&self.settings.prefix, "n:").into_bytes();
        name.extend_from_slice(&claim.key().0);
        let gone_ms = claim.stamp_ms().saturating_add(window_ms).saturating_add(1);
        let mut cmd = epoch.call(&self.settings.prefix, &name);
        cmd.arg(&token).arg(kept_ms).arg(claim.stamp_ms()).arg(gone_ms);
        // Once, under one token: when its answer is lost it may have been granted.
        let answer = self.run(&cmd).await.map_err(unavailable)?;
        match answer.state.as_str() {
            "FRESH" => Ok(Fresh::reserved(claim)),
            "AHEAD" => {
                let until_ms = claim.stamp_ms().saturating_sub(AHEAD_MS);
                self.come_to(&epoch, until_ms, answer.time_ms).await.map_err(unavailable)?;
                Ok(Fresh::reserved(claim))
            }
            "REPLAYED" | "FORGOTTEN" => Err(ReserveError::Replayed),
            "FLOOR" if answer.floor_ms < answer.time_ms => Err(ReserveError::Replayed),
            "FLOOR" => Err(unavailable("its floor lies ahead")),
            _ => Err(unavailable("its memory is another one")),
        }
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("settings", &self.settings).finish_non_exhaustive()
    }
}
