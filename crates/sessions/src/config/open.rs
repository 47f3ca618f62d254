//! Opening of the store from checked settings.

use std::path::Path;
use std::sync::Arc;

use sealway_proto::crypto::Provider;
use sealway_proto::limits::TTL_SEC_CONFIG_MAX;
use sealway_runtime::clock::Clock;
use sealway_runtime::config::ConfigError;
use sealway_runtime::redis::TlsFiles;

use super::{SessionsConfig, StoreUrl};
use crate::kek::{KekSource, KeyRing, KeyWrap, UnauthenticatedUntil};
use crate::store::postgres::{self, MigrationReport, Postgres, PostgresConfig};
use crate::store::redis::{Redis, RedisConfig};
use crate::store::remote::Remote;
use crate::store::tiered::TieredStore;
use crate::store::{Durable, Embedded, Memory, OpenError, SessionCache, Store, tls};

/// Environment variable with key-encryption keys, used if no file is configured: the lines of a key file.
const KEK_VARIABLE: &str = "SEALWAY_KEK";
/// Maximum of `accept_unauthenticated_rows_until`, in ms from now: the longest lifetime of a session plus a day.
const UNAUTHENTICATED_MS_MAX: u64 = (TTL_SEC_CONFIG_MAX as u64 + 86_400) * 1000;

impl SessionsConfig {
    pub(super) async fn open_store(
        &self,
        provider: &'static dyn Provider,
        clock: &Arc<dyn Clock>,
    ) -> Result<Arc<dyn Store>, ConfigError> {
        let cache = || Arc::new(SessionCache::new(self.servers.cache));
        match &self.store {
            StoreUrl::Memory => Ok(Arc::new(Memory::new(self.limits))),
            StoreUrl::File(_) => Ok(Arc::new(self.open_embedded(provider, clock).await?)),
            StoreUrl::Postgres(_) => Ok(self.open_postgres(provider, clock).await?),
            StoreUrl::Redis(_) => {
                let keys = self.keys(provider, clock)?;
                let config = self.redis_config()?;
                Ok(Redis::open(provider, config, keys, cache(), self.limits, clock.clone(), None)
                    .await
                    .map_err(named)?)
            }
            StoreUrl::Tiered(..) => {
                let (keys, cache) = (self.keys(provider, clock)?, cache());
                let (postgres, redis) = (self.postgres_config()?, self.redis_config()?);
                let on_loss = redis.on_loss;
                let postgres = Postgres::open(provider, postgres, keys.clone(), cache.clone(), clock.clone())
                    .await
                    .map_err(named)?;
                let durable: Arc<dyn Durable> = postgres.clone();
                let redis =
                    Redis::open(provider, redis, keys, cache.clone(), self.limits, clock.clone(), Some(durable)).await;
                Ok(Arc::new(TieredStore::new(postgres, redis.map_err(named)?, cache, clock.clone(), on_loss)))
            }
            StoreUrl::Remote(_) => {
                let config = self.remote.clone().ok_or_else(|| ConfigError("sessions.remote: not resolved".into()))?;
                Ok(Remote::open(provider, config, clock.clone()).await.map_err(named)?)
            }
        }
    }

    /// Opens the embedded store, for `file:PATH`.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file; another process uses the file, or another store is configured.
    pub async fn open_embedded(
        &self,
        provider: &'static dyn Provider,
        clock: &Arc<dyn Clock>,
    ) -> Result<Embedded, ConfigError> {
        let StoreUrl::File(path) = &self.store else {
            return Err(ConfigError("sessions.store: expected file:PATH".into()));
        };
        let keys = self.keys(provider, clock)?;
        let opened = Embedded::open_with(provider, path, keys, self.limits, clock.now_ms()).await;
        opened.map_err(|err| ConfigError(err.to_string()))
    }

    /// Opens the part of the store that is PostgreSQL.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file or the error of the server.
    pub async fn open_postgres(
        &self,
        provider: &'static dyn Provider,
        clock: &Arc<dyn Clock>,
    ) -> Result<Arc<Postgres>, ConfigError> {
        let keys = self.keys(provider, clock)?;
        let cache = Arc::new(SessionCache::new(self.servers.cache));
        Postgres::open(provider, self.postgres_config()?, keys, cache, clock.clone()).await.map_err(named)
    }

    /// Brings the tables in PostgreSQL up to date.
    ///
    /// # Errors
    /// [`ConfigError`], naming the error of the server.
    pub async fn migrate(&self, provider: &dyn Provider) -> Result<MigrationReport, ConfigError> {
        postgres::migrate(provider, &self.postgres_config()?).await.map_err(named)
    }

    pub(super) fn postgres_config(&self) -> Result<PostgresConfig, ConfigError> {
        let Some(url) = self.store.postgres() else {
            return Err(ConfigError("sessions.store: expected a part postgres://…".into()));
        };
        let settings = &self.servers.postgres;
        let mut config = PostgresConfig::new(url.expose()).map_err(named)?;
        if let Some(password) = settings.access.password()? {
            config.server.password(password.as_bytes());
        }
        if settings.access.names_certificates() {
            if config.tls.is_none() {
                return Err(ConfigError(
                    "sessions.postgres.ca_file: the connection is not encrypted; write sslmode=require into sessions.store"
                        .into(),
                ));
            }
            config.tls = Some(tls::client_config(settings.access.ca_file.as_deref(), settings.access.identity())?);
        }
        config.pool_max = settings.pool_max;
        config.connect_timeout = settings.connect_timeout;
        config.deadline = settings.deadline;
        config.batch_max = settings.batch_max;
        config.batch_wait = settings.batch_wait;
        config.migrate = settings.migrate;
        if let Some(url) = &settings.pooler_url {
            config.use_pooler(url).map_err(|err| ConfigError(format!("sessions.postgres.pooler_url: {err}")))?;
        }
        config.synchronous = settings.synchronous;
        config.window_ms = self.replay.window_ms;
        config.sessions_max = self.limits.sessions_max;
        config.nonces_max = self.limits.nonces_max;
        Ok(config)
    }

    pub(super) fn redis_config(&self) -> Result<RedisConfig, ConfigError> {
        let Some(url) = self.store.redis() else {
            return Err(ConfigError("sessions.store: expected a part redis://…".into()));
        };
        let settings = &self.servers.redis;
        let mut config = RedisConfig::parse_url(url.expose()).map_err(named)?;
        if let Some(username) = &settings.username {
            config.server.username = Some(username.clone());
        }
        if let Some(password) = settings.access.password()? {
            config.server.password = Some(password.to_string());
        }
        if settings.access.names_certificates() {
            if config.server.tls.is_none() {
                return Err(ConfigError(
                    "sessions.redis.ca_file: the connection is not encrypted; write rediss:// into sessions.store"
                        .into(),
                ));
            }
            config.server.tls =
                Some(TlsFiles { ca: settings.access.ca_file.clone(), client: settings.access.identity.clone() });
        }
        config.prefix.clone_from(&settings.prefix);
        config.server.deadline = settings.deadline;
        config.server.connect_timeout = settings.connect_timeout;
        config.on_loss = settings.on_loss;
        config.min_replicas = settings.min_replicas;
        config.window_ms = self.replay.window_ms;
        Ok(config)
    }

    /// Returns the wrap of session keys: the one that was plugged in, else the key ring.
    fn keys(&self, provider: &'static dyn Provider, clock: &Arc<dyn Clock>) -> Result<Arc<dyn KeyWrap>, ConfigError> {
        let keys = self.own_keys(provider)?;
        let until_ms = self.unauthenticated_until_ms;
        if until_ms > clock.now_ms().saturating_add(UNAUTHENTICATED_MS_MAX) {
            return Err(ConfigError(
                "sessions.accept_unauthenticated_rows_until: is more than 31 days ahead; no session of an earlier release \
                 lives longer"
                    .into(),
            ));
        }
        Ok(if until_ms > 0 { Arc::new(UnauthenticatedUntil::new(keys, until_ms)) } else { keys })
    }

    fn own_keys(&self, provider: &'static dyn Provider) -> Result<Arc<dyn KeyWrap>, ConfigError> {
        match (&self.plugged, &self.kek_broker) {
            (Some(keys), _) => Ok(keys.clone()),
            // Never falls back to a key file: this configuration keeps key-encryption keys out of the process.
            (None, Some(_)) => Err(ConfigError("sessions.kek_broker: this command has no client of a broker".into())),
            (None, None) => Ok(Arc::new(self.key_ring(provider)?)),
        }
    }

    /// Returns the source of the key-encryption keys, from the configuration, the environment, or the store's path.
    ///
    /// # Errors
    /// [`ConfigError`]: none is configured, and the store has no default place for a key file.
    pub fn kek_source(&self) -> Result<KekSource, ConfigError> {
        if let Some(file) = &self.kek_file {
            return Ok(KekSource::File(file.clone()));
        }
        if std::env::var_os(KEK_VARIABLE).is_some() {
            return Ok(KekSource::Env(KEK_VARIABLE.into()));
        }
        match &self.store {
            StoreUrl::File(path) => Ok(KekSource::File(path.with_extension("kek"))),
            _ => Err(ConfigError(format!(
                "sessions.kek_file: name a key file, the same for every process of this store (a line with an id and 32 \
                 random bytes in base64, mode 0600), or set {KEK_VARIABLE} to such lines: session keys are wrapped \
                 before they leave this process"
            ))),
        }
    }

    /// Reads the key-encryption keys; creates a missing file where that is allowed.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn key_ring(&self, provider: &'static dyn Provider) -> Result<KeyRing, ConfigError> {
        let source = self.kek_source()?;
        if let KekSource::File(file) = &source
            && !file.exists()
        {
            self.make_key_file(provider, file)?;
        }
        KeyRing::open(provider, source)
    }

    /// Checks that a missing key file may be created.
    pub(super) fn may_make_key_file(&self, file: &Path) -> Result<(), ConfigError> {
        if self.allow_generated_kek {
            return Ok(());
        }
        Err(ConfigError(format!(
            "sessions.kek_file: there is no key file {}; make one (a line with an id and 32 random bytes in base64, \
             mode 0600), or set sessions.allow_generated_kek: true",
            file.display()
        )))
    }

    fn make_key_file(&self, provider: &'static dyn Provider, file: &Path) -> Result<(), ConfigError> {
        self.may_make_key_file(file)?;
        KeyRing::generate(provider, file)?;
        tracing::warn!(file = %file.display(), "key file created; store it apart from the store's backups");
        Ok(())
    }
}

/// Attributes an error of opening to the setting `sessions.store`.
fn named(err: OpenError) -> ConfigError {
    ConfigError(format!("sessions.store: {err}"))
}
