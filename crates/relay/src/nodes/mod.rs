//! Several nodes for one set of channels: they share Redis (used tokens, and the node of each channel), and an endpoint that
//! lands on another node than its peer's is bridged to that one ([`bridge`]). SPEC relay.md#several-nodes
//!
//! Redis contains nothing of a channel but a fingerprint of its name. While Redis is unavailable no new endpoint attaches;
//! existing channels go on.

pub(crate) mod bridge;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use parking_lot::RwLock;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, RedisError, Script, Value};
use sealway_proto::crypto::default_provider;
use sealway_proto::relay::{Claims, CloseCause, SKEW_S, b64u_encode};
use sealway_runtime::shutdown::Shutdown;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use crate::channel::ChannelKey;
use crate::relay::Relay;
use crate::replay::TokenKey;
use crate::tick::ms;

/// Longest time for an operation on Redis.
const DEADLINE: Duration = Duration::from_secs(2);
/// Pause after a failed attempt to connect, in which no task makes another.
const PAUSE: Duration = Duration::from_millis(500);
/// Time after which a node that has not renewed its lease loses its channels to another node that asks for them.
const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(5);
/// Time for which a channel's node is known after its last announcement.
const PLACE_TTL: Duration = Duration::from_secs(600);
/// Number of renewals after which all channels are announced again.
const PLACE_RENEWALS: u32 = 36;
const BATCH: usize = 500;

/// Takes the token, then returns the node that has the channel: this one from now on, if none has. A known epoch proves that
/// Redis still remembers the tokens taken before.
const ADMIT: &str = r"
if redis.call('GET', KEYS[3]) ~= ARGV[4] then return {'lost', ''} end
if not redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) then return {'replay', ''} end
local owner = redis.call('GET', KEYS[2])
if owner and owner ~= ARGV[2] then
  local address = redis.call('GET', ARGV[5] .. owner)
  if address then
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
    return {'there', address}
  end
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return {'here', ''}
";

/// The settings of nodes with shared channels.
#[derive(Clone)]
pub struct Sharing {
    /// `redis://[user:password@]host:port[/database]`, or `rediss://` for TLS. One server; no cluster.
    pub redis_url: Zeroizing<String>,
    /// Prefix of every key in Redis.
    pub prefix: String,
    /// The address to listen on for other nodes; port 0 takes a free one.
    pub listen: std::net::SocketAddr,
    /// The address by which the others reach it; by default the one it listens on.
    pub advertise: Option<String>,
    /// The secret that all nodes and nobody else know; at least 16 bytes.
    pub secret: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sharing").field("prefix", &self.prefix).field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// The node that has a channel.
pub(crate) enum ChannelNode {
    Here,
    /// Another node, at this address.
    There(String),
}

/// The connection to Redis, shared by all tasks.
#[derive(Default)]
struct Link {
    connection: Option<MultiplexedConnection>,
    /// Time of the last failed attempt to connect.
    failed: Option<Instant>,
}

/// This node among the others.
pub(crate) struct Nodes {
    sharing: Sharing,
    client: Client,
    link: Mutex<Link>,
    id: String,
    advertise: String,
    epoch: RwLock<String>,
    /// Tokens issued up to this time may have been used before Redis lost its memory.
    floor_s: AtomicI64,
    admit: Script,
}

impl Nodes {
    /// Connects to Redis and announces that this node listens at `bound`.
    pub(crate) async fn join(sharing: Sharing, bound: std::net::SocketAddr, now_s: i64) -> Result<Self, String> {
        if sharing.secret.len() < 16 {
            return Err("--node-secret-file: expected one line of at least 16 bytes".into());
        }
        // The library's message may contain the URL, and the URL a password.
        let client = Client::open(sharing.redis_url.as_str()).map_err(|_| {
            "--redis-url: expected redis://USER:PASSWORD@HOST:PORT, or rediss:// for TLS (not shown: it may hold a password)"
        })?;
        let server = client.get_connection_info().addr().to_string();
        let mut id = [0; 12];
        default_provider().fill_random(&mut id).map_err(|err| err.to_string())?;
        let nodes = Nodes {
            advertise: sharing.advertise.clone().unwrap_or_else(|| bound.to_string()),
            sharing,
            client,
            link: Mutex::default(),
            id: b64u_encode(&id),
            epoch: RwLock::default(),
            floor_s: AtomicI64::new(i64::MIN),
            admit: Script::new(ADMIT),
        };
        nodes.begin(now_s).await.map_err(|err| format!("--redis-url: {server}: {}", err.0))?;
        Ok(nodes)
    }

    fn key(&self, kind: &str, name: &str) -> String {
        format!("{}:relay:{kind}:{name}", self.sharing.prefix)
    }

    fn place_key(&self, key: &ChannelKey) -> String {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&key.tenant.0);
        context.update(key.id.as_bytes());
        self.key("channel", &b64u_encode(&context.finish().as_ref()[..16]))
    }

    /// Returns a connection; [`Nodes::tell`] drops one that failed.
    async fn link(&self) -> Result<MultiplexedConnection, RedisFailure> {
        let mut link = self.link.lock().await;
        if let Some(connection) = &link.connection {
            return Ok(connection.clone());
        }
        if link.failed.is_some_and(|at| at.elapsed() < PAUSE) {
            // Tasks that have waited for the attempt of another do not each make one of their own, in a row.
            return Err(RedisFailure("it could not be reached just now"));
        }
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(DEADLINE)).set_response_timeout(Some(DEADLINE));
        let opened = self.client.get_multiplexed_async_connection_with_config(&config).await;
        link.failed = opened.is_err().then(Instant::now);
        let fresh = opened?;
        link.connection = Some(fresh.clone());
        Ok(fresh)
    }

    /// Drops a connection that failed.
    async fn tell<T>(&self, done: Result<T, RedisError>) -> Result<T, RedisFailure> {
        if let Err(err) = &done {
            tracing::warn!(kind = ?err.kind(), "a command to Redis failed");
            self.link.lock().await.connection = None;
        }
        Ok(done?)
    }

    /// Reads the epoch, or begins one: then tokens used before may be used again, and are rejected by their age.
    async fn begin(&self, now_s: i64) -> Result<(), RedisFailure> {
        let mut fresh = [0; 12];
        default_provider().fill_random(&mut fresh).map_err(|_| RedisFailure("the crypto module"))?;
        let known = self.epoch.read().clone();
        // An issuer's clock may be ahead by the skew. At a start, which may be the first of all, an endpoint that must retry
        // later would wait for that long for nothing.
        let floor_s = now_s.saturating_add(if known.is_empty() { 0 } else { SKEW_S });
        let (mut link, key) = (self.link().await?, self.key("epoch", "1"));
        let fresh = format!("{}.{floor_s}", b64u_encode(&fresh));
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(&key).arg(&fresh).arg("NX").ignore().cmd("GET").arg(&key);
        let asked = pipe.query_async::<(String,)>(&mut link).await;
        let (epoch,) = self.tell(asked).await?;
        if epoch == fresh || (!known.is_empty() && known != epoch) {
            tracing::warn!("Redis has no record of used tokens: tokens issued before now are rejected");
            self.floor_s.fetch_max(floor_s, Ordering::AcqRel);
        }
        if let Some(floor_s) = floor_of(&epoch) {
            // A node that joins later was not present when the memory was lost, and learns it here.
            self.floor_s.fetch_max(floor_s, Ordering::AcqRel);
        }
        // Last: a task that presents this epoch to Redis has the floor that belongs to it.
        *self.epoch.write() = epoch;
        self.say_here().await
    }

    async fn say_here(&self) -> Result<(), RedisFailure> {
        let mut link = self.link().await?;
        let mut set = redis::cmd("SET");
        set.arg(self.key("node", &self.id)).arg(&self.advertise).arg("PX").arg(ms(LEASE));
        let done = set.query_async::<()>(&mut link).await;
        self.tell(done).await
    }

    /// Takes a token, and returns the node of its channel.
    pub(crate) async fn admit(
        &self,
        token: TokenKey,
        claims: &Claims,
        channel: &ChannelKey,
        now_s: i64,
    ) -> Result<ChannelNode, CloseCause> {
        let unavailable = |RedisFailure(_)| CloseCause::NodeUnavailable;
        // Before the floor is read: a floor read later is not older than the epoch.
        let epoch = self.epoch.read().clone();
        if claims.iat <= self.floor_s.load(Ordering::Acquire) {
            return Err(CloseCause::NodeUnavailable);
        }
        let left_s = claims.exp.saturating_add(SKEW_S + 1).saturating_sub(now_s).max(1);
        let mut link = self.link().await.map_err(unavailable)?;
        let mut call = self.admit.prepare_invoke();
        call.key(self.key("token", &b64u_encode(&token.0)))
            .key(self.place_key(channel))
            .key(self.key("epoch", "1"))
            .arg(left_s.saturating_mul(1000))
            .arg(&self.id)
            .arg(ms(PLACE_TTL))
            .arg(epoch)
            .arg(self.key("node", ""));
        let done = call.invoke_async::<(String, String)>(&mut link).await;
        let (what, address) = self.tell(done).await.map_err(unavailable)?;
        match what.as_str() {
            "here" => Ok(ChannelNode::Here),
            "there" => Ok(ChannelNode::There(address)),
            "replay" => Err(CloseCause::TokenReplay),
            _ => {
                let _ = self.begin(now_s).await;
                Err(CloseCause::NodeUnavailable)
            }
        }
    }

    /// Announces that these channels are on this node.
    async fn say_places(&self, channels: &[ChannelKey]) -> Result<(), RedisFailure> {
        for batch in channels.chunks(BATCH) {
            let mut pipe = Pipeline::new();
            for channel in batch {
                let key = self.place_key(channel);
                pipe.cmd("SET").arg(&key).arg(&self.id).arg("NX").arg("PX").arg(ms(PLACE_TTL)).ignore();
                pipe.cmd("PEXPIRE").arg(&key).arg(ms(PLACE_TTL)).ignore();
            }
            let mut link = self.link().await?;
            let done = pipe.query_async::<Value>(&mut link).await;
            self.tell(done).await?;
        }
        Ok(())
    }

    /// Announces that this node leaves.
    pub(crate) async fn leave(&self) {
        let Ok(mut link) = self.link().await else { return };
        let mut del = redis::cmd("DEL");
        let _ = del.arg(self.key("node", &self.id)).query_async::<()>(&mut link).await;
    }
}

/// Renews the announcements of this node until it stops.
pub(crate) async fn renew(relay: Arc<Relay>, shutdown: Shutdown) {
    let Some(nodes) = &relay.nodes else { return };
    let mut renewals: u32 = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(RENEW) => {}
            () = shutdown.begun() => return,
        }
        if relay.is_draining.load(Ordering::Acquire) {
            // It has announced that it leaves: nobody may be sent here again.
            return;
        }
        renewals = renewals.wrapping_add(1);
        // A failure is logged, and its effect shows at the next attach.
        let _ = nodes.say_here().await;
        if renewals.is_multiple_of(PLACE_RENEWALS) {
            let _ = nodes.say_places(&relay.channels.keys()).await;
        }
    }
}

/// Parses the floor of an epoch: tokens issued up to then may have been used before it.
fn floor_of(epoch: &str) -> Option<i64> {
    epoch.rsplit_once('.').and_then(|(_, floor)| floor.parse().ok())
}

/// Redis is unavailable. The library's own message may contain a password, and is left out.
#[derive(Clone, Copy, Debug)]
struct RedisFailure(&'static str);

impl From<RedisError> for RedisFailure {
    fn from(err: RedisError) -> Self {
        RedisFailure(if err.is_connection_refusal() {
            "the connection is refused"
        } else if err.is_timeout() {
            "no answer in time"
        } else {
            "it cannot be reached, or refuses what it is asked"
        })
    }
}

#[cfg(test)]
mod tests {
    use sealway_proto::relay::Claims;
    use tokio::net::TcpListener;

    use super::*;
    use crate::channel::Tenant;

    #[test]
    fn an_epoch_says_since_when_used_tokens_are_known() {
        assert_eq!(floor_of("AAAAAAAAAAAAAAAA.1700000000"), Some(1_700_000_000));
        assert_eq!((floor_of("known"), floor_of("AAAA."), floor_of("AA.x")), (None, None, None));
    }

    #[tokio::test]
    async fn many_who_ask_while_redis_is_silent_wait_for_one_attempt_together() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let redis_url = format!("redis://{}", listener.local_addr().unwrap());
        let sharing = Sharing {
            redis_url: redis_url.clone().into(),
            prefix: "t".into(),
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: None,
            secret: vec![1; 16].into(),
        };
        let nodes = Nodes {
            sharing,
            client: Client::open(redis_url).unwrap(),
            link: Mutex::default(),
            id: "n".into(),
            advertise: "n".into(),
            epoch: RwLock::default(),
            floor_s: AtomicI64::new(i64::MIN),
            admit: Script::new(ADMIT),
        };
        let (claims, key) = (Claims::default(), ChannelKey { tenant: Tenant([0; 8]), id: "c".into() });
        let asking = futures_util::future::join_all((0..8).map(|_| nodes.admit(TokenKey([0; 16]), &claims, &key, 1)));
        let mut held = Vec::new();
        let accepting = async {
            loop {
                // It accepts connections and sends nothing.
                held.push(listener.accept().await.unwrap());
            }
        };
        let answers = tokio::select! {
            answers = asking => answers,
            () = accepting => unreachable!("it never ends"),
        };
        assert!(answers.iter().all(|answer| matches!(answer, Err(CloseCause::NodeUnavailable))));
        assert_eq!(held.len(), 1, "each made an attempt of its own, one after the other");
    }
}
