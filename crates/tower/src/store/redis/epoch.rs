//! The connection to Redis, and the epoch in force on it: as long as it is in force, Redis has the memory to which
//! claims were written. `spec/redis-store.md#nonces`.
//!
//! A task connects and checks, once for all callers that wait for it, and no caller cancels it. A request on a
//! connection that is up does not wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, ServerErrorKind};
use sealway_proto::store::script;
use tokio::sync::watch;

/// Time after which an epoch is checked again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Minimum time between a failure and the next attempt.
const PAUSE: Duration = Duration::from_millis(100);
const NO_EPOCH: &str = "no epoch is in force: a gateway begins one";

/// An epoch that is in force.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    generation: String,
    /// Hash of its script's text, which is never sent: the proof is that Redis knows the hash.
    sha: String,
    pub(super) made_ms: u64,
    /// True if this process had joined another epoch before.
    pub(super) is_again: bool,
}

/// A connection to a server that was checked.
pub(super) struct Link {
    id: u64,
    connection: MultiplexedConnection,
    /// The epoch in force, or the reason that there is none.
    pub(super) epoch: Result<Epoch, String>,
    looked: Instant,
}

type Outcome = Result<Arc<Link>, String>;
type Coming = watch::Receiver<Option<Outcome>>;

enum Slot {
    /// There is no connection; the reason, and the time of the failure.
    Down(Option<(String, Instant)>),
    Connecting(Coming),
    Up(Arc<Link>),
    /// A check is in progress; requests continue.
    Looking(Arc<Link>, Coming),
}

/// The connection of a store.
pub(super) struct Connection {
    client: Client,
    prefix: String,
    deadline: Duration,
    slot: Mutex<Slot>,
    /// The last epoch that was joined, and the number of the last connection.
    last: Mutex<(Option<Epoch>, u64)>,
}

impl Link {
    /// True if the last check is recent enough for another claim.
    fn is_fresh(&self) -> bool {
        self.looked.elapsed() < if self.epoch.is_ok() { LOOK_AGAIN } else { PAUSE }
    }
}

impl Connection {
    pub(super) fn new(client: Client, prefix: String, deadline: Duration) -> Arc<Self> {
        let (slot, last) = (Mutex::new(Slot::Down(None)), Mutex::default());
        Arc::new(Connection { client, prefix, deadline, slot, last })
    }

    /// Returns a connection to a checked server; for a claim, checked a moment ago.
    pub(super) async fn link(self: &Arc<Self>, is_for_claim: bool) -> Outcome {
        let mut coming = {
            let mut slot = self.slot.lock();
            match &*slot {
                Slot::Up(link) | Slot::Looking(link, _) if !is_for_claim || link.is_fresh() => return Ok(link.clone()),
                // If its task ended without a result, another one begins.
                Slot::Connecting(coming) | Slot::Looking(_, coming) if coming.has_changed().is_ok() => coming.clone(),
                Slot::Down(Some((why, since))) if since.elapsed() < PAUSE => return Err(why.clone()),
                Slot::Up(link) | Slot::Looking(link, _) => {
                    let link = link.clone();
                    let coming = self.renew(Some(link.clone()));
                    *slot = Slot::Looking(link, coming.clone());
                    coming
                }
                Slot::Down(_) | Slot::Connecting(_) => {
                    let coming = self.renew(None);
                    *slot = Slot::Connecting(coming.clone());
                    coming
                }
            }
        };
        let late = || Err("it cannot be reached in time".to_owned());
        match tokio::time::timeout(self.deadline, coming.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.clone().unwrap_or_else(late),
            Ok(Err(_)) | Err(_) => late(),
        }
    }

    /// Connects, or takes the connection of `old`, and checks the server.
    fn renew(self: &Arc<Self>, old: Option<Arc<Link>>) -> Coming {
        let (sender, coming) = watch::channel(None);
        let this = self.clone();
        tokio::spawn(async move {
            let made = tokio::time::timeout(this.deadline, this.look(old.as_deref())).await;
            let outcome = made.unwrap_or_else(|_| Err("it did not answer in time".into())).map(Arc::new);
            {
                let mut slot = this.slot.lock();
                let is_ours = match (&*slot, &old) {
                    (Slot::Connecting(_), None) => true,
                    (Slot::Looking(link, _), Some(old)) => link.id == old.id,
                    // The connection was dropped meanwhile.
                    _ => false,
                };
                if is_ours {
                    *slot = match &outcome {
                        Ok(link) => Slot::Up(link.clone()),
                        Err(why) => Slot::Down(Some((why.clone(), Instant::now()))),
                    };
                }
            }
            let _ = sender.send(Some(outcome));
        });
        coming
    }

    async fn look(&self, old: Option<&Link>) -> Result<Link, String> {
        let (id, mut connection) = match old {
            Some(link) => (link.id, link.connection.clone()),
            None => {
                // This store has its own deadlines: the library's would end a request without ending its connection.
                let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
                let made = self.client.get_multiplexed_async_connection_with_config(&config).await;
                let made = made.map_err(|err| told(&err))?;
                let mut last = self.last.lock();
                last.1 += 1;
                (last.1, made)
            }
        };
        let looked = Instant::now();
        let found = look(&mut connection, &self.prefix).await?;
        let epoch = found.map(|(generation, made_ms)| self.joined(generation, made_ms));
        Ok(Link { id, connection, epoch: epoch.ok_or_else(|| NO_EPOCH.to_owned()), looked })
    }

    fn joined(&self, generation: String, made_ms: u64) -> Epoch {
        let last = &mut self.last.lock().0;
        match last {
            Some(last) if last.generation == generation => last.clone(),
            _ => {
                let sha = redis::Script::new(&script::reserve(&generation)).get_hash().to_owned();
                let is_again = last.is_some();
                last.insert(Epoch { generation, sha, made_ms, is_again }).clone()
            }
        }
    }

    /// Sends a command once, within the deadline. A connection that broke or did not answer is not used again.
    pub(super) async fn ask<T: FromRedisValue>(&self, link: &Link, cmd: &Cmd) -> Result<T, String> {
        let mut connection = link.connection.clone();
        match tokio::time::timeout(self.deadline, cmd.query_async(&mut connection)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(err)) => {
                if err.kind() == ServerErrorKind::NoScript.into() {
                    self.lose(link);
                } else if err.is_io_error() || err.is_unrecoverable_error() {
                    self.let_go(link);
                }
                Err(told(&err))
            }
            Err(_) => {
                self.let_go(link);
                Err("it did not answer in time".into())
            }
        }
    }

    /// Marks the epoch as no longer in force: the next claim checks again.
    pub(super) fn lose(&self, link: &Link) {
        let mut slot = self.slot.lock();
        if let Slot::Up(up) = &*slot
            && up.id == link.id
        {
            let (connection, looked) = (link.connection.clone(), link.looked);
            *slot = Slot::Up(Arc::new(Link { id: link.id, connection, epoch: Err(NO_EPOCH.into()), looked }));
        }
    }

    fn let_go(&self, link: &Link) {
        let mut slot = self.slot.lock();
        if let Slot::Up(up) | Slot::Looking(up, _) = &*slot
            && up.id == link.id
        {
            *slot = Slot::Down(None);
        }
    }
}

/// Describes an error without the data that was sent: the server's code, or the library's category.
fn told(err: &RedisError) -> String {
    let is_word = |code: &&str| code.len() <= 16 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    match err.code().filter(is_word) {
        Some(code) => format!("it answers {code}"),
        None => err.category().to_owned(),
    }
}

/// Returns the epoch in force and the time of its beginning, if there is one.
///
/// # Errors
/// The server cannot be used for sessions and nonces.
async fn look(connection: &mut MultiplexedConnection, prefix: &str) -> Result<Option<(String, u64)>, String> {
    let mut asked = redis::cmd("INFO");
    let info = asked.arg("server").arg("replication").query_async(connection).await;
    let info: String = info.map_err(|err| told(&err))?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    if field("redis_mode") != Some("standalone") {
        return Err("it is a member of a cluster, whose nonces are in other buckets".into());
    }
    if field("role") != Some("master") {
        return Err("it is a replica".into());
    }
    let mut asked = redis::cmd("HMGET");
    asked.arg(key(prefix, "epoch")).arg(&["gen", "floor", "made", "node"]);
    let members: Vec<Option<String>> = asked.query_async(connection).await.map_err(|err| told(&err))?;
    let [Some(generation), _, Some(made), Some(node)] = members.as_slice() else { return Ok(None) };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let Some(made_ms) = made.parse().ok().filter(|_| generation.len() == 32 && generation.bytes().all(is_hex)) else {
        return Ok(None);
    };
    if field("master_replid") != Some(node) {
        return Err("it is not the server whose epoch it is".into());
    }
    Ok(Some((generation.clone(), made_ms)))
}

/// Returns a key in the bucket of the nonces.
pub(super) fn key(prefix: &str, name: &str) -> String {
    format!("{{{prefix}:0}}:{name}")
}

impl Epoch {
    /// Builds the call of the epoch's script.
    pub(super) fn call(&self, prefix: &str, nonce_key: &[u8]) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.sha).arg(3).arg(key(prefix, "epoch")).arg(key(prefix, "canary")).arg(nonce_key);
        cmd
    }
}
