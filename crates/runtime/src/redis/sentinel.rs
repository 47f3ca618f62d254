//! Sentinels: the master of a name, and the fail-over that made it master.
//!
//! Every Sentinel is asked, and the one that knows of the latest fail-over, and of the most replicas, is believed: another
//! may not have heard of them.

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;

use super::link::Trouble;
use super::settings::{Node, Settings};

/// A master, as its Sentinels describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// The address of the server.
    pub node: Node,
    /// Number of the fail-over that made it master (`config-epoch`).
    pub term: u64,
    /// Number of its replicas, up or down.
    pub replicas: usize,
}

/// Connections to the Sentinels of a configuration, made when needed.
#[derive(Debug)]
pub struct Sentinels<'a> {
    config: &'a Settings,
    links: Vec<Option<MultiplexedConnection>>,
}

impl<'a> Sentinels<'a> {
    /// Creates the connections' places; nothing is connected yet.
    pub fn new(config: &'a Settings) -> Self {
        Sentinels { config, links: vec![None; config.nodes.len()] }
    }

    /// Returns the master of a name.
    ///
    /// # Errors
    /// [`Trouble`]: no Sentinel answers, or none knows the name.
    pub async fn find(&mut self, name: &str) -> Result<Master, Trouble> {
        let config = self.config;
        let asked = config.nodes.iter().zip(&mut self.links).map(|(node, link)| async move {
            let answer = tokio::time::timeout(config.connect_timeout, ask(config, node, link, name)).await;
            let answer = answer.unwrap_or(Err(Trouble::Slow));
            if answer.is_err() {
                *link = None;
            }
            answer
        });
        let rank = |master: &Master| (master.term, master.replicas);
        let mut found: Result<Master, _> = Err(Trouble::Setting("no Sentinel is named".into()));
        for answer in join_all(asked).await {
            found = match (found, answer) {
                (Ok(one), Ok(other)) => Ok(if rank(&other) > rank(&one) { other } else { one }),
                (Ok(one), Err(_)) => Ok(one),
                (_, answer) => answer,
            };
        }
        found
    }
}

async fn ask(
    config: &Settings,
    node: &Node,
    link: &mut Option<MultiplexedConnection>,
    name: &str,
) -> Result<Master, Trouble> {
    let link = match link {
        Some(link) => link,
        None => link.insert(connect(config, node).await?),
    };
    let mut cmd = redis::cmd("SENTINEL");
    cmd.arg("MASTER").arg(name);
    let fields: Vec<String> = match cmd.query_async(link).await {
        Err(err) if err.to_string().contains("No such master") => {
            return Err(Trouble::Setting(format!("a Sentinel does not know the name \"{name}\"")));
        }
        fields => fields?,
    };
    let field = |name: &str| fields.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].as_str());
    let number = |name: &str| field(name)?.parse::<u64>().ok();
    let port = number("port").and_then(|port| u16::try_from(port).ok());
    match (field("ip"), port, number("config-epoch"), number("num-slaves")) {
        (Some(host), Some(port), Some(term), Some(replicas)) => Ok(Master {
            node: Node::Tcp(host.into(), port),
            term,
            replicas: usize::try_from(replicas).unwrap_or(usize::MAX),
        }),
        _ => Err(Trouble::Refused("a Sentinel's answer cannot be used".into())),
    }
}

/// Connects without the user and the password, and with them if the Sentinel demands it.
async fn connect(config: &Settings, node: &Node) -> Result<MultiplexedConnection, Trouble> {
    let open = async |with_user| -> Result<MultiplexedConnection, Trouble> {
        let mut link = config.connect_sentinel(node, with_user).await?;
        redis::cmd("PING").query_async::<()>(&mut link).await?;
        Ok(link)
    };
    match open(false).await {
        Err(Trouble::Setting(_)) if config.password.is_some() => open(true).await,
        done => done,
    }
}
