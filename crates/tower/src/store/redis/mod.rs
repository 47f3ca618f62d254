//! Sessions and claims in the Redis of an authority. `spec/redis-store.md`.
//!
//! Saves a round trip compared with asking the authority; in exchange this process holds a key that unwraps all stored
//! session keys.

mod epoch;
mod keys;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use redis::{Client, Cmd, IntoConnectionInfo};
use rustls::crypto::CryptoProvider;
use sealway_proto::crypto::{Provider, default_provider};
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::store::row::{Row, RowFault};
use sealway_proto::store::script::AHEAD_MS;
use sealway_proto::wire::SessionId;

use super::held::SessionCache;
use super::{ReserveError, Store, StoreError};
use epoch::{Connection, Epoch, Link, key};
pub use keys::KeySource;
use keys::Keys;

/// Value of a session that was revoked.
const TOMBSTONE: &[u8] = b"x";
/// Maximum length of a session's value, in bytes.
const VALUE_LEN_MAX: usize = 8 * 1024;
/// Maximum time that a claim stamped ahead of Redis's clock waits, in ms.
const WAIT_MAX_MS: u64 = 2000;

/// Address of Redis, and the keys that unwrap its sessions.
#[derive(Clone)]
pub struct RedisSettings {
    /// URL `redis://` or `rediss://` with user, password, host, port and perhaps `/database`: one server, no cluster.
    /// TLS is verified by the machine's certificate authorities.
    pub url: String,
    /// Value of the authority's `sessions.redis.prefix`; `sealway` by default.
    pub prefix: String,
    /// Source of the authority's key-encryption keys.
    pub keys: KeySource,
    /// True if the authority's store is PostgreSQL and Redis, so that nothing is lost with Redis's memory.
    pub postgres_behind: bool,
    /// Time, in milliseconds since the epoch, until which sessions of earlier releases are accepted on wires 1 and 2,
    /// if they end by then; 0 accepts none. A process that can write Redis can change the client's identity of such a
    /// session. Set a fixed date once for an upgrade.
    pub accept_unauthenticated_rows_until_ms: u64,
    /// Maximum time of each request; 500 ms by default.
    pub deadline: Duration,
}

impl RedisSettings {
    /// Creates settings with the authority's defaults for the rest.
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
        // The URL may contain a password.
        f.debug_struct("RedisSettings").field("prefix", &self.prefix).field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Error of unusable settings. The text contains neither password nor key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RedisSettingsError(String);

/// A [`Store`] over the authority's Redis. The layer's window must be the authority's. Must be used within a tokio
/// runtime.
pub struct Redis {
    provider: &'static dyn Provider,
    connection: Arc<Connection>,
    keys: Keys,
    held: SessionCache,
    prefix: String,
    postgres_behind: bool,
    accept_unauthenticated_rows_until_ms: u64,
}

impl Redis {
    /// Reads the keys. Connects at the first request. For `rediss://` aws-lc-rs becomes the process's default provider
    /// of rustls, if there is none.
    ///
    /// # Errors
    /// [`RedisSettingsError`], naming the setting, or file and line, at fault.
    pub fn new(settings: RedisSettings) -> Result<Self, RedisSettingsError> {
        let RedisSettings { url, prefix, keys, postgres_behind, accept_unauthenticated_rows_until_ms, deadline } =
            settings;
        let fail = |what: &str| RedisSettingsError(what.into());
        let is_tls = url.starts_with("rediss://");
        // The library would take options from there, such as one that disables the verification of the certificate.
        if !(is_tls || url.starts_with("redis://")) || url.contains(['?', '#']) {
            return Err(fail("the URL of Redis is redis:// or rediss:// with a host, without ? and #"));
        }
        let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        if !(1..=64).contains(&prefix.len()) || !prefix.bytes().all(is_named) {
            return Err(fail("a prefix has 1 to 64 letters, digits, - _ . or :"));
        }
        if deadline.is_zero() {
            return Err(fail("the deadline is zero"));
        }
        // The library's error may contain the password.
        let info = url.as_str().into_connection_info();
        let info =
            info.map_err(|_| fail("the URL of Redis is redis:// or rediss:// with a host, and perhaps /database"))?;
        // Commands that the user has no right to are not sent.
        let user = info.redis_settings().clone().set_skip_set_lib_name();
        let client = Client::open(info.set_redis_settings(user));
        let client = client.map_err(|_| fail("the URL of Redis cannot be used"))?;
        if is_tls && CryptoProvider::get_default().is_none() {
            // Another thread may have been first.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        let provider = default_provider();
        let keys = Keys::open(provider, keys)?;
        let connection = Connection::new(client, prefix.clone(), deadline);
        let held = SessionCache::default();
        Ok(Redis { provider, connection, keys, held, prefix, postgres_behind, accept_unauthenticated_rows_until_ms })
    }

    async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, String> {
        let since = Instant::now();
        let link = self.connection.link(false).await?;
        let Some(value) = self.value(&link, id).await?.filter(|value| value != TOMBSTONE) else { return Ok(None) };
        let (expires, row) = value.split_first_chunk::<8>().ok_or("a session is malformed")?;
        if value.len() > VALUE_LEN_MAX {
            return Err("a session is longer than sessions are".into());
        }
        let row = Row::parse(u64::from_be_bytes(*expires), *id, row).map_err(|err| err.to_string())?;
        let aad = match row.aad(self.accept_unauthenticated_rows_until_ms) {
            Err(RowFault::Unauthenticated(_)) => return Ok(None),
            aad => aad.map_err(|err| err.to_string())?,
        };
        let key = self.keys.unwrap(&aad, &row.wrapped).await.map_err(|err| err.to_string())?;
        // The end of one session ends its whole chain of renewals.
        if let Some(lineage) = &row.facts.lineage
            && self.value(&link, lineage).await?.is_some_and(|first| first == TOMBSTONE)
        {
            return Ok(None);
        }
        let session = Session::new(self.provider, row.facts.with(key)).map_err(|err| err.to_string())?;
        let session = Arc::new(session);
        self.held.hold(&session, since);
        Ok(Some(session))
    }

    async fn value(&self, link: &Link, id: &SessionId) -> Result<Option<Vec<u8>>, String> {
        let mut cmd = redis::cmd("GET");
        cmd.arg(format!("{}:s:{id}", self.prefix));
        self.connection.ask(link, &cmd).await
    }

    /// Runs the epoch's script once.
    async fn run(&self, link: &Link, cmd: &Cmd) -> Result<Answer, String> {
        let (state, time_ms, floor_ms) = self.connection.ask::<(String, u64, u64)>(link, cmd).await?;
        if state == "EPOCH" || state == "CLOCK" {
            self.connection.lose(link);
        }
        Ok(Answer { state, time_ms, floor_ms })
    }

    /// Waits until Redis's clock reaches a time, and checks that its memory is still the same: an earlier loss could
    /// forget a claim whose stamp is ahead.
    async fn come_to(&self, link: &Link, epoch: &Epoch, until_ms: u64, mut time_ms: u64) -> Result<(), String> {
        let mut left_ms = WAIT_MAX_MS;
        while time_ms < until_ms {
            let wait_ms = until_ms - time_ms;
            let rest = left_ms.checked_sub(wait_ms);
            left_ms = rest.ok_or("the stamp is too far ahead of its clock")?;
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            let mut cmd = epoch.call(&self.prefix, key(&self.prefix, "epoch").as_bytes());
            cmd.arg("").arg(0).arg(0).arg(0);
            let answer = self.run(link, &cmd).await?;
            if answer.state != "OK" {
                return Err("its memory is another one".into());
            }
            time_ms = answer.time_ms;
        }
        Ok(())
    }
}

/// Answer of the epoch's script.
struct Answer {
    state: String,
    time_ms: u64,
    floor_ms: u64,
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
        // All commands of a claim use the connection on which its epoch was checked.
        let link = self.connection.link(true).await.map_err(unavailable)?;
        let epoch = link.epoch.as_ref().map_err(unavailable)?;
        let kept_ms = claim.expires_ms().saturating_sub(claim.now_ms());
        let window_ms = kept_ms.saturating_sub(1) / 2;
        if epoch.is_again && !self.postgres_behind && claim.stamp_ms() <= epoch.made_ms.saturating_add(window_ms) {
            // The process that began this epoch may not have known of the loss.
            return Err(unavailable("the request may be older than its memory"));
        }
        let mut token = [0_u8; 8];
        self.provider.fill_random(&mut token).map_err(unavailable)?;
        let mut name = key(&self.prefix, "n:").into_bytes();
        name.extend_from_slice(&claim.key().0);
        let gone_ms = claim.stamp_ms().saturating_add(window_ms).saturating_add(1);
        let mut cmd = epoch.call(&self.prefix, &name);
        cmd.arg(&token).arg(kept_ms).arg(claim.stamp_ms()).arg(gone_ms);
        // Once, under one token: if its answer is lost it may have been granted.
        let answer = self.run(&link, &cmd).await.map_err(unavailable)?;
        match answer.state.as_str() {
            "FRESH" => Ok(Fresh::reserved(claim)),
            "AHEAD" => {
                let until_ms = claim.stamp_ms().saturating_sub(AHEAD_MS);
                self.come_to(&link, epoch, until_ms, answer.time_ms).await.map_err(unavailable)?;
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
        f.debug_struct("Redis").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
