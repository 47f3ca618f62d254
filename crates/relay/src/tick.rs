//! The timed work of all connections and channels in one task: no connection has a timer of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sealway_proto::relay::CloseCause;
use sealway_runtime::shutdown::Shutdown;

use crate::conn::Conn;
use crate::relay::Relay;

/// Number of keepalive periods after which a silent endpoint is closed.
const KEEPALIVE_TIMES: u64 = 3;
/// Interval between two checks of the keyset file, in ticks.
const KEYSET_TICKS: u32 = 2;

/// Runs until the relay has stopped.
pub(crate) async fn run(relay: Arc<Relay>, shutdown: Shutdown) {
    let mut interval = tokio::time::interval(relay.settings.limits.tick);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ticks: u32 = 0;
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = shutdown.aborted() => return,
        }
        tick(&relay);
        ticks = ticks.wrapping_add(1);
        if ticks.is_multiple_of(KEYSET_TICKS) {
            relay.keys.reload_if_changed();
        }
        if shutdown.has_begun() && relay.conns.len() == 0 {
            return;
        }
    }
}

fn tick(relay: &Relay) {
    let (now_ms, now_s) = (relay.now_ms(), relay.now_s());
    let limits = &relay.settings.limits;
    relay.replays.sweep(now_s);
    let idle_ms = ms(limits.idle_timeout);
    for cause in relay.channels.sweep(now_ms, now_s, idle_ms) {
        relay.measures.close(cause);
    }
    let (write_ms, keepalive_ms) = (ms(limits.write_timeout), ms(limits.keepalive));
    relay.conns.each(|conn| look_at(conn, now_ms, write_ms, keepalive_ms));
    let channels = relay.channels.len();
    relay.measures.set(relay.conns.len(), channels, relay.budget.used(), relay.replays.len());
}

fn look_at(conn: &Arc<Conn>, now_ms: u64, write_ms: u64, keepalive_ms: u64) {
    if now_ms >= conn.deadline_ms.load(Ordering::Relaxed) {
        // A connection that is late with its attach message gets a close frame; one that is late with its own end has no
        // reader.
        if conn.is_ending() {
            conn.kill(CloseCause::Closed);
        } else if !conn.is_attached.load(Ordering::Relaxed) {
            conn.close(CloseCause::AttachTimeout);
        }
        return;
    }
    if conn.stalled_ms(now_ms) >= write_ms {
        conn.kill(CloseCause::WriteError);
        return;
    }
    if conn.is_ending() || !conn.is_attached.load(Ordering::Relaxed) {
        return;
    }
    let silent_ms = now_ms.saturating_sub(conn.seen_ms.load(Ordering::Relaxed));
    if silent_ms >= keepalive_ms.saturating_mul(KEEPALIVE_TIMES) {
        conn.kill(CloseCause::KeepaliveTimeout);
    } else if silent_ms >= keepalive_ms && now_ms.saturating_sub(conn.pinged_ms.load(Ordering::Relaxed)) >= keepalive_ms
    {
        conn.ping(now_ms);
    }
}

/// Converts a time to milliseconds.
pub(crate) fn ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
