//! `upstreams:` of the configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use sealway_runtime::config::Problems;
use sealway_runtime::tls::{ClientFiles, Secret};
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::pki_types::ServerName;

use crate::upstream::{
    Balance, HealthSettings, Protocol, SERVERS_MAX, ServerAddress, UpstreamLimits, UpstreamSettings,
};

/// An entry of `upstreams:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawUpstream {
    servers: Vec<String>,
    balance: Option<Balance>,
    protocol: Option<Protocol>,
    tls: Option<RawTls>,
    health: Option<RawHealth>,
    timeouts: Option<RawTimeouts>,
    connections_max: Option<usize>,
    queue_max: Option<usize>,
    idle_connections_max: Option<usize>,
    uploads_max: Option<u64>,
    uploads_per_address_max: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawTls {
    ca: Option<String>,
    system_roots: Option<bool>,
    cert: Option<String>,
    key: Option<String>,
    password_file: Option<String>,
    server_name: Option<String>,
    /// Where nobody could write a file with it.
    #[serde(skip)]
    password: Option<Secret>,
}

impl RawUpstream {
    /// The password of a PKCS#12 file that was not configured by a file.
    pub fn set_tls_password(&mut self, password: &Secret) {
        if let Some(tls) = &mut self.tls {
            tls.password = Some(password.clone());
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawHealth {
    path: String,
    interval_ms: Option<u64>,
    timeout_ms: Option<u64>,
    healthy: Option<u32>,
    unhealthy: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawTimeouts {
    connect_ms: Option<u64>,
    response_ms: Option<u64>,
    idle_ms: Option<u64>,
}

/// An address may send as many bodies at once to a small service, as far as that takes so many.
const UPLOADS_PER_ADDRESS_MIN: u64 = 16;

#[derive(Clone, Debug)]
pub(super) enum CheckedTarget {
    Servers(Vec<ServerAddress>),
    Demo,
}

/// An upstream, checked.
#[derive(Clone, Debug)]
pub(super) struct CheckedUpstream {
    pub(super) target: CheckedTarget,
    pub(super) settings: UpstreamSettings,
    /// For servers that are reached over TLS.
    pub(super) tls: Option<ClientFiles>,
}

pub(super) fn resolve(
    raw: &BTreeMap<String, RawUpstream>,
    file: Option<&Path>,
    problems: &mut Problems,
) -> BTreeMap<String, CheckedUpstream> {
    let mut upstreams = BTreeMap::new();
    for (name, upstream) in raw {
        let at = format!("upstreams.{name}");
        let settings = UpstreamSettings {
            name: name.clone(),
            balance: upstream.balance.unwrap_or_default(),
            protocol: upstream.protocol.unwrap_or_default(),
            tls: None,
            health: upstream.health.as_ref().and_then(|health| resolve_health(&at, health, problems)),
            limits: resolve_limits(&at, upstream, problems),
        };
        if let Some(target) = resolve_servers(&at, &upstream.servers, problems) {
            let tls = resolve_tls(&at, upstream, &target, file, problems);
            upstreams.insert(name.clone(), CheckedUpstream { target, settings, tls });
        }
    }
    upstreams
}

fn resolve_servers(at: &str, servers: &[String], problems: &mut Problems) -> Option<CheckedTarget> {
    if let [server] = servers
        && server == "demo:"
    {
        return Some(CheckedTarget::Demo);
    }
    if servers.is_empty() || servers.len() > SERVERS_MAX {
        let expected = "servers: http://HOST:PORT, https://HOST:PORT or unix:/PATH; or demo: alone";
        problems.add(format!("{at}.servers"), format!("expected 1 to {SERVERS_MAX} {expected}"));
        return None;
    }
    let mut checked: Vec<ServerAddress> = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let path = format!("{at}.servers[{index}]");
        if server == "demo:" {
            problems.add(&path, "demo: stands alone");
        } else if let Some(address) = problems.take(&path, ServerAddress::parse(server)) {
            if checked.iter().any(|other| other.is_same(&address)) {
                problems.add(&path, format!("\"{server}\" stands twice"));
            }
            checked.push(address);
        }
    }
    Some(CheckedTarget::Servers(checked))
}

/// Without settings servers over TLS are verified by the system's authorities.
fn resolve_tls(
    at: &str,
    raw: &RawUpstream,
    target: &CheckedTarget,
    file: Option<&Path>,
    problems: &mut Problems,
) -> Option<ClientFiles> {
    let is_tls = matches!(target, CheckedTarget::Servers(servers) if servers.iter().any(ServerAddress::is_tls));
    if !is_tls {
        if raw.tls.is_some() {
            problems.add(format!("{at}.tls"), "no server of it is reached over https://");
        }
        return None;
    }
    let tls = raw.tls.clone().unwrap_or_default();
    if tls.cert.is_none() && (tls.key.is_some() || tls.password_file.is_some()) {
        problems.add(format!("{at}.tls.cert"), "a key or a password without a certificate");
    }
    if let Some(name) = &tls.server_name
        && ServerName::try_from(name.as_str()).is_err()
    {
        problems.add(format!("{at}.tls.server_name"), format!("\"{name}\" is neither a DNS name nor an IP address"));
    }
    let mut path = |name: &str, text: &Option<String>| {
        text.as_ref().map(|text| problems.file(&format!("{at}.tls.{name}"), file, text))
    };
    Some(ClientFiles {
        ca: path("ca", &tls.ca),
        system_roots: tls.system_roots.unwrap_or(false),
        cert: path("cert", &tls.cert),
        key: path("key", &tls.key),
        password_file: path("password_file", &tls.password_file),
        password: tls.password,
        server_name: tls.server_name,
    })
}

fn resolve_limits(at: &str, raw: &RawUpstream, problems: &mut Problems) -> UpstreamLimits {
    let defaults = UpstreamLimits::default();
    let timeouts = raw.timeouts.clone().unwrap_or_default();
    let mut ms =
        |key: &str, value, default| problems.bounded(&format!("{at}.timeouts.{key}"), value, default, 1..=3_600_000);
    let connect_ms = ms("connect_ms", timeouts.connect_ms, defaults.connect_ms);
    let response_ms = ms("response_ms", timeouts.response_ms, defaults.response_ms);
    let idle_ms = ms("idle_ms", timeouts.idle_ms, defaults.idle_ms);
    let mut bound =
        |key: &str, value, default, least| problems.bounded(&format!("{at}.{key}"), value, default, least..=100_000);
    let connections_max = bound("connections_max", raw.connections_max, defaults.connections_max, 1);
    let queue_max = bound("queue_max", raw.queue_max, defaults.queue_max, 0);
    let idle_connections_max =
        bound("idle_connections_max", raw.idle_connections_max, defaults.idle_connections_max, 0);
    // Half of all connections: the other half is for requests that are whole.
    let half = (connections_max * raw.servers.len() / 2).max(1) as u64;
    let uploads_max = problems.bounded(&format!("{at}.uploads_max"), raw.uploads_max, half, 1..=u64::MAX);
    let share = (uploads_max / 4).max(UPLOADS_PER_ADDRESS_MIN).min(uploads_max);
    let per_address = format!("{at}.uploads_per_address_max");
    let uploads_per_address_max = problems.bounded(&per_address, raw.uploads_per_address_max, share, 1..=u64::MAX);
    UpstreamLimits {
        connect_ms,
        response_ms,
        idle_ms,
        connections_max,
        queue_max,
        idle_connections_max,
        uploads_max,
        uploads_per_address_max,
    }
}

fn resolve_health(at: &str, raw: &RawHealth, problems: &mut Problems) -> Option<HealthSettings> {
    let at = format!("{at}.health");
    let expected = || format!("\"{}\" is no path, such as /health", raw.path);
    let path = if raw.path.starts_with('/') { raw.path.parse::<PathAndQuery>().ok() } else { None };
    let path = problems.take(format!("{at}.path"), path.ok_or_else(expected));
    let mut ms = |key: &str, value, default| {
        Duration::from_millis(problems.bounded(&format!("{at}.{key}"), value, default, 10..=3_600_000))
    };
    let interval = ms("interval_ms", raw.interval_ms, 5000);
    let timeout = ms("timeout_ms", raw.timeout_ms, 2000);
    let healthy = problems.bounded(&format!("{at}.healthy"), raw.healthy, 2, 1..=100);
    let unhealthy = problems.bounded(&format!("{at}.unhealthy"), raw.unhealthy, 3, 1..=100);
    Some(HealthSettings { path: path?, interval, timeout, healthy, unhealthy })
}
