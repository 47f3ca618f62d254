//! Several nodes for one set of channels: they share a [`directory`] in Redis, and an endpoint that lands on another node than
//! its peer's is bridged to that one ([`bridge`]), over TLS on both sides ([`identity`]). SPEC relay.md#several-nodes
//!
//! While Redis is unavailable no new endpoint attaches; existing channels go on.

pub(crate) mod bridge;
mod directory;
mod identity;
mod script;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sealway_proto::relay::{Claims, CloseCause};
use sealway_runtime::clock::Clock;
use sealway_runtime::dial::Dialer;
use sealway_runtime::redis;
use sealway_runtime::shutdown::Shutdown;
use tokio::sync::Notify;

use crate::channel::ChannelKey;
use crate::relay::{Relay, now_s};
use crate::replay::TokenKey;
use directory::{Directory, Outcome, Place};
pub(crate) use identity::Identity;
pub use identity::NodeFiles;

/// Interval of a node's announcements.
const RENEW: Duration = Duration::from_secs(5);
/// Number of renewals after which all channels are announced again.
const PLACE_RENEWALS: u32 = 36;

/// The settings of nodes with shared channels.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// The Redis that all nodes share.
    pub redis: redis::Settings,
    /// Prefix of every key in Redis.
    pub prefix: String,
    /// Number of replicas that must confirm each attach; `None` means half of the replicas that Sentinel knows, rounded up, and
    /// 0 without Sentinel.
    pub min_replicas: Option<usize>,
    /// The address to listen on for other nodes; port 0 takes a free one.
    pub listen: std::net::SocketAddr,
    /// The address by which the others reach it; by default the one it listens on.
    pub advertise: Option<String>,
    /// The files by which nodes know each other.
    pub files: NodeFiles,
    /// Opens the streams to other nodes; the system's network if `None`. A simulation sets it. The node then binds no socket:
    /// it gets the connections of others by [`Server::accept_node`](crate::server::Server::accept_node).
    pub dialer: Option<Dialer>,
}

/// The node that has a channel.
pub(crate) enum ChannelNode {
    Here,
    There(Place),
}

/// This node among the others.
pub(crate) struct Nodes {
    pub(crate) identity: Arc<Identity>,
    directory: Directory,
    dialer: Option<Dialer>,
    /// Notified when a bucket has another epoch.
    changed: Notify,
}

impl Nodes {
    /// Reads the certificates, connects to Redis, and announces that this node listens at `bound`.
    pub(crate) async fn join(
        sharing: Sharing,
        bound: std::net::SocketAddr,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let at_s = now_s(&*clock);
        let identity = Arc::new(Identity::load(&sharing.files, clock).await?);
        redis::check_prefix(&sharing.prefix).map_err(|err| format!("--redis-prefix: {err}"))?;
        let address = sharing.advertise.unwrap_or_else(|| bound.to_string());
        let directory = Directory::new(sharing.redis, sharing.prefix, sharing.min_replicas, address)?;
        directory.begin(at_s).await.map_err(|err| format!("--redis-url: {}: {err}", directory.name()))?;
        Ok(Nodes { identity, directory, dialer: sharing.dialer, changed: Notify::new() })
    }

    /// Takes a token, and returns the node of its channel.
    pub(crate) async fn admit(
        &self,
        token: TokenKey,
        claims: &Claims,
        channel: &ChannelKey,
        now_s: i64,
    ) -> Result<ChannelNode, CloseCause> {
        let admitted = self.directory.admit(token, claims, channel, now_s).await;
        if self.directory.has_new_epoch() {
            self.changed.notify_one();
        }
        match admitted {
            Ok(Outcome::Here) => Ok(ChannelNode::Here),
            Ok(Outcome::There(place)) => Ok(ChannelNode::There(place)),
            Ok(Outcome::Replayed) => Err(CloseCause::TokenReplay),
            Ok(Outcome::Doubtful) | Err(_) => Err(CloseCause::NodeUnavailable),
        }
    }

    /// Announces that this node leaves.
    pub(crate) async fn leave(&self) {
        self.directory.leave().await;
    }
}

/// Renews the announcements of this node until it stops.
pub(crate) async fn renew(relay: Arc<Relay>, shutdown: Shutdown) {
    let Some(nodes) = &relay.nodes else { return };
    let mut renewals: u32 = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(RENEW) => renewals = renewals.wrapping_add(1),
            () = nodes.changed.notified() => {}
            () = shutdown.begun() => return,
        }
        if relay.is_draining.load(Ordering::Acquire) {
            // It has announced that it leaves: nobody may be sent here again.
            return;
        }
        // A failure is logged, and its effect shows at the next attach.
        nodes.directory.follow().await;
        nodes.directory.renew(relay.now_s()).await;
        // Another memory may lack the channels of this node. Its floor rejects their tokens until they are there.
        if nodes.directory.has_new_epoch() || renewals.is_multiple_of(PLACE_RENEWALS) {
            let _ = nodes.directory.announce(&relay.channels.keys()).await;
        }
    }
}
