//! Metrics: `sealway_relay_*`, and on demand v1's names beside them.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use sealway_proto::relay::CloseCause;

/// Handles of frequent counters, created once.
pub(crate) struct Measures {
    connections: Vec<Gauge>,
    channels: Vec<Gauge>,
    pair_seconds: Vec<Histogram>,
    encrypted: Vec<Counter>,
    pub(crate) bytes: Counter,
    pub(crate) messages: Counter,
    waiting_bytes: Gauge,
    replays: Gauge,
    is_compat: bool,
}

impl Measures {
    pub(crate) fn new(is_compat: bool) -> Self {
        let names = |ours: &'static str, v1: &'static str| [Some(ours), is_compat.then_some(v1)].into_iter().flatten();
        let gauges = |ours, v1| names(ours, v1).map(|name| gauge!(name)).collect();
        Measures {
            connections: gauges("sealway_relay_connections", "flowersec_tunnel_connections"),
            channels: gauges("sealway_relay_channels", "flowersec_tunnel_channels"),
            pair_seconds: names("sealway_relay_pair_latency_seconds", "flowersec_tunnel_pair_latency_seconds")
                .map(|name| histogram!(name))
                .collect(),
            encrypted: names("sealway_relay_encrypted_total", "flowersec_tunnel_encrypted_total")
                .map(|name| counter!(name))
                .collect(),
            bytes: counter!("sealway_relay_forwarded_bytes_total"),
            messages: counter!("sealway_relay_forwarded_messages_total"),
            waiting_bytes: gauge!("sealway_relay_waiting_bytes"),
            replays: gauge!("sealway_relay_remembered_tokens"),
            is_compat,
        }
    }

    /// Sets the gauges to the current numbers.
    pub(crate) fn set(&self, connections: usize, channels: usize, waiting_bytes: usize, replays: usize) {
        self.connections.iter().for_each(|gauge| gauge.set(connections as f64));
        self.channels.iter().for_each(|gauge| gauge.set(channels as f64));
        self.waiting_bytes.set(waiting_bytes as f64);
        self.replays.set(replays as f64);
    }

    /// Counts an endpoint that attached, or was rejected.
    pub(crate) fn attach(&self, refused: Option<CloseCause>) {
        let (result, reason) = match refused {
            None => ("ok", "ok"),
            Some(cause) => ("fail", attach_reason(cause, self.is_compat)),
        };
        counter!("sealway_relay_attach_total", "result" => result, "reason" => refused.map_or("ok", CloseCause::token))
            .increment(1);
        if self.is_compat {
            counter!("flowersec_tunnel_attach_total", "result" => result, "reason" => reason).increment(1);
        }
    }

    pub(crate) fn replace(&self, result: &'static str) {
        counter!("sealway_relay_replace_total", "result" => result).increment(1);
        if self.is_compat {
            counter!("flowersec_tunnel_replace_total", "result" => result).increment(1);
        }
    }

    /// Counts the end of a channel.
    pub(crate) fn close(&self, cause: CloseCause) {
        counter!("sealway_relay_close_total", "reason" => cause.token()).increment(1);
        if self.is_compat {
            counter!("flowersec_tunnel_close_total", "reason" => close_reason(cause)).increment(1);
        }
    }

    pub(crate) fn paired(&self, waited_ms: u64) {
        let seconds = waited_ms as f64 / 1000.0;
        self.pair_seconds.iter().for_each(|histogram| histogram.record(seconds));
    }

    pub(crate) fn encrypted(&self) {
        self.encrypted.iter().for_each(|counter| counter.increment(1));
    }
}

/// Returns the reason in the words of v1's relay, if that is on.
fn attach_reason(cause: CloseCause, is_compat: bool) -> &'static str {
    match cause {
        _ if !is_compat => cause.token(),
        CloseCause::AttachTooLarge | CloseCause::AttachTimeout | CloseCause::ProtocolError => "expected_attach",
        CloseCause::ReplaceRefused => "replace_rate_limited",
        CloseCause::InitExpMismatch
        | CloseCause::IdleTimeoutMismatch
        | CloseCause::ReplayFull
        | CloseCause::NodeUnavailable => "attach_failed",
        cause => cause.token(),
    }
}

fn close_reason(cause: CloseCause) -> &'static str {
    match cause {
        CloseCause::NonBinaryFrame
        | CloseCause::RecordTooLarge
        | CloseCause::PendingOverflow
        | CloseCause::WriteError
        | CloseCause::InitExpired
        | CloseCause::IdleTimeout => cause.token(),
        CloseCause::RelayFull => "pending_overflow",
        _ => "peer_closed",
    }
}
