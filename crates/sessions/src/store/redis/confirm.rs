//! Confirmations: proof by its replicas that a server is still their master.
//!
//! Redis replicates asynchronously, and a master that is cut off goes on serving while a replica is promoted: the two
//! could each grant one nonce. So every [`EVERY`] this process writes to the master and waits until `min_replicas` of its
//! replicas have the write. If they are half of all replicas or more, no other server can have been confirmed at that
//! moment, since two such groups share a server. A claim counts only if a confirmation that began less than [`VALID_MS`]
//! before is there when its answer is; and a promoted master begins its epoch, with a floor [`VALID_MS`] higher, only once
//! it is confirmed itself. So the floor is above every stamp that its predecessor granted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use redis::Value;
use sealway_runtime::redis::{Link, Trouble, field};
use tokio::time::Instant;

use super::epoch::epoch_key;
use super::{Inner, Live};

/// Time for which a confirmation counts, from its beginning, in milliseconds.
pub(super) const VALID_MS: u64 = 1000;
/// Interval between two confirmations of a server.
const EVERY: Duration = Duration::from_millis(200);
/// Maximum wait for the replicas, in milliseconds.
const WAIT_MS: u64 = 300;

/// Confirmations of the servers of one connection.
pub(super) struct Confirmations {
    /// Number of replicas that must confirm; 0 means that none need to.
    pub(super) needed: usize,
    /// A connection apart: WAIT blocks the one that it is sent on. `None` if no replica need confirm.
    link: Option<Link>,
    origin: Instant,
    /// For each bucket, the end of the last confirmation of its server, in milliseconds after `origin`.
    until: Vec<AtomicU64>,
    /// For each bucket, the replication id of the server that was confirmed last; empty before.
    nodes: Mutex<Vec<String>>,
}

impl Confirmations {
    pub(super) async fn new(shared: &Inner, link: &Link) -> Result<Self, Trouble> {
        let needed = link.confirmers(shared.config.min_replicas);
        let link = if needed == 0 { None } else { Some(link.another(&shared.config.server).await?) };
        let until = (0..shared.buckets()).map(|_| AtomicU64::new(0)).collect();
        let nodes = Mutex::new(vec![String::new(); shared.buckets()]);
        Ok(Confirmations { needed, link, origin: Instant::now(), until, nodes })
    }

    /// Returns the servers that were confirmed, each with its buckets.
    fn servers(&self) -> HashMap<String, Vec<usize>> {
        let mut servers: HashMap<String, Vec<usize>> = HashMap::new();
        for (bucket, node) in self.nodes.lock().iter().enumerate().filter(|(_, node)| !node.is_empty()) {
            servers.entry(node.clone()).or_default().push(bucket);
        }
        servers
    }

    /// True if the server of a bucket was confirmed less than [`VALID_MS`] ago, or needs no confirmation.
    pub(super) fn holds(&self, bucket: usize) -> bool {
        let now_ms = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.link.is_none() || self.until.get(bucket).is_some_and(|until| now_ms < until.load(Ordering::Acquire))
    }
}

impl Inner {
    /// Has the server of a bucket confirmed, which was confirmed before.
    pub(super) async fn confirm_again(&self, live: &Live, bucket: usize) -> Result<(), Trouble> {
        let node = live.confirmations.nodes.lock().get(bucket).cloned().unwrap_or_default();
        self.confirm(live, &node, &[bucket]).await
    }

    /// Has the server with this replication id confirmed, for these buckets, which it has.
    pub(super) async fn confirm(&self, live: &Live, node: &str, buckets: &[usize]) -> Result<(), Trouble> {
        let confirmations = &live.confirmations;
        let (Some(link), Some(first)) = (&confirmations.link, buckets.first()) else { return Ok(()) };
        let begun = confirmations.origin.elapsed();
        let key = epoch_key(&self.config.prefix, *first);
        let mut pipe = redis::pipe();
        // A write of this connection, which WAIT then waits for.
        pipe.cmd("SET").arg(format!("{key}:confirm")).arg("1").arg("PX").arg(10_000);
        pipe.cmd("INFO").arg("replication");
        pipe.cmd("WAIT").arg(confirmations.needed).arg(WAIT_MS);
        let answers = self.within(link.ask_all_at(&key, pipe)).await?;
        let [Value::Okay, Value::BulkString(info), Value::Int(count)] = answers.as_slice() else {
            return Err(Trouble::Refused("a confirmation failed".into()));
        };
        if field(&String::from_utf8_lossy(info), "master_replid") != Some(node) {
            return Err(Trouble::Lost);
        }
        let needed = confirmations.needed;
        if usize::try_from(*count).unwrap_or(0) < needed {
            return Err(Trouble::Refused(format!("{count} of {needed} replicas confirm that it is their master")));
        }
        let until_ms = u64::try_from(begun.as_millis()).unwrap_or(u64::MAX).saturating_add(VALID_MS);
        let mut nodes = confirmations.nodes.lock();
        for bucket in buckets {
            if let (Some(until), Some(known)) = (confirmations.until.get(*bucket), nodes.get_mut(*bucket)) {
                until.fetch_max(until_ms, Ordering::AcqRel);
                node.clone_into(known);
            }
        }
        Ok(())
    }

    /// Has every server confirmed whose epochs are in force here, as long as the connection lives.
    pub(super) async fn keep_confirmed(&self, live: &Live) {
        if live.confirmations.link.is_none() {
            return std::future::pending().await;
        }
        loop {
            let begun = Instant::now();
            let servers = live.confirmations.servers();
            // A server that is not confirmed is noticed by `holds`.
            join_all(servers.iter().map(|(node, buckets)| self.confirm(live, node, buckets))).await;
            tokio::time::sleep(EVERY.saturating_sub(begun.elapsed())).await;
        }
    }
}
