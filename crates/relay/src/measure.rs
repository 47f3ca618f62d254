//! Metrics: `sealway_relay_*`, and on demand v1's names beside them.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use sealway_proto::relay::CloseCause;

use crate::settings::Limits;

/// Causes for which an endpoint is rejected and that deploy/prometheus/rules.yaml counts or alerts on.
const REJECTIONS: [CloseCause; 8] = [
    CloseCause::InvalidToken,
    CloseCause::ChannelMismatch,
    CloseCause::RoleMismatch,
    CloseCause::TokenReplay,
    CloseCause::TooManyConnections,
    CloseCause::AttachFailed,
    CloseCause::ReplayFull,
    CloseCause::NodeUnavailable,
];

/// Handles of frequent counters, created once.
pub(crate) struct Measures {
    connections: [Option<Gauge>; 2],
    channels: [Option<Gauge>; 2],
    pair_seconds: [Option<Histogram>; 2],
    encrypted: [Option<Counter>; 2],
    pub(crate) bytes: Counter,
    pub(crate) messages: Counter,
    waiting_bytes: Gauge,
    replays: Gauge,
    is_compat: bool,
}

impl Measures {
    /// Creates the handles, the counters of rejections at 0 (a scraper sees no increment of a counter that begins with it), and
    /// the gauges of bounds.
    pub(crate) fn new(is_compat: bool, limits: &Limits) -> Self {
        for cause in REJECTIONS {
            let _ = attach("fail", cause.token());
        }
        gauge!("sealway_relay_waiting_bytes_max").set(limits.waiting_bytes_max as f64);
        gauge!("sealway_relay_remembered_tokens_max").set(limits.replays_max as f64);
        Measures {
            connections: [
                Some(gauge!("sealway_relay_connections")),
                is_compat.then(|| gauge!("flowersec_tunnel_connections")),
            ],
            channels: [Some(gauge!("sealway_relay_channels")), is_compat.then(|| gauge!("flowersec_tunnel_channels"))],
            pair_seconds: [
                Some(histogram!("sealway_relay_pair_latency_seconds")),
                is_compat.then(|| histogram!("flowersec_tunnel_pair_latency_seconds")),
            ],
            encrypted: [
                Some(counter!("sealway_relay_encrypted_total")),
                is_compat.then(|| counter!("flowersec_tunnel_encrypted_total")),
            ],
            bytes: counter!("sealway_relay_forwarded_bytes_total"),
            messages: counter!("sealway_relay_forwarded_messages_total"),
            waiting_bytes: gauge!("sealway_relay_waiting_bytes"),
            replays: gauge!("sealway_relay_remembered_tokens"),
            is_compat,
        }
    }

    /// Sets the gauges to the current numbers.
    pub(crate) fn set(&self, connections: usize, channels: usize, waiting_bytes: usize, replays: usize) {
        self.connections.iter().flatten().for_each(|gauge| gauge.set(connections as f64));
        self.channels.iter().flatten().for_each(|gauge| gauge.set(channels as f64));
        self.waiting_bytes.set(waiting_bytes as f64);
        self.replays.set(replays as f64);
    }

    /// Counts an endpoint that attached, or was rejected.
    pub(crate) fn attach(&self, refused: Option<CloseCause>) {
        let (result, reason) = match refused {
            None => ("ok", "ok"),
            Some(cause) => ("fail", attach_reason(cause, self.is_compat)),
        };
        attach(result, refused.map_or("ok", CloseCause::token)).increment(1);
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
        self.pair_seconds.iter().flatten().for_each(|histogram| histogram.record(seconds));
    }

    pub(crate) fn encrypted(&self) {
        self.encrypted.iter().flatten().for_each(|counter| counter.increment(1));
    }
}

fn attach(result: &'static str, reason: &'static str) -> Counter {
    counter!("sealway_relay_attach_total", "result" => result, "reason" => reason)
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
