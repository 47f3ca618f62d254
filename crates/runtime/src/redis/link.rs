//! A connection to a server or to a cluster, and the classification of its errors.

use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

use super::sentinel::{Master, Sentinels};
use super::settings::{Invalid, Node, Settings};

/// Reason that an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The server cannot be reached, or its answer did not come: it is unknown if it acted.
    #[error("{0}")]
    Away(String),
    /// The server answered with an error, and did nothing.
    #[error("{0}")]
    Refused(String),
    /// The server did not answer in time.
    #[error("no answer within the deadline")]
    Slow,
    /// A setting is at fault: password, rights, eviction, version.
    #[error("{0}")]
    Setting(String),
    /// The memory of the server is full.
    #[error("its memory is full")]
    Full,
    /// A script is unknown: the memory into which it was loaded is gone.
    #[error("its memory is not the one that was written to")]
    Lost,
}

impl From<RedisError> for Trouble {
    fn from(err: RedisError) -> Self {
        // For an unknown command a server quotes the arguments, which may be a password.
        let text = err.to_string();
        let text = text.split_once(", with args").map_or(text.as_str(), |(what, _)| what).to_owned();
        match err.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm) => Trouble::Setting(text),
            ErrorKind::InvalidClientConfig => Trouble::Setting(text),
            _ if text.contains("cluster support disabled") => {
                Trouble::Setting("it is no member of a cluster; write redis:// or redis+sentinel://".into())
            }
            ErrorKind::Server(ServerErrorKind::NoScript) => Trouble::Lost,
            _ if err.is_timeout() => Trouble::Slow,
            _ => match err.code() {
                Some("OOM") => Trouble::Full,
                Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Trouble::Setting(text),
                // Form in which a script reports that its user lacks a right.
                _ if text.contains("can't run this command") || text.contains("No permissions") => {
                    Trouble::Setting(text)
                }
                Some(_) => Trouble::Refused(text),
                None => Trouble::Away(text),
            },
        }
    }
}

/// A connection; clones share it.
#[derive(Clone)]
pub enum Link {
    /// To a server, and what its Sentinels say of it.
    Single(MultiplexedConnection, Option<Arc<Master>>),
    /// To the servers of a cluster.
    Cluster(ClusterConnection),
}

/// Returns the server to connect to, by its Sentinels if there are any.
async fn locate(config: &Settings) -> Result<(Node, Option<Arc<Master>>), Trouble> {
    if let Some(name) = &config.sentinel {
        let master = Sentinels::new(config).find(name).await?;
        return Ok((master.node.clone(), Some(Arc::new(master))));
    }
    Ok((config.nodes.first().ok_or(Trouble::Setting("no host".into()))?.clone(), None))
}

impl Link {
    /// Connects to the server or the cluster.
    ///
    /// # Errors
    /// [`Trouble`], as all functions here.
    pub async fn connect(config: &Settings) -> Result<Self, Trouble> {
        let setting = |err: Invalid| Trouble::Setting(err.0);
        if !config.cluster {
            let (node, master) = locate(config).await?;
            return Link::connect_single(config, &node, master).await;
        }
        let infos =
            config.nodes.iter().map(|node| config.info(node)).collect::<Result<Vec<_>, _>>().map_err(setting)?;
        let mut builder = ClusterClientBuilder::new(infos)
            .connection_timeout(config.connect_timeout)
            .response_timeout(config.deadline)
            .overall_response_timeout(Some(config.deadline))
            // Redirections count as retries. A script that runs twice recognizes its own token.
            .retries(4)
            .min_retry_wait(10)
            .max_retry_wait(100);
        if let Some(certificates) = config.certificates().map_err(setting)? {
            builder = builder.tls(redis::cluster::TlsMode::Secure).certs(certificates);
        }
        let connecting = async { builder.build()?.get_async_connection().await };
        match tokio::time::timeout(config.connect_timeout * 2, connecting).await {
            Ok(link) => Ok(Link::Cluster(link?)),
            Err(_) => Err(Trouble::Slow),
        }
    }

    async fn connect_single(config: &Settings, node: &Node, master: Option<Arc<Master>>) -> Result<Self, Trouble> {
        Ok(Link::Single(config.connect(node).await?, master))
    }

    /// Opens another connection to the same server, or to the same cluster.
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn another(&self, config: &Settings) -> Result<Self, Trouble> {
        match self {
            Link::Single(_, Some(master)) => Link::connect_single(config, &master.node, Some(master.clone())).await,
            _ => Link::connect(config).await,
        }
    }

    /// Returns the number of replicas that must confirm a master: `wanted`, by default half of those that Sentinel knows,
    /// rounded up, and none without Sentinel.
    pub fn confirmers(&self, wanted: Option<usize>) -> usize {
        wanted.unwrap_or_else(|| self.master().map_or(0, |master| master.replicas.div_ceil(2)))
    }

    /// Returns the master as its Sentinels described it, if there are any.
    pub fn master(&self) -> Option<&Master> {
        match self {
            Link::Single(_, master) => master.as_deref(),
            Link::Cluster(_) => None,
        }
    }

    /// Sends a command to the server that has its key.
    ///
    /// # Errors
    /// [`Trouble`], or the error of the library.
    pub async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Link::Single(link, _) => link.clone().req_packed_command(cmd).await,
            Link::Cluster(link) => link.clone().req_packed_command(cmd).await,
        }?
        .extract_error()
    }

    /// Sends a command and decodes its answer.
    ///
    /// # Errors
    /// [`Trouble`], or the error of the library.
    pub async fn get<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T, Trouble> {
        let value = self.ask(cmd).await?;
        redis::from_redis_value(value).map_err(|err| Trouble::Refused(err.to_string()))
    }

    /// Sends a command without a key to the server that has `key`.
    ///
    /// # Errors
    /// [`Trouble`], or the error of the library.
    pub async fn get_at<T: FromRedisValue>(&self, key: &str, cmd: Cmd) -> Result<T, Trouble> {
        let value = match self {
            Link::Single(..) => self.ask(&cmd).await?,
            Link::Cluster(link) => {
                let node = SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
                link.clone().route_command(cmd, RoutingInfo::SingleNode(node)).await?.extract_error()?
            }
        };
        redis::from_redis_value(value).map_err(|err| Trouble::Refused(err.to_string()))
    }

    /// Sends commands at once, on one connection, to the server that has `key`.
    ///
    /// # Errors
    /// [`Trouble`], or the error of the library.
    pub async fn ask_all_at(&self, key: &str, commands: Pipeline) -> Result<Vec<Value>, Trouble> {
        let count = commands.len();
        let values = match self {
            Link::Single(link, _) => link.clone().send_packed_commands(&commands, 0, count).await?,
            Link::Cluster(link) => {
                let node = SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
                link.clone().route_pipeline(commands, 0, count, node).await?
            }
        };
        values.into_iter().map(|value| value.extract_error().map_err(Trouble::from)).collect()
    }
}

/// Opens a connection that listens, and returns it with its server; in a cluster to the `turn`th server, since each server
/// delivers every message.
///
/// # Errors
/// [`Trouble`].
pub async fn listen(config: &Settings, turn: usize) -> Result<(PubSub, Node), Trouble> {
    let node = match config.nodes.get(turn % config.nodes.len().max(1)) {
        Some(node) if config.cluster => node.clone(),
        _ => locate(config).await?.0,
    };
    let listening = tokio::time::timeout(config.connect_timeout, config.connect_listening(&node)).await;
    Ok((listening.unwrap_or(Err(Trouble::Slow))?, node))
}

/// Returns a field of INFO.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Rejects servers that could not keep their data safe, by INFO's sections `server` and `memory`.
///
/// # Errors
/// [`Trouble::Setting`].
pub fn check_server(server: &str, memory: &str, cluster: bool) -> Result<(), Trouble> {
    if cluster != (field(server, "redis_mode") == Some("cluster")) {
        let what = if cluster { "no member of a cluster" } else { "a member of a cluster; name it redis-cluster://" };
        return Err(Trouble::Setting(format!("it is {what}")));
    }
    if field(server, "redis_mode") == Some("sentinel") {
        return Err(Trouble::Setting("it is a Sentinel; write redis+sentinel://HOST:PORT/MASTER".into()));
    }
    let version = field(server, "redis_version").unwrap_or_default();
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok()).unwrap_or_default();
    // Older versions keep scripts in snapshots and replicate them, so a server that lost its memory would not show it.
    if major < 7 {
        return Err(Trouble::Setting(format!("its version is {version}; 7.0 or newer is needed")));
    }
    let policy = field(memory, "maxmemory_policy").unwrap_or_default();
    let bound = field(memory, "maxmemory").unwrap_or("0");
    if bound != "0" && policy != "noeviction" {
        return Err(Trouble::Setting(format!(
            "its maxmemory-policy is {policy}, which evicts what must be kept; set it to noeviction"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_supported_redis_that_does_not_evict_is_accepted() {
        let server = |version: &str| format!("# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n");
        let memory = |max: u32, policy: &str| format!("maxmemory:{max}\r\nmaxmemory_policy:{policy}\r\n");
        for (version, max, policy, is_good) in [
            ("7.0.15", 0, "allkeys-lru", true),
            ("8.2.1", 100, "noeviction", true),
            ("7.2.0", 100, "allkeys-lru", false),
            ("7.2.0", 100, "volatile-ttl", false),
            ("6.2.14", 0, "noeviction", false),
        ] {
            let checked = check_server(&server(version), &memory(max, policy), false);
            assert_eq!(checked.is_ok(), is_good, "{version} {max} {policy}: {checked:?}");
        }
        assert!(check_server(&server("7.0.0"), &memory(0, "noeviction"), true).is_err());
    }
}
