//! Settings of the connection to PostgreSQL: libpq URLs, parsed strictly. No error contains a password.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sealway_runtime::config::ConfigError;
use sealway_runtime::dial::Dialer;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::super::{OpenError, tls};

/// Address of the server, and limits on this process's use of it.
#[derive(Clone)]
pub struct PostgresConfig {
    /// Hosts, ports, user, password, database.
    pub server: tokio_postgres::Config,
    /// TLS settings; without them the connection is plain.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// A connection pooler in transaction mode in front of the server, with its TLS settings: see
    /// [`PostgresConfig::use_pooler`].
    pub pooler: Option<(tokio_postgres::Config, Option<Arc<rustls::ClientConfig>>)>,
    /// Connections in the pool; one more listens. At least twice `lanes` plus two.
    pub pool_max: usize,
    /// Maximum time to open one connection; several hosts share it equally.
    pub connect_timeout: Duration,
    /// Maximum time of one operation, including the wait for a connection.
    pub deadline: Duration,
    /// Batches of sessions, and as many of nonces, in progress at once.
    pub lanes: usize,
    /// Maximum number of sessions, or nonces, in one statement.
    pub batch_max: usize,
    /// Maximum time that a batch waits for more rows, only while another one is in progress. Zero by default: rows
    /// gather during the commit anyway, and a timer rounds the wait up to a millisecond.
    pub batch_wait: Duration,
    /// True if opening applies migrations; otherwise a schema that is too old is an error.
    pub migrate: bool,
    /// True if a sweep keeps rows that are not over by the server's clock. False only in tests with an artificial time.
    pub heed_server_clock: bool,
    /// Maximum number of sessions in the database. Processes that share it count separately between two sweeps, and
    /// together may exceed it by the sessions that they put meanwhile.
    pub sessions_max: usize,
    /// Maximum number of nonces of sealed calls, and as many of inits; counted as `sessions_max`.
    pub nonces_max: usize,
    /// True if a standby that is promoted has every commit.
    pub synchronous: bool,
    /// Time window of stamps in milliseconds, [`sealway_proto::wire::ReplayPolicy::window_ms`].
    pub window_ms: u64,
    /// Opens the streams to servers and poolers, which are then plain; the system's network if `None`. A simulation sets
    /// it.
    pub dialer: Option<Dialer>,
}

impl PostgresConfig {
    /// Creates settings for the server that a URL names, with defaults for all else.
    ///
    /// # Errors
    /// [`OpenError`]: an invalid URL, or a file of certificates that it names.
    pub fn new(url: &str) -> Result<Self, OpenError> {
        let (server, wish) = parse_url(url).map_err(OpenError)?;
        let tls = wish.client_config().map_err(|err| OpenError(err.0))?;
        Ok(PostgresConfig {
            server,
            tls,
            pooler: None,
            pool_max: 16,
            connect_timeout: Duration::from_secs(1),
            deadline: Duration::from_millis(1500),
            lanes: 2,
            batch_max: 256,
            batch_wait: Duration::ZERO,
            migrate: false,
            heed_server_clock: true,
            sessions_max: 1_000_000,
            nonces_max: 4_000_000,
            synchronous: false,
            window_ms: sealway_proto::wire::ReplayPolicy::default().window_ms(),
            dialer: None,
        })
    }

    /// Sends the operations on sessions and nonces through a connection pooler in transaction mode: without prepared
    /// statements, and without settings of their own. Its password is the server's.
    ///
    /// # Errors
    /// [`OpenError`]: an invalid URL, or a file of certificates that it names.
    pub fn use_pooler(&mut self, url: &str) -> Result<(), OpenError> {
        let (mut server, wish) = parse_pooler_url(url).map_err(OpenError)?;
        if let Some(password) = self.server.get_password() {
            server.password(password);
        }
        self.pooler = Some((server, wish.client_config().map_err(|err| OpenError(err.0))?));
        Ok(())
    }

    /// Returns hosts, database and user, for errors and log lines.
    pub(super) fn place(&self) -> String {
        let ports = self.server.get_ports();
        let hosts = self.server.get_hosts().iter().enumerate().map(|(index, host)| {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(host) => format!("{host}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let database = self.server.get_dbname().or(self.server.get_user()).unwrap_or_default();
        format!("PostgreSQL at {hosts}, database \"{database}\"")
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("place", &self.place())
            .field("tls", &self.tls.is_some())
            .field("pooler", &self.pooler.is_some())
            .field("pool_max", &self.pool_max)
            .field("deadline", &self.deadline)
            .field("lanes", &self.lanes)
            .field("batch_max", &self.batch_max)
            .field("batch_wait", &self.batch_wait)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}

/// TLS mode that a URL asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsWish {
    /// Plain, because the server is on this machine.
    Local,
    /// Plain, because of `sslmode=disable`, though the server is on another machine: worth a warning.
    Disabled,
    /// TLS with verification of chain and name.
    Verified {
        /// `sslrootcert`; the system's authorities by default.
        ca: Option<PathBuf>,
        /// Client certificate and key: `sslcert` and `sslkey`.
        identity: Option<(PathBuf, PathBuf)>,
    },
}

impl TlsWish {
    /// Reads the certificate files of the mode; `None` for a plain connection.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file at fault.
    pub fn client_config(&self) -> Result<Option<Arc<rustls::ClientConfig>>, ConfigError> {
        match self {
            TlsWish::Local | TlsWish::Disabled => Ok(None),
            TlsWish::Verified { ca, identity } => {
                let identity = identity.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
                tls::client_config(ca.as_deref(), identity).map(Some)
            }
        }
    }
}

/// Parses `postgres://user:password@host:port/database?option=value`; several hosts are separated by commas, the folder
/// of a unix socket is given as `?host=/folder`. Without `sslmode` TLS is verified unless every host is on this
/// machine.
///
/// # Errors
/// A sentence that names the invalid part.
pub fn parse_url(url: &str) -> Result<(tokio_postgres::Config, TlsWish), String> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    let rest = rest.ok_or("expected a URL that begins with postgres://")?;
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    // The library's parser takes everything before an @ for credentials.
    if query.contains('@') || rest.contains('#') {
        return Err("the characters # ? @ in a password or an option must be percent-encoded".into());
    }
    let mut options = Vec::new();
    let (mut mode, mut ca, mut certificate, mut key) = (None, None, None, None);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').ok_or("an option of the URL has no value")?;
        match name {
            "sslmode" => mode = Some(value),
            "sslrootcert" => ca = Some(path(name, value)?),
            "sslcert" => certificate = Some(path(name, value)?),
            "sslkey" => key = Some(path(name, value)?),
            "password" => return Err("option password: write it before the host, as user:password@host".into()),
            "host"
            | "port"
            | "hostaddr"
            | "user"
            | "dbname"
            | "options"
            | "application_name"
            | "keepalives"
            | "keepalives_idle"
            | "keepalives_interval"
            | "keepalives_retries"
            | "tcp_user_timeout"
            | "target_session_attrs"
            | "load_balance_hosts" => options.push(option),
            // The option is not quoted: it may be the end of a password with a ? in it.
            _ => {
                return Err(
                    "the URL has an option that is not known, or a ? in its password that is not percent-encoded"
                        .into(),
                );
            }
        }
    }
    let stripped = format!("postgres://{address}?{}", options.join("&"));
    let mut server: tokio_postgres::Config = stripped.parse().map_err(|err: tokio_postgres::Error| {
        let source = std::error::Error::source(&err).map(ToString::to_string);
        format!("the URL is malformed: {}", source.unwrap_or_else(|| err.to_string()))
    })?;
    if server.get_hosts().is_empty() && server.get_hostaddrs().is_empty() {
        return Err("the URL names no host; for a unix socket write postgres:///database?host=/run/postgresql".into());
    }
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("options sslcert and sslkey go together".into()),
    };
    let wish = tls_wish(&server, mode, ca, identity)?;
    let is_tls = matches!(wish, TlsWish::Verified { .. });
    server.ssl_mode(if is_tls { SslMode::Require } else { SslMode::Disable });
    if server.get_target_session_attrs() == TargetSessionAttrs::Any {
        server.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if server.get_application_name().is_none() {
        server.application_name("sealway");
    }
    Ok((server, wish))
}

/// Parses the URL of a connection pooler, as [`parse_url`] does; the password stands elsewhere.
///
/// # Errors
/// A sentence that names the invalid part.
pub fn parse_pooler_url(url: &str) -> Result<(tokio_postgres::Config, TlsWish), String> {
    let (server, wish) = parse_url(url)?;
    match server.get_password() {
        Some(_) => Err("holds a password; write it into sessions.postgres.password_file".into()),
        None => Ok((server, wish)),
    }
}

fn tls_wish(
    server: &tokio_postgres::Config,
    mode: Option<&str>,
    ca: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
) -> Result<TlsWish, String> {
    let is_socket = |host: &Host| matches!(host, Host::Unix(_));
    let has_socket = server.get_hosts().iter().any(is_socket);
    let is_local = server.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
    });
    let is_local = is_local && server.get_hostaddrs().iter().all(IpAddr::is_loopback);
    match mode {
        Some("disable") if ca.is_some() || identity.is_some() => {
            Err("sslmode=disable and certificates in one URL contradict each other".into())
        }
        Some("disable") if is_local => Ok(TlsWish::Local),
        Some("disable") => Ok(TlsWish::Disabled),
        None if is_local && ca.is_none() && identity.is_none() => Ok(TlsWish::Local),
        None | Some("require" | "verify-ca" | "verify-full") if has_socket => {
            Err("TLS is not spoken over a unix socket; leave sslmode out, or name hosts of one kind alone".into())
        }
        None | Some("require" | "verify-ca" | "verify-full") => Ok(TlsWish::Verified { ca, identity }),
        Some("prefer" | "allow") => Err("sslmode: prefer and allow let an attacker in between switch TLS off; write \
                                         verify-full, or disable"
            .into()),
        Some(_) => Err("sslmode: expected disable, require, verify-ca or verify-full".into()),
    }
}

/// Decodes the percent-encoded path of an option.
fn path(name: &str, value: &str) -> Result<PathBuf, String> {
    let fail = || format!("option {name}: the path is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            let (high, low) = (digit().ok_or_else(fail)?, digit().ok_or_else(fail)?);
            bytes.push(u8::try_from(high * 16 + low).map_err(|_| fail())?);
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| fail())?;
    if text.is_empty() { Err(format!("option {name}: the path is empty")) } else { Ok(text.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(url: &str) -> TlsWish {
        parse_url(url).unwrap().1
    }

    #[test]
    fn tls_is_verified_unless_the_server_is_on_this_machine() {
        let verified = TlsWish::Verified { ca: None, identity: None };
        for local in ["127.0.0.1", "localhost:5433", "[::1]:5432", "127.0.0.1,localhost"] {
            assert_eq!(wish(&format!("postgres://u@{local}/d")), TlsWish::Local, "{local}");
        }
        assert_eq!(wish("postgresql:///d?host=/run/postgresql"), TlsWish::Local);
        for away in ["db.example", "10.0.0.1", "127.0.0.1,db.example"] {
            assert_eq!(wish(&format!("postgres://u@{away}/d")), verified, "{away}");
        }
        assert_eq!(wish("postgres://u@localhost/d?hostaddr=10.0.0.1"), verified);
        for mode in ["require", "verify-ca", "verify-full"] {
            assert_eq!(wish(&format!("postgres://u@localhost/d?sslmode={mode}")), verified, "{mode}");
            assert_eq!(parse_url("postgres://u@db/d").unwrap().0.get_ssl_mode(), SslMode::Require);
        }
        assert_eq!(wish("postgres://u@db/d?sslmode=disable"), TlsWish::Disabled);
        let files = wish("postgres://u@db/d?sslrootcert=/a%20b.pem&sslcert=c.pem&sslkey=k.pem");
        let identity = Some(("c.pem".into(), "k.pem".into()));
        assert_eq!(files, TlsWish::Verified { ca: Some("/a b.pem".into()), identity });
    }

    #[test]
    fn an_invalid_url_is_rejected_without_showing_its_password() {
        for (url, part) in [
            ("mysql://u:swordfish@db/d", "postgres://"),
            ("postgres://u:swordfish@db/d?sslmode=prefer", "prefer"),
            ("postgres://u:swordfish@db/d?sslmode=swordfish", "sslmode"),
            ("postgres://u:swordfish@db/d?sslcert=c.pem", "sslkey"),
            ("postgres://u:swordfish@db:swordfish/d", "port"),
            ("postgres://u:sword?swordfish@db/d", "percent-encoded"),
            ("postgres://u:sword#swordfish@db/d", "percent-encoded"),
            ("postgres://u@db/d?swordfish=1", "option"),
            ("postgres://u@db/d?password=swordfish", "password"),
            ("postgres://u:swordfish@/d", "no host"),
            ("postgres://u:swordfish@/d?host=/run&sslmode=require", "unix socket"),
            ("postgres://u:swordfish/d", "malformed"),
        ] {
            let err = parse_url(url).unwrap_err();
            assert!(err.contains(part), "{url}: {err}");
            assert!(!err.contains("swordfish"), "{err}");
        }
        let config = PostgresConfig::new("postgres://u:swordfish@127.0.0.1:7/d").unwrap();
        assert!(!format!("{config:?} {}", config.place()).contains("swordfish"));
        assert_eq!(config.place(), "PostgreSQL at 127.0.0.1:7, database \"d\"");
    }
}
