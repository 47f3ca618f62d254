//! The directory that nodes share in Redis: used tokens, the node of each channel, and the nodes that live. It contains nothing
//! of a channel but a fingerprint of its name. SPEC relay.md#several-nodes
//!
//! A channel, its tokens and the nodes lie in one of some buckets, each with an epoch of its own. The keys of a bucket have one
//! hash slot, so that a script can use all of them in a cluster too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::digest;
use futures_util::future::join_all;
use parking_lot::Mutex as Lock;
use redis::{Pipeline, Value};
use sealway_proto::crypto::default_provider;
use sealway_proto::relay::{Claims, SKEW_S, b64u_encode};
use sealway_runtime::redis::{Link, Sentinels, Settings, Trouble, check_server, field};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::script::{ADMIT, ENTER};
use crate::channel::ChannelKey;
use crate::replay::TokenKey;
use crate::tick::ms;

/// Number of buckets in a cluster; a single server has one.
const BUCKETS: usize = 16;
/// Longest time for an operation, redirections of a cluster included.
const DEADLINE: Duration = Duration::from_secs(2);
/// Pause after a failed attempt to connect, in which no task makes another.
const PAUSE: Duration = Duration::from_millis(500);
/// Age from which the connection to a cluster is replaced after a failure. Earlier, one of its servers may be away while the
/// others continue.
const AGE: Duration = Duration::from_secs(3);
/// Longest wait for the epochs that another node is about to begin.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// Longest wait for replicas to confirm their master, in milliseconds.
const WAIT_MS: u64 = 300;
/// Time after which a node that has not renewed its lease loses its channels to another node that asks for them.
const LEASE: Duration = Duration::from_secs(15);
/// Time for which a channel's node is known after its last announcement.
const PLACE_TTL: Duration = Duration::from_secs(600);
/// Most channels that are announced at once.
const BATCH: usize = 500;
/// Most epochs of a bucket that this node remembers to have left.
const LEFT_MAX: usize = 16;

/// Another node in the directory.
pub(crate) struct Place {
    /// Its id, which is another one after each start.
    pub(crate) node: String,
    pub(crate) address: String,
}

/// The outcome of an attach in the directory.
pub(super) enum Outcome {
    Here,
    /// The channel is on another node.
    There(Place),
    /// The token was used before.
    Replayed,
    /// The token may have been used before a loss of memory, or this node has just learned of one.
    Doubtful,
}

/// A connection that is in use.
struct Open {
    link: Link,
    /// A connection of its own, which waits for replicas, and how many; `None` if none need to confirm.
    confirming: Option<(Link, usize)>,
    since: Instant,
}

/// The place of the one connection that all tasks share.
#[derive(Default)]
struct Slot {
    open: Option<Arc<Open>>,
    /// Time of the last failed attempt to connect.
    failed: Option<Instant>,
}

/// A bucket's epoch as this node knows it.
#[derive(Default)]
struct Epoch {
    /// Empty before the first answer.
    id: String,
    left: Vec<String>,
    /// It has just changed: this node's channels may be missing.
    is_new: bool,
}

/// The directory, as one node uses it.
pub(super) struct Directory {
    settings: Settings,
    prefix: String,
    min_replicas: Option<usize>,
    node: String,
    address: String,
    slot: Mutex<Slot>,
    epochs: Vec<Lock<Epoch>>,
    attempts: AtomicU64,
}

impl Directory {
    /// Creates the directory of a node with this address; nothing is connected yet.
    pub(super) fn new(
        mut settings: Settings,
        prefix: String,
        min_replicas: Option<usize>,
        address: String,
    ) -> Result<Self, String> {
        (settings.deadline, settings.connect_timeout) = (DEADLINE, DEADLINE);
        let buckets = if settings.cluster { BUCKETS } else { 1 };
        Ok(Directory {
            settings,
            prefix,
            min_replicas,
            node: random()?,
            address,
            slot: Mutex::default(),
            epochs: (0..buckets).map(|_| Lock::default()).collect(),
            attempts: AtomicU64::new(0),
        })
    }

    /// Returns the servers, for messages.
    pub(super) fn name(&self) -> String {
        self.settings.name()
    }

    /// Returns the id of this node, of this run.
    pub(super) fn node(&self) -> &str {
        &self.node
    }

    fn key(&self, bucket: usize, kind: &str) -> String {
        format!("{{{}:relay:{bucket}}}:{kind}", self.prefix)
    }

    /// Returns the bucket of a channel, and its key there.
    fn place(&self, channel: &ChannelKey) -> (usize, String) {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&channel.tenant.0);
        context.update(channel.id.as_bytes());
        let hash = context.finish();
        let fingerprint = &hash.as_ref()[..16];
        let bucket = usize::from(fingerprint[0]) % self.epochs.len();
        (bucket, self.key(bucket, &format!("channel:{}", b64u_encode(fingerprint))))
    }

    /// Returns the connection, or opens one.
    async fn open(&self) -> Result<Arc<Open>, Trouble> {
        let mut slot = self.slot.lock().await;
        if let Some(open) = &slot.open {
            return Ok(open.clone());
        }
        if slot.failed.is_some_and(|at| at.elapsed() < PAUSE) {
            // Tasks that have waited for the attempt of another do not each make one of their own, in a row.
            return Err(Trouble::Away("it could not be reached just now".into()));
        }
        let opened = timeout(DEADLINE, self.connect()).await.unwrap_or(Err(Trouble::Slow));
        slot.failed = opened.is_err().then(Instant::now);
        let open = Arc::new(opened?);
        slot.open = Some(open.clone());
        Ok(open)
    }

    async fn connect(&self) -> Result<Open, Trouble> {
        let link = Link::connect(&self.settings).await?;
        let looks = (0..self.epochs.len()).map(async |bucket| {
            let mut info = redis::cmd("INFO");
            info.arg("server").arg("memory");
            let info: String = link.get_at(&self.key(bucket, "epoch"), info).await?;
            check_server(&info, &info, self.settings.cluster)
        });
        // A part of a cluster may be away.
        for looked in join_all(looks).await {
            match looked {
                Err(err) if !self.settings.cluster || matches!(err, Trouble::Setting(_)) => return Err(err),
                _ => {}
            }
        }
        let confirming = match link.confirmers(self.min_replicas) {
            0 => None,
            needed => Some((link.another(&self.settings).await?, needed)),
        };
        Ok(Open { link, confirming, since: Instant::now() })
    }

    /// Performs an operation within the deadline, and drops a connection that failed.
    async fn run<T>(&self, open: &Arc<Open>, work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        let done = timeout(DEADLINE, work).await.unwrap_or(Err(Trouble::Slow));
        if let Err(err) = &done {
            tracing::warn!(%err, "a command to Redis failed");
            if !self.settings.cluster || open.since.elapsed() > AGE {
                self.drop_link(open).await;
            }
        }
        done
    }

    async fn drop_link(&self, open: &Arc<Open>) {
        let mut slot = self.slot.lock().await;
        if slot.open.as_ref().is_some_and(|current| Arc::ptr_eq(current, open)) {
            slot.open = None;
        }
    }

    /// Drops the connection if the Sentinels name another master, or another number of replicas that must confirm it.
    pub(super) async fn follow(&self) {
        let Some(open) = self.slot.lock().await.open.clone() else { return };
        if let (Some(name), Some(master)) = (&self.settings.sentinel, open.link.master())
            && let Ok(Ok(now)) = timeout(DEADLINE, Sentinels::new(&self.settings).find(name)).await
            && now != *master
        {
            self.drop_link(&open).await;
        }
    }

    /// Enters all buckets for the first time. Before the first node of all, no token was used.
    pub(super) async fn begin(&self, now_s: i64) -> Result<(), Trouble> {
        let until = Instant::now() + FIRST_WAIT;
        let is_first = loop {
            let open = self.open().await?;
            let looks = (0..self.epochs.len()).map(|bucket| {
                let mut exists = redis::cmd("EXISTS");
                exists.arg(self.key(bucket, "epoch"));
                let open = open.clone();
                async move { self.run(&open, open.link.get::<u8>(&exists)).await }
            });
            let found = join_all(looks).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            let count = found.iter().filter(|found| **found > 0).count();
            // Another node may be about to begin the rest.
            if count == 0 || count == found.len() || Instant::now() > until {
                break count == 0;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let entered = join_all((0..self.epochs.len()).map(|bucket| self.enter(bucket, now_s, is_first))).await;
        entered.into_iter().collect()
    }

    /// Announces this node in every bucket; failures are logged.
    pub(super) async fn renew(&self, now_s: i64) {
        join_all((0..self.epochs.len()).map(|bucket| self.enter(bucket, now_s, false))).await;
    }

    /// Announces this node in a bucket, and learns the bucket's epoch.
    async fn enter(&self, bucket: usize, now_s: i64, is_first: bool) -> Result<(), Trouble> {
        let fresh = random().map_err(Trouble::Refused)?;
        let (known, left) = {
            let epoch = self.epochs[bucket].lock();
            (epoch.id.clone(), epoch.left.clone())
        };
        let open = self.open().await?;
        let mut call = redis::cmd("EVAL");
        call.arg(ENTER).arg(2).arg(self.key(bucket, "epoch")).arg(self.key(bucket, &format!("node:{}", self.node)));
        call.arg(&fresh).arg(&known).arg(now_s).arg(SKEW_S).arg(u8::from(is_first));
        call.arg(&self.address).arg(ms(LEASE)).arg(left);
        let (id, server, floor_s) = self.run(&open, open.link.get::<(String, String, i64)>(&call)).await?;
        if !known.is_empty() && id != known {
            tracing::warn!(
                bucket,
                server,
                floor_s,
                "Redis has lost its memory, or has another master: tokens issued up to the floor are rejected"
            );
        }
        let mut epoch = self.epochs[bucket].lock();
        if epoch.id != id {
            if !epoch.id.is_empty() {
                let before = std::mem::take(&mut epoch.id);
                epoch.left.push(before);
                epoch.is_new = true;
            }
            if epoch.left.len() > LEFT_MAX {
                epoch.left.remove(0);
            }
            epoch.left.retain(|left| *left != id);
            epoch.id = id;
        }
        Ok(())
    }

    /// Uses up a token, and returns the node of its channel.
    pub(super) async fn admit(
        &self,
        token: TokenKey,
        claims: &Claims,
        channel: &ChannelKey,
        now_s: i64,
    ) -> Result<Outcome, Trouble> {
        let (bucket, place) = self.place(channel);
        let id = self.epochs[bucket].lock().id.clone();
        // Another node, whose clock is behind this one's by up to the skew, verifies the token for that much longer.
        let left_s = claims.exp.saturating_add(2 * SKEW_S + 1).saturating_sub(now_s).max(1);
        let attempt = format!("{}.{}", self.node, self.attempts.fetch_add(1, Ordering::Relaxed));
        let open = self.open().await?;
        let mut call = redis::cmd("EVAL");
        call.arg(ADMIT).arg(3).arg(self.key(bucket, "epoch"));
        call.arg(self.key(bucket, &format!("token:{}", b64u_encode(&token.0)))).arg(place);
        call.arg(id).arg(claims.iat).arg(attempt).arg(left_s.saturating_mul(1000));
        call.arg(&self.node).arg(ms(PLACE_TTL)).arg(self.key(bucket, "node:"));
        let (outcome, address, server, node): (String, _, String, _) = self.run(&open, open.link.get(&call)).await?;
        let outcome = match outcome.as_str() {
            "here" => Outcome::Here,
            "there" => Outcome::There(Place { node, address }),
            "replay" => return Ok(Outcome::Replayed),
            "lost" => {
                self.enter(bucket, now_s, false).await?;
                return Ok(Outcome::Doubtful);
            }
            _ => return Ok(Outcome::Doubtful),
        };
        self.run(&open, self.confirm(&open, bucket, &server)).await?;
        Ok(outcome)
    }

    /// Has replicas confirm that this server was still their master after the token was used up there. Two masters share a
    /// replica if half of all must confirm, and the later one begins with a floor above the tokens of the former.
    async fn confirm(&self, open: &Open, bucket: usize, server: &str) -> Result<(), Trouble> {
        let Some((link, needed)) = &open.confirming else { return Ok(()) };
        let mut pipe = redis::pipe();
        // A write of this connection, which WAIT then waits for, and everything before it with it.
        pipe.cmd("SET").arg(self.key(bucket, "confirm")).arg("1").arg("PX").arg(10_000);
        pipe.cmd("INFO").arg("replication").cmd("WAIT").arg(*needed).arg(WAIT_MS);
        let answers = link.ask_all_at(&self.key(bucket, "epoch"), pipe).await?;
        let [Value::Okay, Value::BulkString(info), Value::Int(count)] = answers.as_slice() else {
            return Err(Trouble::Refused("a confirmation failed".into()));
        };
        if field(&String::from_utf8_lossy(info), "master_replid") != Some(server) {
            return Err(Trouble::Lost);
        }
        if usize::try_from(*count).unwrap_or(0) < *needed {
            return Err(Trouble::Refused(format!("{count} of {needed} replicas confirm that it is their master")));
        }
        Ok(())
    }

    /// Returns whether a bucket has another epoch, in which this node's channels are not announced yet.
    pub(super) fn has_new_epoch(&self) -> bool {
        self.epochs.iter().any(|epoch| epoch.lock().is_new)
    }

    /// Announces that these channels are on this node.
    pub(super) async fn announce(&self, channels: &[ChannelKey]) -> Result<(), Trouble> {
        let mut by_bucket = vec![Vec::new(); self.epochs.len()];
        for channel in channels {
            let (bucket, key) = self.place(channel);
            by_bucket[bucket].push(key);
        }
        for (bucket, keys) in by_bucket.iter().enumerate() {
            let was_new = std::mem::take(&mut self.epochs[bucket].lock().is_new);
            let announced = self.announce_in(bucket, keys).await;
            if announced.is_err() {
                self.epochs[bucket].lock().is_new |= was_new;
            }
            announced?;
        }
        Ok(())
    }

    async fn announce_in(&self, bucket: usize, keys: &[String]) -> Result<(), Trouble> {
        for batch in keys.chunks(BATCH) {
            let mut pipe = Pipeline::new();
            for key in batch {
                pipe.cmd("SET").arg(key).arg(&self.node).arg("NX").arg("PX").arg(ms(PLACE_TTL));
                pipe.cmd("PEXPIRE").arg(key).arg(ms(PLACE_TTL));
            }
            let open = self.open().await?;
            self.run(&open, open.link.ask_all_at(&self.key(bucket, "epoch"), pipe)).await?;
        }
        Ok(())
    }

    /// Announces that this node leaves.
    pub(super) async fn leave(&self) {
        let Ok(open) = self.open().await else { return };
        let leaving = (0..self.epochs.len()).map(|bucket| {
            let mut del = redis::cmd("DEL");
            del.arg(self.key(bucket, &format!("node:{}", self.node)));
            let open = open.clone();
            async move { self.run(&open, open.link.get::<u8>(&del)).await }
        });
        // A lease that stays runs out by itself.
        let _ = join_all(leaving).await;
    }
}

fn random() -> Result<String, String> {
    let mut bytes = [0; 12];
    default_provider().fill_random(&mut bytes).map_err(|err| err.to_string())?;
    Ok(b64u_encode(&bytes))
}

#[cfg(test)]
mod tests {
    use sealway_proto::relay::Claims;
    use tokio::net::TcpListener;

    use super::*;
    use crate::channel::Tenant;

    fn directory(url: &str) -> Directory {
        Directory::new(Settings::parse_url(url).unwrap(), "t".into(), None, "n".into()).unwrap()
    }

    #[test]
    fn all_keys_of_a_channel_have_one_hash_tag() {
        let directory = directory("redis-cluster://a");
        let mut buckets = std::collections::HashSet::new();
        for number in 0..200 {
            let channel = ChannelKey { tenant: Tenant([0; 8]), id: format!("c{number}").as_str().into() };
            let (bucket, place) = directory.place(&channel);
            let tag = format!("{{t:relay:{bucket}}}:");
            let keys = ["epoch", "node:", "token:", "confirm"].map(|kind| directory.key(bucket, kind));
            assert!(place.starts_with(&tag) && keys.iter().all(|key| key.starts_with(&tag)), "{place} {keys:?}");
            buckets.insert(bucket);
        }
        assert_eq!(buckets.len(), BUCKETS);
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_attempt_while_redis_is_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let directory = directory(&format!("redis://{}", listener.local_addr().unwrap()));
        let (claims, key) = (Claims::default(), ChannelKey { tenant: Tenant([0; 8]), id: "c".into() });
        let asking = join_all((0..8).map(|_| directory.admit(TokenKey([0; 16]), &claims, &key, 1)));
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
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(held.len(), 1, "each made an attempt of its own, one after the other");
    }
}
