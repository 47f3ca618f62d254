//! Subscription to revocations. Without a connection some may be missed, so cached sessions are cleared at every new
//! subscription.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use sealway_proto::wire::SessionId;
use sealway_runtime::redis::{Trouble, listen};

use super::Inner;

const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Interval of pings: a connection that died silently would miss revocations.
const PING: Duration = Duration::from_millis(500);

/// Listens until the store is dropped.
pub(super) async fn run(shared: Arc<Inner>) {
    let mut backoff = BACKOFF_MIN;
    let mut told = None;
    for turn in 0.. {
        let err = match hear(&shared, turn, &mut backoff).await {
            Ok(()) => Trouble::Away("the connection broke".into()),
            Err(err) => err,
        };
        if told.as_ref() != Some(&err) {
            tracing::warn!(store = %shared.config.server.name(), %err, "not receiving revocations");
            told = Some(err);
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

async fn hear(shared: &Arc<Inner>, turn: usize, backoff: &mut Duration) -> Result<(), Trouble> {
    let (pubsub, node) = listen(&shared.config.server, turn).await?;
    let (mut sink, mut messages) = pubsub.split();
    let subscribed = tokio::time::timeout(shared.config.server.connect_timeout, sink.subscribe(shared.channel())).await;
    subscribed.map_err(|_| Trouble::Slow)??;
    // After the subscription is in force, so that a session fetched from now on cannot miss its revocation.
    shared.cache.clear();
    *backoff = BACKOFF_MIN;
    let mut ping = tokio::time::interval(PING);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // The ping first: a flood of messages must not keep it off.
            biased;
            _ = ping.tick() => {
                let answered = tokio::time::timeout(shared.config.server.deadline, sink.ping::<redis::Value>()).await;
                answered.map_err(|_| Trouble::Slow)??;
                // A former master that is cut off from the others still answers, and hears of nothing.
                let live = shared.live.load();
                if live.as_ref().and_then(|live| live.link.master()).is_some_and(|master| master.node != node) {
                    return Err(Trouble::Away("another server is the master now".into()));
                }
            }
            message = messages.next() => {
                let Some(message) = message else { return Ok(()) };
                if let Ok(id) = SessionId::parse(&String::from_utf8_lossy(message.get_payload_bytes())) {
                    shared.cache.revoke(&id);
                }
            }
        }
    }
}
