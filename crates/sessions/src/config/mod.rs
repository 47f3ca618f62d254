//! `sessions:`, `replay:` and `compat:` of the configuration: as written (`Raw…`), then checked.

mod authentication;
mod compat;
mod files;
mod identity;
mod kek;
mod open;
mod policies;
mod replay;
mod stores;
mod ttl;
mod wire3;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::session::TtlPolicy;
use sealway_proto::wire::ReplayPolicy;
use sealway_runtime::clock::{Clock, parse_iso8601};
use sealway_runtime::config::{ConfigError, FilePath, Flag, Number, Problems, read_secret, relative_to};
use serde::{Deserialize, Serialize};

use crate::authority::{Authority, KeyEndpoint, Policy};
use crate::kek::KeyWrap;
use crate::native::Wire3Policy;
use crate::peer::PeerSecret;
use crate::policies::{PolicyTable, Wires};
use crate::store::remote::{self, RemoteConfig};
use crate::store::{MemoryLimits, Store};
pub use compat::RawCompat;
use identity::IdentityConfig;
pub use kek::KekBroker;
use remote::config::RawRemote;
pub use replay::RawReplay;
use replay::Replay;
use stores::{RawServers, ServerSettings};
pub use stores::{StoreUrl, redact};

/// Section `sessions:` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawSessions {
    /// URL of the store of sessions and nonces, at most 8192 bytes; [Stores](#stores).
    /// - default: `memory:`
    store: Option<String>,
    /// Connections to PostgreSQL, for a store with `postgres://`.
    postgres: Option<stores::RawPostgres>,
    /// Connections to Redis, for a store with `redis://`.
    redis: Option<stores::RawRedis>,
    /// Connections to another authority, for `https://AUTHORITY`.
    remote: Option<RawRemote>,
    /// Copies of sessions in this process, for stores of several processes.
    cache: Option<stores::RawCache>,
    /// Key-encryption keys, read again when the file changes. Without it, the variable `SEALWAY_KEK` may hold the lines of
    /// such a file. Stores of several processes need one of the two.
    /// - default: with `file:`, the store's path with the extension `kek`; else none
    kek_file: Option<FilePath>,
    /// Broker that wraps session keys, so that no key-encryption key is in this process or its files. It replaces
    /// `kek_file`, or stands beside it with `wraps`. A start waits ten seconds for it
    /// ([Where a broker wraps](../guides/stores.md#keep-the-key-encryption-key-in-a-broker)).
    kek_broker: Option<kek::RawKekBroker>,
    /// Creates a missing key file.
    allow_generated_kek: Flag<false>,
    /// Stored sessions of an earlier release on wires 1 and 2 are read if they end by then
    /// ([stores.md](../guides/stores.md#upgrade-to-authenticated-rows)).
    /// - type: a time in UTC, `2026-11-21T04:03:00Z`, at most 31 days ahead
    /// - default: never
    accept_unauthenticated_rows_until: Option<String>,
    /// Identity keys by which clients of wire 3 know the service.
    identity: Option<identity::RawIdentity>,
    /// Sessions held, in PostgreSQL by all processes together. Over it new ones get 503. Redis alone does not count them:
    /// its `maxmemory` is the bound.
    sessions_max: Number<usize, { MemoryLimits::DEFAULT.sessions_max as u64 }, 1, 1_000_000_000>,
    /// Lifetimes of sessions by init endpoint.
    ttl: Option<ttl::RawTtl>,
    /// Exact paths that anonymous sessions may call; no `?`, `*`, `#`.
    /// - type: list of paths
    anonymous_paths: Option<Vec<String>>,
    /// Inits at `/session/init/anon` a minute and address (IPv6: a /64); 0: no limit. The address is the connection's:
    /// behind a proxy all its clients share one, so set 0 there and limit at the proxy.
    anonymous_inits_per_minute: Number<u32, 10, 0, { u32::MAX as u64 }>,
    /// Wire 1 inits at `/session/init` a minute and value of `Authorization`; 0: no limit.
    authenticated_inits_per_minute: Number<u32, 30, 0, { u32::MAX as u64 }>,
    /// Bearer tokens that this process verifies itself.
    tokens: Option<authentication::RawTokens>,
    /// Recognition of clients by token or certificate; [Authentication](#authentication).
    authentication: Option<authentication::RawAuthentication>,
    /// Wires that are served: inits and sealed calls of another are 403 `WIRE_DISABLED`.
    /// - type: list of 1, 2, 3
    /// - default: all
    wires: Option<Vec<u8>>,
    /// Settings that apply to wire 3 only.
    wire3: Option<wire3::RawNative>,
    /// Permissions of clients, the first match decides; [Policies](#policies).
    policies: Option<Vec<policies::RawPolicy>>,
    /// One line of at least 16 visible ASCII characters: `GET /v1/session/{id}` is served to callers that present it as
    /// bearer. Not beside `compat.open_key_endpoint`.
    key_endpoint_secret_file: Option<FilePath>,
    /// One line of at least 16 visible ASCII characters: other processes with `sessions.store: https://…` may use this
    /// authority when they present it ([remote-authority.md](../guides/remote-authority.md)).
    authority_secret_file: Option<FilePath>,
    /// Time that the store may take. Over it: 503.
    store_deadline_ms: Number<u64, 2000, 10, 60_000>,
}

impl RawSessions {
    /// True if the configuration names a store.
    pub fn names_a_store(&self) -> bool {
        self.store.is_some()
    }
}

/// The three sections, checked. Holds no secret: secrets are read from their files when the authority starts.
#[derive(Clone, Debug)]
pub struct SessionsConfig {
    /// Store of sessions and nonces.
    pub store: StoreUrl,
    servers: ServerSettings,
    remote: Option<RemoteConfig>,
    /// File of the key-encryption keys; by default beside the store.
    pub kek_file: Option<PathBuf>,
    /// True if a missing key file is created.
    pub allow_generated_kek: bool,
    /// Broker that wraps session keys, in place of a key file or, during a move, beside one.
    pub kek_broker: Option<KekBroker>,
    /// Time in Unix milliseconds until which unauthenticated rows of an earlier release are read; 0 means never.
    unauthenticated_until_ms: u64,
    plugged: Option<Arc<dyn KeyWrap>>,
    identity: IdentityConfig,
    limits: MemoryLimits,
    ttl: TtlPolicy,
    anonymous_paths: Vec<String>,
    anonymous_inits_per_minute: u32,
    authenticated_inits_per_minute: u32,
    authentication: authentication::AuthenticationConfig,
    wires: Wires,
    wire3: Wire3Policy,
    policies: PolicyTable,
    key_endpoint_secret_file: Option<PathBuf>,
    authority_secret_file: Option<PathBuf>,
    open_key_endpoint: bool,
    replay: Replay,
    store_deadline_ms: u64,
    warnings: Vec<String>,
}

/// Checks the three sections. Paths are resolved against `file`, the configuration's own.
pub fn resolve(
    sessions: &RawSessions,
    replay: &RawReplay,
    compat: &RawCompat,
    file: Option<&Path>,
    problems: &mut Problems,
) -> SessionsConfig {
    let mut warnings = Vec::new();
    let store = StoreUrl::parse(sessions.store.as_deref().unwrap_or("memory:"), file, problems);
    let compat = compat::resolve(compat);
    store.check(problems, &mut warnings);
    let raw = RawServers {
        postgres: sessions.postgres.as_ref(),
        redis: sessions.redis.as_ref(),
        cache: sessions.cache.as_ref(),
        fall_back: compat.fall_back,
    };
    let servers = ServerSettings::resolve(&raw, &store, file, problems);
    let remote = resolve_remote(sessions.remote.as_ref(), &store, file, problems, &mut warnings);
    compat.warn(&mut warnings);
    let store_deadline_ms = sessions.store_deadline_ms.check("sessions.store_deadline_ms", problems);
    let deadlines = [
        ("postgres", store.postgres().map(|_| servers.postgres.deadline)),
        ("redis", store.redis().map(|_| servers.redis.deadline)),
        ("remote", remote.as_ref().map(|remote| remote.deadline)),
    ];
    for (section, deadline) in deadlines {
        if deadline.is_some_and(|deadline| deadline.as_millis() >= u128::from(store_deadline_ms)) {
            warnings.push(format!(
                "sessions.{section}.deadline_ms is not below sessions.store_deadline_ms, {store_deadline_ms}, which cuts it \
                 short: the log will not say what was slow"
            ));
        }
    }
    let replay = replay::resolve(replay, problems, &mut warnings);
    let limits = MemoryLimits {
        sessions_max: sessions.sessions_max.check("sessions.sessions_max", problems),
        nonces_max: replay.nonces_max,
        nonces_cleanup_from: replay.nonces_cleanup_from,
    };
    let (tokens, raw) = (sessions.tokens.as_ref(), sessions.authentication.as_ref());
    let authentication = authentication::resolve(tokens, raw, file, problems, &mut warnings);
    if compat.open_key_endpoint && sessions.key_endpoint_secret_file.is_some() {
        problems.add("sessions.key_endpoint_secret_file", "has no effect beside compat.open_key_endpoint; choose one");
    }
    let identity = IdentityConfig::resolve(sessions.identity.as_ref(), &store, file, problems, &mut warnings);
    let path = |path: &Option<FilePath>| path.as_deref().map(|path| relative_to(file, path));
    let (kek_file, kek_broker) = (path(&sessions.kek_file), sessions.kek_broker.as_ref());
    SessionsConfig {
        store,
        servers,
        remote,
        allow_generated_kek: sessions.allow_generated_kek.get(),
        kek_broker: kek_broker.map(|raw| kek::resolve(raw, kek_file.is_some(), file, problems)),
        kek_file,
        unauthenticated_until_ms: resolve_unauthenticated(sessions, problems, &mut warnings),
        plugged: None,
        identity,
        limits,
        ttl: ttl::resolve(&sessions.ttl.clone().unwrap_or_default(), problems),
        anonymous_paths: resolve_anonymous_paths(sessions, problems),
        anonymous_inits_per_minute: sessions
            .anonymous_inits_per_minute
            .check("sessions.anonymous_inits_per_minute", problems),
        authenticated_inits_per_minute: sessions
            .authenticated_inits_per_minute
            .check("sessions.authenticated_inits_per_minute", problems),
        wire3: wire3::resolve(&sessions.wire3.clone().unwrap_or_default(), problems),
        wires: policies::served(sessions.wires.as_deref(), problems),
        policies: policies::table(sessions.policies.as_deref().unwrap_or_default(), problems),
        authentication,
        key_endpoint_secret_file: path(&sessions.key_endpoint_secret_file),
        authority_secret_file: path(&sessions.authority_secret_file),
        open_key_endpoint: compat.open_key_endpoint,
        replay,
        store_deadline_ms,
        warnings,
    }
}

fn resolve_remote(
    raw: Option<&RawRemote>,
    store: &StoreUrl,
    file: Option<&Path>,
    problems: &mut Problems,
    warnings: &mut Vec<String>,
) -> Option<RemoteConfig> {
    if let StoreUrl::Remote(url) = store {
        return Some(remote::config::resolve(url, &raw.cloned().unwrap_or_default(), file, problems, warnings));
    }
    if raw.is_some() {
        problems.add("sessions.remote", "sessions.store names no authority, so this has no effect; take it out");
    }
    None
}

fn resolve_anonymous_paths(sessions: &RawSessions, problems: &mut Problems) -> Vec<String> {
    let paths = sessions.anonymous_paths.clone().unwrap_or_default();
    for (index, path) in paths.iter().enumerate() {
        if !path.starts_with('/') || path.contains(['?', '*', '#']) {
            problems.add(format!("sessions.anonymous_paths[{index}]"), "expected an exact path such as /public/quote");
        }
    }
    paths
}

fn resolve_unauthenticated(sessions: &RawSessions, problems: &mut Problems, warnings: &mut Vec<String>) -> u64 {
    let Some(text) = &sessions.accept_unauthenticated_rows_until else { return 0 };
    let Some(until_ms) = parse_iso8601(text) else {
        let what = format!("\"{text}\": expected a time in UTC such as 2026-11-21T04:03:00Z");
        problems.add("sessions.accept_unauthenticated_rows_until", what);
        return 0;
    };
    warnings.push(format!(
        "sessions.accept_unauthenticated_rows_until: until {text} anyone who can write the store can say who the client of a \
         session of an earlier release on wires 1 and 2 is; take it out when those sessions have ended"
    ));
    until_ms
}

impl SessionsConfig {
    /// Plugs in a key wrap in place of the key ring. The program does so if [`SessionsConfig::kek_broker`] is set.
    pub fn wrap_keys_with(&mut self, keys: Arc<dyn KeyWrap>) {
        self.plugged = Some(keys);
    }

    /// Returns notices for the operator, to be logged once at start.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Logs the rate of calls for which the bound of nonces is enough.
    fn tell_room(&self, store: &dyn Store) {
        let nonces_max = store.status().nonces_max;
        if nonces_max == 0 {
            return;
        }
        let nonce_ttl_sec = (self.replay.nonce_ttl_ms / 1000).max(1);
        let calls_per_sec = nonces_max as u64 / nonce_ttl_sec;
        let bounds = match self.store.redis() {
            Some(_) => "what stands in while Redis is away; before that Redis's memory is the bound",
            None => "sealed calls, and as many inits",
        };
        tracing::info!(
            calls_per_sec,
            nonces_max,
            nonce_ttl_sec,
            bounds,
            "sustained request rate that the nonce bound allows"
        );
    }

    /// Opens the store, reads the secrets and puts the authority together.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file or the server at fault.
    pub async fn start(
        &self,
        provider: &'static dyn AgreementProvider,
        clock: Arc<dyn Clock>,
    ) -> Result<Authority, ConfigError> {
        let store = self.open_store(provider, &clock).await?;
        let key_endpoint = match self.key_endpoint_secret()? {
            _ if self.open_key_endpoint => KeyEndpoint::Open,
            Some(secret) => KeyEndpoint::Secret(secret),
            None => KeyEndpoint::Closed,
        };
        let peer_secret = self.authority_secret()?;
        let policy = Policy {
            replay: ReplayPolicy::new(self.replay.window_ms, self.replay.nonce_ttl_ms),
            ttl: self.ttl,
            anonymous_paths: self.anonymous_paths.clone(),
            anonymous_inits_per_minute: self.anonymous_inits_per_minute,
            authenticated_inits_per_minute: self.authenticated_inits_per_minute,
            key_endpoint,
            peer_secret: peer_secret.map(PeerSecret::new),
            authentication: self.authentication.open()?,
            policies: self.policies.clone(),
            wires: self.wires,
            wire3: self.wire3.clone(),
            identity: self.identity.open(provider, &clock, &self.store).await?,
            store_deadline: Duration::from_millis(self.store_deadline_ms),
            ..Policy::default()
        };
        self.tell_room(store.as_ref());
        Ok(Authority::new(provider, store, clock, policy))
    }
}

/// Reads a bearer secret of at least 16 visible ASCII characters.
///
/// # Errors
/// [`ConfigError`], naming the file.
pub fn strong_secret(file: &Path) -> Result<zeroize::Zeroizing<String>, ConfigError> {
    let secret = zeroize::Zeroizing::new(read_secret(file)?);
    if secret.len() < 16 || !secret.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(ConfigError(format!("{}: expected at least 16 visible ASCII characters", file.display())));
    }
    Ok(secret)
}
