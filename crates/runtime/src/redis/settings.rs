//! Settings of the connection to a Redis, and the URLs that they are written as.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    RedisConnectionInfo, TlsCertificates,
};

use super::link::Trouble;
use crate::dial::{ByteStream, Dialer};

/// Commands that a connection queues at most.
const QUEUE_MAX: usize = 1024;
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const NODES_MAX: usize = 64;

/// Address at which a Redis server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A name or an address, and a port.
    Tcp(String, u16),
    /// Path of a unix socket.
    Unix(PathBuf),
}

/// A setting is invalid: a sentence that names the part, and never the password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

/// Files for TLS, in PEM. The server's certificate and its name are always verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Roots to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// Certificate chain and key of this client.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Settings of the connection to a Redis.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The server, some servers of a cluster, or Sentinels; 1 to 64.
    pub nodes: Vec<Node>,
    /// True for a Redis Cluster.
    pub cluster: bool,
    /// Name of the master that `nodes`, which are Sentinels then, know.
    pub sentinel: Option<String>,
    /// Number of the database; a cluster has 0 only.
    pub database: i64,
    /// ACL user; the default user if `None`.
    pub username: Option<String>,
    /// Password of the user, if any.
    pub password: Option<String>,
    /// TLS files; `None` for a plain connection.
    pub tls: Option<TlsFiles>,
    /// Maximum time of an operation.
    pub deadline: Duration,
    /// Maximum time to open a connection.
    pub connect_timeout: Duration,
    /// Opens the streams to single servers and Sentinels; the system's network if `None`. A simulation sets it.
    pub dialer: Option<Dialer>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            nodes: vec![Node::Tcp("127.0.0.1".into(), PORT)],
            cluster: false,
            sentinel: None,
            database: 0,
            username: None,
            password: None,
            tls: None,
            deadline: Duration::from_millis(500),
            connect_timeout: Duration::from_secs(2),
            dialer: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "(hidden)");
        f.debug_struct("Settings")
            .field("nodes", &self.nodes)
            .field("cluster", &self.cluster)
            .field("sentinel", &self.sentinel)
            .field("database", &self.database)
            .field("username", &self.username)
            .field("password", &password)
            .field("tls", &self.tls)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

fn fail<T>(what: impl fmt::Display) -> Result<T, Invalid> {
    Err(Invalid(format!("Redis URL: {what}")))
}

impl Settings {
    /// Parses `redis://[user[:password]@]host[:port][/database]`, `rediss://…` (TLS), `redis+unix:///path[?db=n]`,
    /// `redis-cluster://host[:port],host[:port]…`, `rediss-cluster://…`, or
    /// `redis+sentinel://host[:port],host[:port]…/master[/database]`, `rediss+sentinel://…`, where the hosts are
    /// Sentinels. User and password may be percent-encoded. Everything else has its default.
    ///
    /// # Errors
    /// [`Invalid`], naming the invalid part and never the password.
    pub fn parse_url(url: &str) -> Result<Self, Invalid> {
        let Some((scheme, rest)) = url.split_once("://") else { return fail("no scheme, such as redis://") };
        let mut config = Settings::default();
        if scheme == "redis+unix" {
            config.parse_unix(rest)?;
            return Ok(config);
        }
        config.tls = scheme.starts_with("rediss").then(TlsFiles::default);
        let mut port = PORT;
        let hosts = config.take_user(rest)?;
        let (hosts, mut path) = hosts.split_once('/').unwrap_or((hosts, ""));
        match scheme {
            "redis" | "rediss" => {}
            "redis-cluster" | "rediss-cluster" => config.cluster = true,
            "redis+sentinel" | "rediss+sentinel" => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
                if master.is_empty() || !master.bytes().all(is_plain) {
                    return fail("after the Sentinels stands /MASTER, the master's name in their configuration");
                }
                (config.sentinel, path, port) = (Some(master.to_owned()), database, SENTINEL_PORT);
            }
            // The scheme is not quoted: if it was forgotten, the text may be a password.
            _ => {
                return fail(
                    "its scheme is none of redis, rediss, redis+unix, redis-cluster, rediss-cluster, redis+sentinel, \
                     rediss+sentinel",
                );
            }
        }
        config.database = parse_database(path)?;
        if config.cluster && config.database != 0 {
            return fail("a cluster has no database but 0");
        }
        config.nodes = hosts.split(',').map(|host| parse_host(host, port)).collect::<Result<_, _>>()?;
        if config.nodes.len() > 1 && !config.cluster && config.sentinel.is_none() {
            return fail("several hosts need redis-cluster:// or redis+sentinel://");
        }
        if config.nodes.len() > NODES_MAX {
            return fail(format!("more than {NODES_MAX} hosts"));
        }
        Ok(config)
    }

    fn parse_unix(&mut self, rest: &str) -> Result<(), Invalid> {
        let rest = match rest.split_once('/') {
            Some((user, path)) if user.ends_with('@') => {
                self.take_user(user)?;
                format!("/{path}")
            }
            _ => rest.to_owned(),
        };
        let (path, query) = rest.split_once('?').unwrap_or((&rest, ""));
        if !path.starts_with('/') {
            return fail("the path of a unix socket begins with /");
        }
        self.database = match query.strip_prefix("db=") {
            Some(database) => parse_database(database)?,
            None if query.is_empty() => 0,
            None => return fail("after the path only ?db=number may stand"),
        };
        self.nodes = vec![Node::Unix(path.into())];
        Ok(())
    }

    /// Removes `user:password@` from the front.
    fn take_user<'a>(&mut self, text: &'a str) -> Result<&'a str, Invalid> {
        // The last @ separates: a password may contain others.
        let Some((user, hosts)) = text.rsplit_once('@') else { return Ok(text) };
        let (name, password) = match user.split_once(':') {
            Some((name, password)) => (name, Some(decode(password)?)),
            None => (user, None),
        };
        let name = decode(name)?;
        self.username = (!name.is_empty()).then_some(name);
        self.password = password.filter(|password| !password.is_empty());
        Ok(hosts)
    }

    /// Returns the addresses of the servers, for messages.
    pub fn name(&self) -> String {
        let name = |node: &Node| match node {
            Node::Tcp(host, port) => format!("{host}:{port}"),
            Node::Unix(path) => path.display().to_string(),
        };
        let nodes = self.nodes.iter().map(name).collect::<Vec<_>>().join(", ");
        match &self.sentinel {
            Some(master) => format!("Redis \"{master}\" of the Sentinels at {nodes}"),
            None => format!("Redis at {nodes}"),
        }
    }

    /// Reads the files of TLS.
    ///
    /// # Errors
    /// [`Invalid`]: a file cannot be read.
    pub fn certificates(&self) -> Result<Option<TlsCertificates>, Invalid> {
        let Some(tls) = &self.tls else { return Ok(None) };
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|err| Invalid(format!("Redis TLS: {}: {err}", path.display())))
        };
        let root_cert = tls.ca.as_ref().map(read).transpose()?;
        let client_tls = match &tls.client {
            Some((cert, key)) => Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? }),
            None => None,
        };
        Ok(Some(TlsCertificates { client_tls, root_cert }))
    }

    fn user(&self) -> RedisConnectionInfo {
        let mut user = anonymous();
        if let Some(username) = &self.username {
            user = user.set_username(username);
        }
        if let Some(password) = &self.password {
            user = user.set_password(password);
        }
        user
    }

    pub(super) fn info(&self, node: &Node) -> Result<ConnectionInfo, Invalid> {
        self.info_as(node, self.user().set_db(self.database))
    }

    fn info_as(&self, node: &Node, user: RedisConnectionInfo) -> Result<ConnectionInfo, Invalid> {
        let addr = match node {
            Node::Unix(path) => ConnectionAddr::Unix(path.clone()),
            Node::Tcp(host, port) if self.tls.is_some() => {
                ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
            }
            Node::Tcp(host, port) => ConnectionAddr::Tcp(host.clone(), *port),
        };
        let info = addr.into_connection_info().map_err(|err| Invalid(format!("{}: {err}", self.name())))?;
        Ok(info.set_redis_settings(user))
    }

    /// Creates a client of one server.
    fn client(&self, node: &Node) -> Result<Client, Invalid> {
        self.client_of(self.info(node)?)
    }

    fn client_of(&self, info: ConnectionInfo) -> Result<Client, Invalid> {
        let client = match self.certificates()? {
            Some(certificates) => Client::build_with_tls(info, certificates),
            None => Client::open(info),
        };
        client.map_err(|err| Invalid(format!("{}: {err}", self.name())))
    }

    /// Opens a connection to a server, as the user.
    pub(super) async fn connect(&self, node: &Node) -> Result<MultiplexedConnection, Trouble> {
        if let Some(stream) = self.dial(node).await? {
            return self.connect_over(stream, &self.user().set_db(self.database)).await;
        }
        let client = self.client(node).map_err(|err| Trouble::Setting(err.0))?;
        Ok(client.get_multiplexed_async_connection_with_config(&self.connection()).await?)
    }

    /// Opens a connection to a Sentinel, which has no databases, with this user or none.
    pub(super) async fn connect_sentinel(
        &self,
        node: &Node,
        with_user: bool,
    ) -> Result<MultiplexedConnection, Trouble> {
        let user = if with_user { self.user() } else { anonymous() };
        if let Some(stream) = self.dial(node).await? {
            return self.connect_over(stream, &user).await;
        }
        let client = self.info_as(node, user).and_then(|info| self.client_of(info));
        let client = client.map_err(|err| Trouble::Setting(err.0))?;
        Ok(client.get_multiplexed_async_connection_with_config(&self.connection()).await?)
    }

    /// Opens a connection to a server that listens to channels.
    pub(super) async fn connect_listening(&self, node: &Node) -> Result<PubSub, Trouble> {
        if let Some(stream) = self.dial(node).await? {
            return Ok(PubSub::new(&self.user().set_db(self.database), stream).await?);
        }
        let client = self.client(node).map_err(|err| Trouble::Setting(err.0))?;
        Ok(client.get_async_pubsub().await?)
    }

    /// Opens a stream by the dialer; `None` without one.
    async fn dial(&self, node: &Node) -> Result<Option<Box<dyn ByteStream>>, Trouble> {
        let (Some(dialer), Node::Tcp(host, port)) = (&self.dialer, node) else { return Ok(None) };
        let dialled = tokio::time::timeout(self.connect_timeout, dialer.0.dial(host, *port)).await;
        dialled.map_err(|_| Trouble::Slow)?.map(Some).map_err(|err| Trouble::Away(err.to_string()))
    }

    async fn connect_over(
        &self,
        stream: Box<dyn ByteStream>,
        user: &RedisConnectionInfo,
    ) -> Result<MultiplexedConnection, Trouble> {
        let opening = MultiplexedConnection::new_with_config(user, stream, self.connection());
        let opened = tokio::time::timeout(self.connect_timeout, opening).await;
        let (link, driver) = opened.map_err(|_| Trouble::Slow)??;
        // It ends when the last clone of the connection is dropped.
        drop(tokio::spawn(driver));
        Ok(link)
    }

    fn connection(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.deadline))
            .set_pipeline_buffer_size(QUEUE_MAX)
    }
}

/// Validates the prefix of all keys.
///
/// # Errors
/// [`Invalid`], naming the expected form.
pub fn check_prefix(prefix: &str) -> Result<(), Invalid> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
    if (1..=64).contains(&prefix.len()) && prefix.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Invalid("Redis prefix: expected 1 to 64 letters, digits, -, _, . or :".into()))
}

fn anonymous() -> RedisConnectionInfo {
    RedisConnectionInfo::default().set_skip_set_lib_name()
}

fn parse_database(text: &str) -> Result<i64, Invalid> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse::<u16>().map(i64::from).or_else(|_| fail("the database after / is not a number up to 65535"))
}

fn parse_host(text: &str, default_port: u16) -> Result<Node, Invalid> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
    if host.is_empty() || !host.bytes().all(is_name) {
        return fail("a host is neither a name nor an address");
    }
    let port = match port.map(str::parse::<u16>) {
        None => default_port,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return fail(format!("the port of {host} is not a number from 1 to 65535")),
    };
    Ok(Node::Tcp(host.into(), port))
}

/// Decodes the percent-encoding of a part of the URL.
fn decode(text: &str) -> Result<String, Invalid> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) else {
            return fail("user or password holds a % that is not followed by two hexadecimal digits");
        };
        bytes.push(byte);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).or_else(|_| fail("user or password is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_url_is_understood() {
        let host = |host: &str, port| Node::Tcp(host.into(), port);
        let parse = |url: &str| Settings::parse_url(url).unwrap();
        assert_eq!(parse("redis://localhost").nodes, [host("localhost", 6379)]);
        let full = parse("rediss://us%40er:p%3Aa@ss:x@[::1]:7000/3");
        assert_eq!((full.nodes, full.database), (vec![host("::1", 7000)], 3));
        assert_eq!((full.username.as_deref(), full.password.as_deref()), (Some("us@er"), Some("p:a@ss:x")));
        assert_eq!((full.tls, full.cluster), (Some(TlsFiles::default()), false));
        let unix = parse("redis+unix:///run/redis.sock?db=2");
        assert_eq!((unix.nodes, unix.database), (vec![Node::Unix("/run/redis.sock".into())], 2));
        let unix = parse("redis+unix://:secret@/run/redis.sock");
        assert_eq!((unix.username, unix.password.as_deref()), (None, Some("secret")));
        let cluster = parse("redis-cluster://:secret@a:7000,b");
        assert_eq!((cluster.nodes, cluster.cluster), (vec![host("a", 7000), host("b", 6379)], true));
        assert!(parse("rediss-cluster://a").tls.is_some());
        let sentinel = parse("redis+sentinel://u:secret@a,b:7000/main/2");
        assert_eq!((sentinel.nodes, sentinel.database), (vec![host("a", 26379), host("b", 7000)], 2));
        assert_eq!((sentinel.sentinel.as_deref(), sentinel.cluster), (Some("main"), false));
        assert!(parse("rediss+sentinel://a/main").tls.is_some());
    }

    #[test]
    fn errors_name_the_part_and_never_the_password() {
        for (url, what) in [
            ("hunter2", "no scheme"),
            ("hunter2://host", "its scheme"),
            ("redis://:hunter2@", "a host is"),
            ("redis://:hunter2@ho st", "a host is"),
            ("redis://:hunter2@host:0", "the port of host"),
            ("redis://:hunter2@host:99999", "the port of host"),
            ("redis://:hunter2@host/x", "the database"),
            ("redis://:hunter2@a,b", "several hosts"),
            ("redis-cluster://:hunter2@a,b/1", "a cluster has no database"),
            ("redis+sentinel://:hunter2@a,b", "/MASTER"),
            ("redis+sentinel://:hunter2@a/main/x", "the database"),
            ("redis://:hunter2%zz@host", "two hexadecimal digits"),
            ("redis://:hunter2%é@host", "two hexadecimal digits"),
            ("redis://:hunter2%ff@host", "not UTF-8"),
            ("redis+unix://:hunter2@run", "begins with /"),
            ("redis+unix:///run?password=hunter2", "after the path"),
        ] {
            let err = Settings::parse_url(url).unwrap_err().to_string();
            assert!(err.contains(what) && !err.contains("hunter2"), "{url}: {err}");
        }
        let config = Settings::parse_url("redis://me:hunter2@host").unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
