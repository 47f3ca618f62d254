//! The epoch that is in force in Redis: for as long as it is, Redis has the memory that claims were written to.
//! `spec/redis-store.md#nonces`.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, RedisError};
use sealway_proto::store::script;

/// An epoch is looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// An epoch in force.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    generation: String,
    /// The hash of its script's text, which is never sent: that Redis has it is the proof.
    sha: String,
    pub(super) made_ms: u64,
    /// This process had joined another one before.
    pub(super) is_again: bool,
}

/// A connection, and the epoch that was found by it.
#[derive(Default)]
pub(super) struct Membership {
    link: Option<MultiplexedConnection>,
    epoch: Option<(Epoch, Instant)>,
    /// The last one that was joined.
    last: Option<Epoch>,
}

/// What the script says.
pub(super) struct Answer {
    pub(super) state: String,
    pub(super) time_ms: u64,
    pub(super) floor_ms: u64,
}

impl Membership {
    /// The connection; a new one if there is none.
    pub(super) async fn link(&mut self, client: &Client) -> Result<MultiplexedConnection, RedisError> {
        if let Some(link) = &self.link {
            return Ok(link.clone());
        }
        // It may lead to another server.
        self.epoch = None;
        let link = client.get_multiplexed_async_connection().await?;
        Ok(self.link.insert(link).clone())
    }

    /// The epoch in force.
    pub(super) async fn join(&mut self, client: &Client, prefix: &str) -> Result<Epoch, String> {
        let mut link = self.link(client).await.map_err(|err| told(&err))?;
        if let Some((epoch, looked)) = &self.epoch
            && looked.elapsed() < LOOK_AGAIN
        {
            return Ok(epoch.clone());
        }
        self.epoch = None;
        let looked = look(&mut link, prefix).await;
        if looked.is_err() {
            self.link = None;
        }
        let (generation, made_ms) = looked?;
        let epoch = match &self.last {
            Some(last) if last.generation == generation => last.clone(),
            last => {
                let sha = redis::Script::new(&script::reserve(&generation)).get_hash().to_owned();
                Epoch { generation, sha, made_ms, is_again: last.is_some() }
            }
        };
        self.last = Some(epoch.clone());
        self.epoch = Some((epoch.clone(), Instant::now()));
        Ok(epoch)
    }

    /// The connection broke.
    pub(super) fn drop_link(&mut self) {
        (self.link, self.epoch) = (None, None);
    }

    /// The epoch is no longer in force.
    pub(super) fn lose(&mut self) {
        self.epoch = None;
    }
}

/// What an error is, without what was sent.
pub(super) fn told(err: &RedisError) -> String {
    err.category().to_owned()
}

/// Which epoch is in force, and when it was begun.
async fn look(link: &mut MultiplexedConnection, prefix: &str) -> Result<(String, u64), String> {
    let mut asked = redis::cmd("HMGET");
    asked.arg(key(prefix, "epoch")).arg(&["gen", "floor", "made", "node"]);
    let members: Vec<Option<String>> = asked.query_async(link).await.map_err(|err| told(&err))?;
    let [Some(generation), _, Some(made), Some(node)] = members.as_slice() else {
        return Err("no epoch is in force: a gateway begins one".into());
    };
    let is_one = generation.len() == 32 && generation.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let made_ms = made.parse().ok().filter(|_| is_one).ok_or("no epoch is in force: a gateway begins one")?;
    let mut asked = redis::cmd("INFO");
    let info: String = asked.arg("server").arg("replication").query_async(link).await.map_err(|err| told(&err))?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    if field("redis_mode") != Some("standalone") {
        return Err("it is a member of a cluster, whose nonces are in other buckets".into());
    }
    if field("role") != Some("master") || field("master_replid") != Some(node) {
        return Err("it is not the server whose epoch it is".into());
    }
    Ok((generation.clone(), made_ms))
}

/// A key of the bucket that nonces are in.
pub(super) fn key(prefix: &str, name: &str) -> String {
    format!("{{{prefix}:0}}:{name}")
}

impl Epoch {
    /// The call of its script.
    pub(super) fn call(&self, prefix: &str, nonce_key: &[u8]) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.sha).arg(3).arg(key(prefix, "epoch")).arg(key(prefix, "canary")).arg(nonce_key);
        cmd
    }
}
