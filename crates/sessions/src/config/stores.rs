//! `sessions.store` and the sections of the servers behind it: as written (`Raw…`), then checked.
//!
//! A URL may hold a password, as in the old servers' environment. [`redact`] and `Debug` hide it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sealway_runtime::config::{ConfigError, FilePath, Flag, Number, Problems, Within, read_secret, relative_to};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::store::cache::{CacheLimits, FRESH_MS_DEFAULT};
use crate::store::postgres::{self, TlsWish};
use crate::store::redis::{OnLoss, RedisConfig};

/// Separator between the parts of a store of several servers.
const AND: &str = " + ";
const STORE_LEN_MAX: usize = 8192;
const EXPECTED: &str =
    "expected memory:, file:PATH, postgres://…, redis://…, postgres://… + redis://…, or https://AUTHORITY";

/// Section `sessions.postgres` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPostgres {
    /// File with the password in one line.
    password_file: Option<FilePath>,
    /// Certificates (PEM) that the server's must descend from.
    /// - default: the system's
    ca_file: Option<FilePath>,
    /// Certificate that this process presents, in PEM; with `client_key_file`.
    client_cert_file: Option<FilePath>,
    /// Key of the certificate in `client_cert_file`, in PEM.
    client_key_file: Option<FilePath>,
    /// Connections in the pool. One more listens for revocations.
    pool_max: Number<usize, 10, 6, 1000>,
    /// Time for a connection to be made.
    connect_timeout_ms: Number<u64, 1000, 10, 60_000>,
    /// Time for one operation of the store.
    deadline_ms: Number<u64, 1500, 10, 60_000>,
    /// Sessions or nonces in one statement.
    batch_max: Number<usize, 256, 1, 10_000>,
    /// Time that an insert waits for others to share its statement when some are under way.
    batch_wait_us: Number<u64, 0, 0, 100_000>,
    /// Brings the tables up to date at the start, as `sealway migrate` does.
    migrate: Flag<false>,
    /// Connection pooler in transaction mode, such as PgBouncer, for sessions and nonces: `postgres://…` without a password.
    /// For revocations and upkeep each gateway has up to three connections to the server in `sessions.store`.
    /// - default: none
    pooler_url: Option<String>,
    /// Commits that a standby has when it is promoted. `synchronous`: all, by `synchronous_standby_names`. `asynchronous`: the
    /// last ones may be missing, so with PostgreSQL alone the window after a promotion gets 503.
    /// - default: `asynchronous`
    standby: Option<RawStandby>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum RawStandby {
    Asynchronous,
    Synchronous,
}

/// Section `sessions.redis` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRedis {
    /// User of Redis's ACLs.
    /// - default: the URL's
    username: Option<String>,
    /// File with the password in one line.
    password_file: Option<FilePath>,
    /// Certificates (PEM) that the server's must descend from.
    /// - default: the system's
    ca_file: Option<FilePath>,
    /// Certificate that this process presents, in PEM; with `client_key_file`.
    client_cert_file: Option<FilePath>,
    /// Key of the certificate in `client_cert_file`, in PEM.
    client_key_file: Option<FilePath>,
    /// Time for a connection to be made.
    connect_timeout_ms: Number<u64, 1000, 10, 60_000>,
    /// Time for one round trip.
    deadline_ms: Number<u64, 500, 10, 60_000>,
    /// Prefix of keys; 1 to 64 letters, digits, `-` `_` `.` `:`.
    /// - default: `sealway`
    prefix: Option<String>,
    /// While Redis is away: reject, or decide by this process's memory. `local` is safe only where all requests of a session
    /// come to one process.
    /// - default: `fail_closed`
    on_loss: Option<RawOnLoss>,
    /// Replicas that must keep confirming that a server is their master. Half of all its replicas, rounded up, rule out that
    /// a master which was cut off accepts what its successor accepts.
    /// - default: with Sentinel half of the replicas that it knows, else 0
    min_replicas: Within<usize, 0, 16>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum RawOnLoss {
    FailClosed,
    Local,
}

/// Section `sessions.cache` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCache {
    /// Sessions kept in this process.
    sessions_max: Number<usize, { CacheLimits::DEFAULT.sessions_max as u64 }, 1, 10_000_000>,
    /// Time that a session is used before it is read from the store again. Revocations take effect at once.
    fresh_ms: Number<u64, FRESH_MS_DEFAULT, 0, 3_600_000>,
}

/// A store's URL; `Debug` hides its password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreAddress(Zeroizing<String>);

impl StoreAddress {
    fn new(url: &str) -> Self {
        StoreAddress(Zeroizing::new(url.to_owned()))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact(&self.0))
    }
}

/// Address of the store of sessions and nonces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// Memory of this process, lost when it ends: `memory:`
    Memory,
    /// A file on this machine: `file:PATH`
    File(PathBuf),
    /// A PostgreSQL database that processes may share: `postgres://…`
    Postgres(StoreAddress),
    /// A Redis: `redis://…`, and the other schemes of [`RedisConfig::parse_url`].
    Redis(StoreAddress),
    /// A PostgreSQL database with Redis: `postgres://… + redis://…`
    Tiered(StoreAddress, StoreAddress),
    /// Another authority over HTTP: `https://AUTHORITY`
    Remote(String),
}

impl StoreUrl {
    /// Parses the setting `sessions.store`. A text that names no store adds a problem and gives `Memory`.
    pub(super) fn parse(text: &str, file: Option<&Path>, problems: &mut Problems) -> Self {
        if text.len() > STORE_LEN_MAX {
            problems.add("sessions.store", format!("is longer than {STORE_LEN_MAX} bytes"));
            return StoreUrl::Memory;
        }
        let parts: Vec<&str> = text.split(AND).map(str::trim).collect();
        let wrong = |problems: &mut Problems, what: String| {
            problems.add("sessions.store", what);
            StoreUrl::Memory
        };
        match (parts.as_slice(), parts.iter().map(|part| Kind::of(part)).collect::<Vec<_>>().as_slice()) {
            (["memory:"], _) => StoreUrl::Memory,
            ([url], [Kind::File]) if url.len() > "file:".len() => {
                StoreUrl::File(relative_to(file, &url["file:".len()..]))
            }
            ([url], [Kind::Postgres]) => StoreUrl::Postgres(StoreAddress::new(url)),
            ([url], [Kind::Redis]) => StoreUrl::Redis(StoreAddress::new(url)),
            ([url], [Kind::Remote]) => StoreUrl::Remote((*url).to_owned()),
            ([postgres, redis], [Kind::Postgres, Kind::Redis]) | ([redis, postgres], [Kind::Redis, Kind::Postgres]) => {
                StoreUrl::Tiered(StoreAddress::new(postgres), StoreAddress::new(redis))
            }
            ([url], [Kind::Unknown]) => match url.split_once("://") {
                Some((scheme, _)) => wrong(problems, format!("no such store \"{scheme}:\"; {EXPECTED}")),
                // The text is not quoted: if the scheme was forgotten, it may be a password.
                None => wrong(problems, EXPECTED.to_owned()),
            },
            ([_], _) => wrong(problems, EXPECTED.to_owned()),
            _ => wrong(problems, format!("only one postgres:// and one redis:// go together; {EXPECTED}")),
        }
    }

    /// Parses the parts as the clients of the servers do, so that errors show before a start. Adds notices for the
    /// operator to `warnings`.
    pub(super) fn check(&self, problems: &mut Problems, warnings: &mut Vec<String>) {
        if let Some(url) = self.postgres() {
            match postgres::parse_url(url.expose()) {
                Ok((_, TlsWish::Disabled)) => warnings.push(
                    "sessions.store: sslmode=disable: anyone who can read the network between this process and PostgreSQL can \
                     read the password's proof and change what is stored"
                        .into(),
                ),
                Ok(_) => {}
                Err(what) => problems.add("sessions.store", what),
            }
        }
        if let Some(Err(what)) = self.redis().map(|url| RedisConfig::parse_url(url.expose())) {
            problems.add("sessions.store", what);
        }
    }

    /// True if other processes may share the sessions, of which this process caches some.
    pub fn is_shared(&self) -> bool {
        matches!(self, StoreUrl::Postgres(_) | StoreUrl::Redis(_) | StoreUrl::Tiered(..))
    }

    /// Returns the URL of PostgreSQL, if there is one.
    pub fn postgres(&self) -> Option<&StoreAddress> {
        match self {
            StoreUrl::Postgres(url) | StoreUrl::Tiered(url, _) => Some(url),
            _ => None,
        }
    }

    /// Returns the URL of Redis, if there is one.
    pub fn redis(&self) -> Option<&StoreAddress> {
        match self {
            StoreUrl::Redis(url) | StoreUrl::Tiered(_, url) => Some(url),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    File,
    Postgres,
    Redis,
    Remote,
    Unknown,
}

impl Kind {
    fn of(url: &str) -> Kind {
        match url.split(':').next().unwrap_or_default() {
            "file" => Kind::File,
            "postgres" | "postgresql" => Kind::Postgres,
            scheme if scheme.starts_with("redis") => Kind::Redis,
            "http" | "https" => Kind::Remote,
            _ => Kind::Unknown,
        }
    }
}

/// Removes the passwords from a value of `sessions.store`.
pub fn redact(text: &str) -> String {
    text.split(AND).map(redact_one).collect::<Vec<_>>().join(AND)
}

fn redact_one(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // Up to the last @: an unencoded password may contain another one, or a ?.
    let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
    let (host, query) = rest.split_once('?').unwrap_or((rest, ""));
    let rest = match user {
        Some(user) => {
            let name = user.split(':').next().unwrap_or_default();
            let password = if user.contains(':') { ":***" } else { "" };
            format!("{name}{password}@{host}")
        }
        None => host.to_owned(),
    };
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    let query = query.split('&').map(hide).collect::<Vec<_>>().join("&");
    if query.is_empty() { format!("{scheme}://{rest}") } else { format!("{scheme}://{rest}?{query}") }
}

/// Files for authentication in both directions: of this process and of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    pub(super) password_file: Option<PathBuf>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

impl Access {
    fn resolve(
        section: &str,
        [password, ca, cert, key]: [&Option<String>; 4],
        file: Option<&Path>,
        problems: &mut Problems,
    ) -> Self {
        let path = |path: &Option<String>| path.as_deref().map(|path| relative_to(file, path));
        let identity = match (path(cert), path(key)) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => {
                problems.add(section, "client_cert_file and client_key_file go together");
                None
            }
        };
        Access { password_file: path(password), ca_file: path(ca), identity }
    }

    pub(super) fn password(&self) -> Result<Option<Zeroizing<String>>, ConfigError> {
        self.password_file.as_deref().map(|file| read_secret(file).map(Zeroizing::new)).transpose()
    }

    pub(super) fn names_certificates(&self) -> bool {
        self.ca_file.is_some() || self.identity.is_some()
    }

    pub(super) fn identity(&self) -> Option<(&Path, &Path)> {
        self.identity.as_ref().map(|(cert, key)| (cert.as_path(), key.as_path()))
    }
}

/// Checked values of the section `sessions.postgres`.
#[derive(Clone, Debug)]
pub(super) struct PostgresSettings {
    pub(super) access: Access,
    pub(super) pool_max: usize,
    pub(super) connect_timeout: Duration,
    pub(super) deadline: Duration,
    pub(super) batch_max: usize,
    pub(super) batch_wait: Duration,
    pub(super) migrate: bool,
    pub(super) pooler_url: Option<String>,
    pub(super) synchronous: bool,
}

/// Checked values of the section `sessions.redis`.
#[derive(Clone, Debug)]
pub(super) struct RedisSettings {
    pub(super) access: Access,
    pub(super) username: Option<String>,
    pub(super) connect_timeout: Duration,
    pub(super) deadline: Duration,
    pub(super) prefix: String,
    pub(super) on_loss: OnLoss,
    pub(super) min_replicas: Option<usize>,
}

/// The three sections of servers, checked.
#[derive(Clone, Debug)]
pub(super) struct ServerSettings {
    pub(super) postgres: PostgresSettings,
    pub(super) redis: RedisSettings,
    pub(super) cache: CacheLimits,
}

pub(super) struct RawServers<'a> {
    pub(super) postgres: Option<&'a RawPostgres>,
    pub(super) redis: Option<&'a RawRedis>,
    pub(super) cache: Option<&'a RawCache>,
    /// True if `compat.nonce_fallback` is `memory`.
    pub(super) fall_back: bool,
}

impl ServerSettings {
    pub(super) fn resolve(
        raw: &RawServers<'_>,
        store: &StoreUrl,
        file: Option<&Path>,
        problems: &mut Problems,
    ) -> Self {
        for (section, is_there, is_used) in [
            ("sessions.postgres", raw.postgres.is_some(), store.postgres().is_some()),
            ("sessions.redis", raw.redis.is_some(), store.redis().is_some()),
            ("sessions.cache", raw.cache.is_some(), store.is_shared()),
            ("compat.nonce_fallback", raw.fall_back, store.redis().is_some()),
        ] {
            if is_there && !is_used {
                problems.add(section, "sessions.store has no such part, so this has no effect; take it out");
            }
        }
        let postgres = resolve_postgres(&raw.postgres.cloned().unwrap_or_default(), file, problems);
        let redis = resolve_redis(&raw.redis.cloned().unwrap_or_default(), raw.fall_back, file, problems);
        let raw = raw.cache.cloned().unwrap_or_default();
        let cache = CacheLimits {
            sessions_max: raw.sessions_max.check("sessions.cache.sessions_max", problems),
            fresh: raw.fresh_ms.millis("sessions.cache.fresh_ms", problems),
        };
        ServerSettings { postgres, redis, cache }
    }
}

fn resolve_postgres(raw: &RawPostgres, file: Option<&Path>, problems: &mut Problems) -> PostgresSettings {
    let files = [&raw.password_file, &raw.ca_file, &raw.client_cert_file, &raw.client_key_file];
    let access = Access::resolve("sessions.postgres", files, file, problems);
    if let Some(Err(what)) = raw.pooler_url.as_deref().map(postgres::parse_pooler_url) {
        problems.add("sessions.postgres.pooler_url", what);
    }
    PostgresSettings {
        access,
        pool_max: raw.pool_max.check("sessions.postgres.pool_max", problems),
        connect_timeout: raw.connect_timeout_ms.millis("sessions.postgres.connect_timeout_ms", problems),
        deadline: raw.deadline_ms.millis("sessions.postgres.deadline_ms", problems),
        batch_max: raw.batch_max.check("sessions.postgres.batch_max", problems),
        batch_wait: Duration::from_micros(raw.batch_wait_us.check("sessions.postgres.batch_wait_us", problems)),
        migrate: raw.migrate.get(),
        pooler_url: raw.pooler_url.clone(),
        synchronous: matches!(raw.standby, Some(RawStandby::Synchronous)),
    }
}

fn resolve_redis(raw: &RawRedis, fall_back: bool, file: Option<&Path>, problems: &mut Problems) -> RedisSettings {
    let files = [&raw.password_file, &raw.ca_file, &raw.client_cert_file, &raw.client_key_file];
    let access = Access::resolve("sessions.redis", files, file, problems);
    let prefix = raw.prefix.clone().unwrap_or_else(|| "sealway".into());
    let is_fit = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
    if !(1..=64).contains(&prefix.len()) || !prefix.bytes().all(is_fit) {
        problems.add("sessions.redis.prefix", "expected 1 to 64 letters, digits, - _ . or :");
    }
    let on_loss = match raw.on_loss {
        Some(RawOnLoss::FailClosed) if fall_back => {
            problems.add("sessions.redis.on_loss", "fail_closed contradicts compat.nonce_fallback: memory; choose one");
            OnLoss::FailClosed
        }
        Some(RawOnLoss::Local) => OnLoss::Local,
        _ if fall_back => OnLoss::Local,
        _ => OnLoss::FailClosed,
    };
    RedisSettings {
        access,
        username: raw.username.clone(),
        connect_timeout: raw.connect_timeout_ms.millis("sessions.redis.connect_timeout_ms", problems),
        deadline: raw.deadline_ms.millis("sessions.redis.deadline_ms", problems),
        prefix,
        on_loss,
        min_replicas: raw.min_replicas.check("sessions.redis.min_replicas", problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (url, shown) in [
            ("memory:", "memory:"),
            ("file:a@b:c", "file:a@b:c"),
            ("postgres://u:s3cret@h/db?sslmode=disable", "postgres://u:***@h/db?sslmode=disable"),
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("postgres://u:s3c@ret/s3cret@h:1/db", "postgres://u:***@h:1/db"),
            ("postgres://u:a?s3cret@h/db?sslmode=disable", "postgres://u:***@h/db?sslmode=disable"),
            ("postgres://h/db?user=u&password=s3cret", "postgres://h/db?user=u&password=***"),
            ("redis://:s3cret@h:6379/0", "redis://:***@h:6379/0"),
            ("postgres://u:s3cret@h/db + rediss://x:s3cret@r", "postgres://u:***@h/db + rediss://x:***@r"),
        ] {
            assert_eq!(redact(url), shown);
            assert!(!format!("{:?}", StoreAddress::new(url)).contains("s3cret"));
        }
    }

    #[test]
    fn a_url_that_nobody_could_connect_by_is_a_problem_and_one_without_tls_is_warned_of() {
        let check = |text: &str| {
            let (mut problems, mut warnings) = (Problems::default(), Vec::new());
            StoreUrl::parse(text, None, &mut problems).check(&mut problems, &mut warnings);
            (problems.into_result().err().map(|err| err.to_string()).unwrap_or_default(), warnings.len())
        };
        for (url, warnings) in [
            ("postgres://u:p@db.example/x + rediss://r.example", 0),
            ("postgres://u:p@db.example/x?sslmode=disable", 1),
            ("postgres://u:p@127.0.0.1/x?sslmode=disable", 0),
        ] {
            assert_eq!(check(url), (String::new(), warnings), "{url}");
        }
        for url in [
            "redis://localhost:99999",
            "postgres://db.example/x?sslmode=prefer",
            "postgres://u:s3cret@db.example:port/x",
            "postgres://a + redis://b/c/d",
            &format!("postgres://{}", "a".repeat(STORE_LEN_MAX)),
        ] {
            let (problem, _) = check(url);
            assert!(problem.contains("sessions.store") && !problem.contains("s3cret"), "{url}: {problem}");
        }
    }

    #[test]
    fn the_url_decides_the_kind_of_store_and_an_unknown_one_is_reported() {
        let parse = |text: &str| {
            let mut problems = Problems::default();
            let url = StoreUrl::parse(text, None, &mut problems);
            problems.into_result().map(|()| url).map_err(|err| err.to_string())
        };
        assert_eq!(parse("memory:"), Ok(StoreUrl::Memory));
        assert_eq!(parse("file:x"), Ok(StoreUrl::File("x".into())));
        assert!(matches!(parse("postgresql:///db?host=/run"), Ok(StoreUrl::Postgres(_))));
        assert!(matches!(parse("redis+sentinel://a,b/main"), Ok(StoreUrl::Redis(_))));
        assert!(matches!(parse("https://authority:3001"), Ok(StoreUrl::Remote(_))));
        let (postgres, redis) = (StoreAddress::new("postgres://p"), StoreAddress::new("redis-cluster://r:1,s:2"));
        let tiered = StoreUrl::Tiered(postgres, redis);
        assert_eq!(parse("postgres://p + redis-cluster://r:1,s:2"), Ok(tiered.clone()));
        assert_eq!(parse("redis-cluster://r:1,s:2 + postgres://p"), Ok(tiered));
        for bad in ["", "file:", "mysql://x", "postgres://a + postgres://b", "memory: + redis://x", "a + b + c"] {
            let err = parse(bad).unwrap_err();
            assert!(err.contains("sessions.store") && err.contains("redis://"), "{bad}: {err}");
        }
    }
}
