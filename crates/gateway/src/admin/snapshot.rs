//! State of a process at a moment, and the samples of the last minutes, from which rates and percentiles are computed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sealway_proto::routes::Pattern;
use sealway_proto::wire::Wire;
use sealway_runtime::http::ConnectionInfo;
use sealway_runtime::process;
use sealway_sessions::answer::replays_refused;
use serde::Serialize;
use serde_json::{Value, json};

use super::Dashboard;
use super::counts::Counts as MetricCounts;
use crate::one_shot::ShownKey;
use crate::route::{Action, Route};
use crate::server::Server;
use crate::traffic::{Counts, Latency};

/// Interval between two samples.
const EVERY: Duration = Duration::from_secs(1);
/// Number of samples over which latency is computed.
const WINDOW: usize = 10;
/// Number of samples kept for charts.
const KEPT: usize = 180;

/// Measurements of one second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Sample {
    /// End of the second, in milliseconds since 1970.
    at_ms: u64,
    requests_per_second: f64,
    /// Latency over the last samples; `None` if nothing was answered.
    latency_us: Option<Latency>,
    /// Processor time, in percent of one processor.
    cpu_percent: f64,
}

/// The last samples, for charts.
#[derive(Debug)]
pub(super) struct Samples {
    began: Instant,
    kept: Mutex<VecDeque<Sample>>,
}

impl Default for Samples {
    fn default() -> Self {
        Samples { began: Instant::now(), kept: Mutex::default() }
    }
}

impl Samples {
    /// Returns all kept samples, the oldest first.
    pub(super) fn all(&self) -> Vec<Sample> {
        self.kept.lock().iter().copied().collect()
    }
}

impl Dashboard {
    /// Samples each second until stopping begins.
    pub(super) async fn sample(self) {
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + EVERY, EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let server = &self.0.server;
        let mut counts = VecDeque::from([Arc::new(Counts::default())]);
        let mut before = (Instant::now(), process::processor_time(), 0);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = server.shutdown().begun() => return,
            }
            let now = (Instant::now(), process::processor_time(), server.traffic().counts());
            let seconds = now.0.duration_since(before.0).as_secs_f64().max(0.001);
            let used = now.1.zip(before.1).map_or(0.0, |(now, before)| now.saturating_sub(before).as_secs_f64());
            let (total, latest) = (now.2.total(), Arc::new(now.2));
            let sample = Sample {
                at_ms: server.now_ms(),
                requests_per_second: (total - before.2) as f64 / seconds,
                latency_us: counts.front().and_then(|first| latest.latency_since(first)),
                cpu_percent: 100.0 * used / seconds,
            };
            before = (now.0, now.1, total);
            counts.push_back(latest);
            if counts.len() > WINDOW {
                counts.pop_front();
            }
            let mut kept = self.0.samples.kept.lock();
            kept.push_back(sample);
            if kept.len() > KEPT {
                kept.pop_front();
            }
        }
    }

    /// Returns the counts of requests and rejections from the metrics.
    pub(super) fn counts(&self) -> MetricCounts {
        MetricCounts::read(&self.0.sessions.metrics())
    }

    /// Returns the state of the whole process as JSON.
    pub(super) fn snapshot(&self) -> Value {
        let server = &self.0.server;
        let sample = self.0.samples.kept.lock().back().copied().unwrap_or_default();
        let counts = server.traffic().counts();
        let metric_counts = self.counts();
        let [informed, fine, redirected, refused, failed] = counts.classes;
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "now_ms": server.now_ms(),
            "uptime_s": self.0.samples.began.elapsed().as_secs(),
            "health": health(server),
            "process": {
                "id": std::process::id(),
                "cpu_percent": sample.cpu_percent,
                "cores": std::thread::available_parallelism().map_or(1, usize::from),
                "resident_bytes": process::resident_bytes(),
                "descriptors": process::descriptors(),
                "descriptors_max": process::descriptors_max(),
            },
            "requests": {
                "per_second": sample.requests_per_second,
                "latency_us": sample.latency_us,
                "window_s": WINDOW,
                "total": counts.total(),
                "by_class": {"1xx": informed, "2xx": fine, "3xx": redirected, "4xx": refused, "5xx": failed},
            },
            "listeners": server.listeners(),
            "upstreams": upstreams(server),
            "certificates": server.certificates(),
            "certificates_folder": self.0.certificates.is_some(),
            "sessions": sessions(server),
            "identity_keys": identity_keys(server),
            "one_shot_keys": one_shot_keys(server, &metric_counts),
            "one_shot_opens": metric_counts.openings().collect::<Vec<_>>(),
            "routes": routes(server, &metric_counts),
            "refusals": metric_counts.refusals(),
            "reloads": server.reloads(),
            "services": *self.0.services.lock(),
        })
    }
}

/// Returns if sessions and sealed calls can be taken, else the reason.
fn health(server: &Server) -> Value {
    let authority = server.authority();
    let why = match (authority.is_stopping() || server.is_stopping(), authority.store().status().up) {
        (true, _) => Some("the process is stopping"),
        (false, false) => Some("the session store cannot take sessions and nonces"),
        (false, true) => None,
    };
    json!({"is_ready": why.is_none(), "why": why})
}

/// Returns an open connection as JSON.
pub(super) fn connection(info: &ConnectionInfo) -> Value {
    json!({
        "id": info.id,
        "peer": info.peer.to_string(),
        "open_for_s": info.open_for.as_secs(),
        "protocol": info.protocol,
        "requests": info.requests,
        "subject": info.subject.as_deref(),
    })
}

/// Returns upstreams and their servers as JSON.
pub(super) fn upstreams(server: &Server) -> Value {
    let gateway = server.gateway();
    let all = gateway.upstreams().iter();
    all.map(|upstream| json!({"name": upstream.name(), "servers": upstream.status()})).collect()
}

/// Returns the public data of the service's identity keys; empty without `sessions.identity`.
pub(super) fn identity_keys(server: &Server) -> Value {
    let identity = server.authority().identity();
    json!(identity.map(|identity| identity.shown(server.now_ms())).unwrap_or_default())
}

/// Public data of a key of a one-shot mode, with the number of requests to it.
#[derive(Serialize)]
struct UsedKey {
    #[serde(flatten)]
    key: ShownKey,
    requests: u64,
}

/// Returns the public data of the keys of one-shot modes.
fn one_shot_keys(server: &Server, counts: &MetricCounts) -> Value {
    let keys = server.gateway().one_shot().shown(server.now_ms()).into_iter();
    let used = keys.map(|key| UsedKey { requests: counts.to_key(key.name()), key });
    json!(used.collect::<Vec<_>>())
}

/// Returns the routes in their order, then the counts of requests that matched none.
pub(super) fn routes(server: &Server, counts: &MetricCounts) -> Value {
    let gateway = server.gateway();
    let unrouted = json!({"name": "none", "match": null, "action": "none", "requests": counts.requests("none")});
    gateway.routes().iter().map(|one| route(one, counts)).chain([unrouted]).collect()
}

fn route(route: &Route, counts: &MetricCounts) -> Value {
    let matcher = &route.matcher;
    let paths = |is_prefix| {
        let patterns = matcher.patterns.iter().filter(|pattern| pattern.is_prefix() == is_prefix);
        patterns.map(Pattern::path).collect::<Vec<_>>()
    };
    let (action, sealed) = match &route.action {
        Action::Sessions => ("sessions", None),
        Action::Forward(forward) => ("forward", Some(forward.policy.sealed)),
        Action::Standalone(_) => ("standalone", None),
        Action::Keys(_) => ("keys", None),
        Action::Ohttp(_) => ("ohttp gateway", None),
        Action::OhttpRelay(_) => ("ohttp relay", None),
    };
    json!({
        "name": route.name,
        "match": {
            "listener": matcher.listeners.iter().map(|name| &**name).collect::<Vec<_>>(),
            "host": matcher.hosts,
            "path": paths(false),
            "path_prefix": paths(true),
        },
        "action": action,
        "sealed": sealed,
        "upstream": Some(route.upstream()).filter(|name| !name.is_empty()),
        "requests": counts.requests(&route.name),
    })
}

/// Returns the state of the session store, without reading a session.
pub(super) fn sessions(server: &Server) -> Value {
    let status = server.authority().store().status();
    json!({
        "store": status.kind,
        "is_up": status.up,
        "count": status.sessions,
        "nonces": status.nonces.0 + status.nonces.1,
        "replays_refused": replays_refused(),
        "wires": wires(server),
    })
}

/// Returns the usage of each wire and the time of its last use, which show when its last client has gone.
fn wires(server: &Server) -> Value {
    let authority = server.authority();
    let wires = Wire::ALL.iter().map(|wire| {
        let used = authority.wire_use(*wire);
        let when = |ms: u64| (ms > 0).then_some(ms);
        json!({
            "wire": wire.number(),
            "is_served": authority.wires().has(*wire),
            "inits": used.inits,
            "calls": used.calls,
            "last_init_ms": when(used.last_init_ms),
            "last_call_ms": when(used.last_call_ms),
        })
    });
    wires.collect()
}
