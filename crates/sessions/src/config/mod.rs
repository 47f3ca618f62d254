//! `sessions:`, `replay:` and `compat:` of the configuration: as written (`Raw…`), then checked.

mod authentication;
mod files;
mod identity;
mod open;
mod policies;
mod stores;
mod wire3;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::limits::{TTL_SEC_CONFIG_MAX, WINDOW_MS_DEFAULT, WINDOW_MS_MAX};
use sealway_proto::session::TtlPolicy;
use sealway_proto::wire::ReplayPolicy;
use sealway_runtime::clock::{Clock, parse_iso8601};
use sealway_runtime::config::{ConfigError, Problems, read_secret, relative_to};
use serde::{Deserialize, Serialize};

use crate::authority::{Authority, KeyEndpoint, Policy};
use crate::kek::KeyWrap;
use crate::peer::PeerSecret;
use crate::policies::{PolicyTable, Wires};
use crate::store::remote::{self, RemoteConfig};
use crate::store::{MemoryLimits, Store};
use crate::three::Wire3Policy;
use identity::IdentityConfig;
use remote::config::RawRemote;
use stores::{RawServers, ServerSettings};
pub use stores::{StoreUrl, redact};

/// `sessions:` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawSessions {
    store: Option<String>,
    postgres: Option<stores::RawPostgres>,
    redis: Option<stores::RawRedis>,
    remote: Option<RawRemote>,
    cache: Option<stores::RawCache>,
    kek_file: Option<String>,
    kek_broker: Option<RawKekBroker>,
    allow_generated_kek: Option<bool>,
    accept_unauthenticated_rows_until: Option<String>,
    identity: Option<identity::RawIdentity>,
    sessions_max: Option<usize>,
    ttl: Option<RawTtl>,
    anonymous_paths: Option<Vec<String>>,
    anonymous_inits_per_minute: Option<u32>,
    authenticated_inits_per_minute: Option<u32>,
    tokens: Option<authentication::RawTokens>,
    authentication: Option<authentication::RawAuthentication>,
    wires: Option<Vec<u8>>,
    wire3: Option<wire3::RawWire3>,
    policies: Option<Vec<policies::RawPolicy>>,
    key_endpoint_secret_file: Option<String>,
    authority_secret_file: Option<String>,
    store_deadline_ms: Option<u64>,
}

impl RawSessions {
    /// Whether the configuration says where sessions are kept.
    pub fn names_a_store(&self) -> bool {
        self.store.is_some()
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawKekBroker {
    socket: String,
    profile: String,
    key: String,
    uid: Option<u32>,
    wraps: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawTtl {
    min_sec: Option<u32>,
    max_sec: Option<u32>,
    default_sec: Option<u32>,
    v1_anonymous_sec: Option<u32>,
    v1_authenticated_sec: Option<u32>,
    wire1_anonymous_sec: Option<u32>,
}

/// `replay:` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawReplay {
    window_ms: Option<u64>,
    nonce_ttl_ms: Option<u64>,
    nonces_max: Option<usize>,
    nonces_cleanup_from: Option<usize>,
}

/// `compat:` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawCompat {
    open_key_endpoint: Option<bool>,
    nonce_fallback: Option<RawFallback>,
}

/// What takes nonces while Redis is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawFallback {
    Memory,
    None,
}

/// A broker that wraps session keys: `sessions.kek_broker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KekBroker {
    /// Its socket.
    pub socket: PathBuf,
    /// The profile that says how it encrypts.
    pub profile: String,
    /// The key of its store.
    pub key: String,
    /// The user that it must run as, before it is sent anything; whoever listens there, unless said.
    pub uid: Option<u32>,
    /// Beside a key file, while sessions move between the two: whether the broker wraps, and not the file. Both unwrap.
    pub wraps: bool,
}

/// Checked. Holds no secret: those are read from their files when the authority starts.
#[derive(Clone, Debug)]
pub struct SessionsConfig {
    /// Where sessions are kept.
    pub store: StoreUrl,
    servers: ServerSettings,
    remote: Option<RemoteConfig>,
    /// The key-encryption keys; beside the store unless set.
    pub kek_file: Option<PathBuf>,
    /// Whether a missing key file is made.
    pub allow_generated_kek: bool,
    /// A broker that wraps session keys, in place of a key file or, for a move, beside one.
    pub kek_broker: Option<KekBroker>,
    /// Until when rows of an earlier release are read, whose fields nothing authenticates; 0 is never.
    unauthenticated_until_ms: u64,
    plugged: Option<Arc<dyn KeyWrap>>,
    identity: IdentityConfig,
    limits: MemoryLimits,
    ttl: [u32; 6],
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
    window_ms: u64,
    nonce_ttl_ms: u64,
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
    let fall_back = compat.nonce_fallback == Some(RawFallback::Memory);
    let raw = RawServers {
        postgres: sessions.postgres.as_ref(),
        redis: sessions.redis.as_ref(),
        cache: sessions.cache.as_ref(),
        fall_back,
    };
    store.check(problems, &mut warnings);
    let servers = ServerSettings::resolve(&raw, &store, file, problems);
    let raw_remote = sessions.remote.clone().unwrap_or_default();
    let remote = match &store {
        StoreUrl::Remote(url) => Some(remote::config::resolve(url, &raw_remote, file, problems, &mut warnings)),
        _ if sessions.remote.is_some() => {
            problems.add("sessions.remote", "sessions.store names no authority, so this has no effect; take it out");
            None
        }
        _ => None,
    };
    if fall_back {
        warnings.push(
            "compat.nonce_fallback: memory: while Redis is away each process takes nonces into its own memory, so a request \
             can be replayed once at every other process"
                .into(),
        );
    }
    let store_deadline_ms =
        problems.bounded("sessions.store_deadline_ms", sessions.store_deadline_ms, 2000, 10..=60_000);
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
    let window_ms = problems.bounded("replay.window_ms", replay.window_ms, WINDOW_MS_DEFAULT, 1..=WINDOW_MS_MAX);
    let nonce_ttl_ms =
        problems.bounded("replay.nonce_ttl_ms", replay.nonce_ttl_ms, 2 * window_ms, 1..=10 * WINDOW_MS_MAX);
    if nonce_ttl_ms < 2 * window_ms {
        warnings.push(format!(
            "replay.nonce_ttl_ms: {nonce_ttl_ms} is raised to {}, twice the window: a request stamped at the future \
             edge must not outlive its own record",
            2 * window_ms
        ));
    }
    let defaults = MemoryLimits::default();
    let nonces_max =
        problems.bounded("replay.nonces_max", replay.nonces_max, defaults.nonces_max, 1000..=1_000_000_000);
    let cleanup_default = nonces_max / 5 * 4;
    let nonces_cleanup_from = problems.bounded(
        "replay.nonces_cleanup_from",
        replay.nonces_cleanup_from,
        cleanup_default,
        100..=nonces_max.saturating_sub(1),
    );
    let limits = MemoryLimits {
        sessions_max: problems.bounded(
            "sessions.sessions_max",
            sessions.sessions_max,
            defaults.sessions_max,
            1..=1_000_000_000,
        ),
        nonces_max,
        nonces_cleanup_from,
    };
    let anonymous_paths = sessions.anonymous_paths.clone().unwrap_or_default();
    for (index, path) in anonymous_paths.iter().enumerate() {
        if !path.starts_with('/') || path.contains(['?', '*', '#']) {
            problems.add(format!("sessions.anonymous_paths[{index}]"), "expected an exact path such as /public/quote");
        }
    }
    let (tokens, raw) = (sessions.tokens.as_ref(), sessions.authentication.as_ref());
    let authentication = authentication::resolve(tokens, raw, file, problems, &mut warnings);
    let open_key_endpoint = compat.open_key_endpoint.unwrap_or(false);
    if open_key_endpoint {
        warnings.push(
            "compat.open_key_endpoint is on: whoever knows a session id and its client id can read the session's key"
                .into(),
        );
    }
    if open_key_endpoint && sessions.key_endpoint_secret_file.is_some() {
        problems.add("sessions.key_endpoint_secret_file", "has no effect beside compat.open_key_endpoint; choose one");
    }
    let identity = IdentityConfig::resolve(sessions.identity.as_ref(), &store, file, problems, &mut warnings);
    SessionsConfig {
        store,
        servers,
        remote,
        kek_file: sessions.kek_file.as_deref().map(|path| relative_to(file, path)),
        allow_generated_kek: sessions.allow_generated_kek.unwrap_or(false),
        kek_broker: resolve_kek_broker(sessions, file, problems),
        unauthenticated_until_ms: resolve_unauthenticated(sessions, problems, &mut warnings),
        plugged: None,
        identity,
        limits,
        ttl: resolve_ttl(&sessions.ttl.clone().unwrap_or_default(), problems),
        anonymous_paths,
        anonymous_inits_per_minute: sessions.anonymous_inits_per_minute.unwrap_or(10),
        authenticated_inits_per_minute: sessions.authenticated_inits_per_minute.unwrap_or(30),
        wire3: wire3::resolve(sessions.wire3.as_ref(), problems),
        wires: policies::served(sessions.wires.as_deref(), problems),
        policies: policies::table(sessions.policies.as_deref().unwrap_or_default(), problems),
        authentication,
        key_endpoint_secret_file: sessions.key_endpoint_secret_file.as_deref().map(|path| relative_to(file, path)),
        authority_secret_file: sessions.authority_secret_file.as_deref().map(|path| relative_to(file, path)),
        open_key_endpoint,
        window_ms,
        nonce_ttl_ms: nonce_ttl_ms.max(2 * window_ms),
        store_deadline_ms,
        warnings,
    }
}

fn resolve_unauthenticated(sessions: &RawSessions, problems: &mut Problems, warnings: &mut Vec<String>) -> u64 {
    let Some(text) = &sessions.accept_unauthenticated_rows_until else { return 0 };
    let Some(until_ms) = parse_iso8601(text) else {
        let what = format!("\"{text}\": expected a time in UTC such as 2026-11-21T04:03:00Z");
        problems.add("sessions.accept_unauthenticated_rows_until", what);
        return 0;
    };
    warnings.push(format!(
        "sessions.accept_unauthenticated_rows_until: until {text} whoever can write the store can say who the client of a \
         session of an earlier release on wires 1 and 2 is; take it out when those sessions have ended"
    ));
    until_ms
}

fn resolve_kek_broker(sessions: &RawSessions, file: Option<&Path>, problems: &mut Problems) -> Option<KekBroker> {
    let raw = sessions.kek_broker.as_ref()?;
    for (name, text, len_max) in [("profile", &raw.profile, 64), ("key", &raw.key, 53), ("socket", &raw.socket, 107)] {
        if text.is_empty() || text.len() > len_max {
            problems.add(format!("sessions.kek_broker.{name}"), format!("expected 1 to {len_max} bytes"));
        }
    }
    match (sessions.kek_file.is_some(), raw.wraps) {
        (true, None) => problems.add(
            "sessions.kek_broker",
            "beside sessions.kek_file, to move from one to the other, wraps has to say which wraps: true for the broker, false \
             for the file",
        ),
        (false, Some(false)) => problems.add("sessions.kek_broker.wraps", "false, and no sessions.kek_file that would wrap"),
        _ => {}
    }
    let (socket, wraps) = (relative_to(file, &raw.socket), raw.wraps.unwrap_or(true));
    Some(KekBroker { socket, profile: raw.profile.clone(), key: raw.key.clone(), uid: raw.uid, wraps })
}

/// In the order of [`TtlPolicy`]'s fields.
fn resolve_ttl(raw: &RawTtl, problems: &mut Problems) -> [u32; 6] {
    let defaults = TtlPolicy::default();
    let mut sec = |name: &str, value, default| {
        problems.bounded(&format!("sessions.ttl.{name}"), value, default, 1..=TTL_SEC_CONFIG_MAX)
    };
    // What nobody set follows what somebody did.
    let max_sec = sec("max_sec", raw.max_sec, defaults.max_sec.max(raw.min_sec.unwrap_or(0)));
    let min_sec = sec("min_sec", raw.min_sec, defaults.min_sec.min(max_sec));
    let default_sec = sec("default_sec", raw.default_sec, defaults.default_sec.min(max_sec).max(min_sec.min(max_sec)));
    let ttl = [
        min_sec,
        max_sec,
        default_sec,
        sec("v1_anonymous_sec", raw.v1_anonymous_sec, defaults.v1_anonymous_sec),
        sec("v1_authenticated_sec", raw.v1_authenticated_sec, defaults.v1_authenticated_sec),
        sec("wire1_anonymous_sec", raw.wire1_anonymous_sec, defaults.wire1_anonymous_sec),
    ];
    let [min, max, default, ..] = ttl;
    if !(min <= default && default <= max) {
        problems.add(
            "sessions.ttl",
            format!("min_sec {min}, default_sec {default} and max_sec {max} must be in this order"),
        );
        return resolve_ttl(&RawTtl::default(), problems);
    }
    ttl
}

impl SessionsConfig {
    /// Plugs in what wraps session keys in place of a key ring: the program does where [`SessionsConfig::kek_broker`] says so.
    pub fn wrap_keys_with(&mut self, keys: Arc<dyn KeyWrap>) {
        self.plugged = Some(keys);
    }

    /// What an operator should know, once, at start.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Tells how many calls a second the bound of nonces is enough for.
    fn tell_room(&self, store: &dyn Store) {
        let nonces_max = store.status().nonces_max;
        if nonces_max == 0 {
            return;
        }
        let nonce_ttl_sec = (self.nonce_ttl_ms / 1000).max(1);
        let calls_per_sec = nonces_max as u64 / nonce_ttl_sec;
        let bounds = match self.store.redis() {
            Some(_) => "what stands in while Redis is away; before that Redis's memory is the bound",
            None => "sealed calls, and as many inits",
        };
        tracing::info!(calls_per_sec, nonces_max, nonce_ttl_sec, bounds, "sustained load that nonces have room for");
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
        let [min_sec, max_sec, default_sec, v1_anonymous_sec, v1_authenticated_sec, wire1_anonymous_sec] = self.ttl;
        let key_endpoint = match self.key_endpoint_secret()? {
            _ if self.open_key_endpoint => KeyEndpoint::Open,
            Some(secret) => KeyEndpoint::Secret(secret),
            None => KeyEndpoint::Closed,
        };
        let peer_secret = self.authority_secret()?;
        let policy = Policy {
            replay: ReplayPolicy::new(self.window_ms, self.nonce_ttl_ms),
            ttl: TtlPolicy {
                min_sec,
                max_sec,
                default_sec,
                v1_anonymous_sec,
                v1_authenticated_sec,
                wire1_anonymous_sec,
            },
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

/// Reads a bearer secret that is worth the name.
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
