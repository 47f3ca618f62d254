//! Section `upstreams:` of the configuration.

use std::collections::BTreeMap;
use std::path::Path;

use http::uri::PathAndQuery;
use sealway_runtime::config::{FilePath, Flag, Number, Problems, Within};
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
    /// 1 to 64 of `http://HOST:PORT`, `https://HOST:PORT`, `unix:/PATH`, without path or user; or `demo:` alone, the
    /// built-in demo service. Plain servers and servers with TLS may stand side by side.
    servers: Vec<String>,
    /// Order of servers: one after the other, or the server with the fewest requests in flight.
    balance: Option<Balance>,
    /// Version of HTTP. `auto` is what TLS agrees on, and HTTP/1.1 in plain; `http2` in plain uses prior knowledge.
    protocol: Option<Protocol>,
    /// TLS towards `https://` servers.
    tls: Option<RawTls>,
    /// Health checks of every server.
    health: Option<RawHealth>,
    /// Deadlines of connections and answers.
    timeouts: Option<RawTimeouts>,
    /// HTTP/1.1 connections at once to each server.
    connections_max: Number<usize, { UpstreamLimits::DEFAULT.connections_max as u64 }, 1, CONNECTIONS_MAX>,
    /// Requests that may wait for a connection, for each server. Once half of the places are taken, an IPv4 address or an
    /// IPv6 /64 has a quarter of them at most. Over it: 503 with `Retry-After`.
    queue_max: Number<usize, { UpstreamLimits::DEFAULT.queue_max as u64 }, 0, CONNECTIONS_MAX>,
    /// Idle connections kept to each server.
    idle_connections_max: Number<usize, { UpstreamLimits::DEFAULT.idle_connections_max as u64 }, 0, CONNECTIONS_MAX>,
    /// Requests whose bodies still arrive while they hold a connection; requests that are whole, or fit into
    /// `limits.body_ahead_bytes` with their announced length, do not count. A body without a place has 5 s to be there
    /// whole. Over it: 503 with `Retry-After`.
    /// - default: half of `connections_max`, times the servers
    uploads_max: Within<u64, 1, { u64::MAX }>,
    /// The same for one client: an IPv4 address, an IPv6 /64. Behind a proxy the client is known from `trusted_proxies`
    /// alone.
    /// - default: a quarter of `uploads_max`, at least 16
    uploads_per_address_max: Within<u64, 1, { u64::MAX }>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawTls {
    /// Authorities that verify `https://` servers, in PEM.
    /// - default: the system's
    ca: Option<FilePath>,
    /// Accepts the system's authorities beside `ca`.
    system_roots: Flag<false>,
    /// Certificate for servers that request one: PEM, or PKCS#12.
    cert: Option<FilePath>,
    /// Its key, in PEM.
    /// - default: in `cert`
    key: Option<FilePath>,
    /// Password of a PKCS#12 file, one line.
    password_file: Option<FilePath>,
    /// Name that a server's certificate must have.
    /// - default: the host in `servers`
    server_name: Option<String>,
    /// Password of a process without a file for it.
    #[serde(skip)]
    password: Option<Secret>,
}

impl RawUpstream {
    /// Sets the password of a PKCS#12 file that does not come from a file.
    pub fn set_tls_password(&mut self, password: &Secret) {
        if let Some(tls) = &mut self.tls {
            tls.password = Some(password.clone());
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawHealth {
    /// Requested by `GET` at every server; 2xx is healthy.
    /// - type: path of a URL
    path: String,
    /// Interval between two checks.
    interval_ms: Number<u64, 5000, 10, 3_600_000>,
    /// Time that an answer may take.
    timeout_ms: Number<u64, 2000, 10, 3_600_000>,
    /// Good answers in a row that bring a server back.
    healthy: Number<u32, 2, 1, 100>,
    /// Bad answers in a row that take a server out.
    unhealthy: Number<u32, 3, 1, 100>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawTimeouts {
    /// Time until a connection stands, TLS included, and that a request waits for one when all are in use. No connection:
    /// 504; none to spare: 503.
    connect_ms: Number<u64, { UpstreamLimits::DEFAULT.connect_ms }, 1, 3_600_000>,
    /// Time until the answer's head, from when the service was last sent a part of the request; and again for the body of
    /// an answer that is sealed. Over it: 504.
    response_ms: Number<u64, { UpstreamLimits::DEFAULT.response_ms }, 1, 3_600_000>,
    /// Time that an answer, or a connection that was upgraded, may stand still; idle connections are kept as long.
    idle_ms: Number<u64, { UpstreamLimits::DEFAULT.idle_ms }, 1, 3_600_000>,
}

/// Maximum number of connections, and of waiting requests, that may be configured for a server.
const CONNECTIONS_MAX: u64 = 100_000;
/// Minimum number of uploads at once that an address may have by default, as far as the service takes so many.
const UPLOADS_PER_ADDRESS_MIN: u64 = 16;

/// An upstream after its checks.
#[derive(Clone, Debug)]
pub(super) struct CheckedUpstream {
    /// Servers; `None` for the demo service.
    pub(super) servers: Option<Vec<ServerAddress>>,
    pub(super) settings: UpstreamSettings,
    /// TLS files for servers that are reached over TLS.
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
        if upstream.servers.is_empty() || upstream.servers.len() > SERVERS_MAX {
            let expected = "servers: http://HOST:PORT, https://HOST:PORT or unix:/PATH; or demo: alone";
            problems.add(format!("{at}.servers"), format!("expected 1 to {SERVERS_MAX} {expected}"));
            continue;
        }
        let servers = (*upstream.servers != ["demo:"]).then(|| resolve_servers(&at, &upstream.servers, problems));
        let tls = resolve_tls(&at, upstream, servers.as_deref().unwrap_or_default(), file, problems);
        upstreams.insert(name.clone(), CheckedUpstream { servers, settings, tls });
    }
    upstreams
}

fn resolve_servers(at: &str, servers: &[String], problems: &mut Problems) -> Vec<ServerAddress> {
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
    checked
}

/// Checks the TLS settings. By default servers are verified by the system's authorities.
fn resolve_tls(
    at: &str,
    raw: &RawUpstream,
    servers: &[ServerAddress],
    file: Option<&Path>,
    problems: &mut Problems,
) -> Option<ClientFiles> {
    if !servers.iter().any(ServerAddress::is_tls) {
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
        system_roots: tls.system_roots.get(),
        cert: path("cert", &tls.cert),
        key: path("key", &tls.key),
        password_file: path("password_file", &tls.password_file),
        password: tls.password,
        server_name: tls.server_name,
        tls13_only: false,
    })
}

fn resolve_limits(at: &str, raw: &RawUpstream, problems: &mut Problems) -> UpstreamLimits {
    let timeouts = raw.timeouts.clone().unwrap_or_default();
    let connections_max = raw.connections_max.check(&format!("{at}.connections_max"), problems);
    // Half of all connections: the other half is for requests that are whole.
    let half = (connections_max * raw.servers.len() / 2).max(1) as u64;
    let uploads_max = raw.uploads_max.check_or(&format!("{at}.uploads_max"), half, problems);
    let share = (uploads_max / 4).max(UPLOADS_PER_ADDRESS_MIN).min(uploads_max);
    let per_address = format!("{at}.uploads_per_address_max");
    UpstreamLimits {
        connect_ms: timeouts.connect_ms.check(&format!("{at}.timeouts.connect_ms"), problems),
        response_ms: timeouts.response_ms.check(&format!("{at}.timeouts.response_ms"), problems),
        idle_ms: timeouts.idle_ms.check(&format!("{at}.timeouts.idle_ms"), problems),
        connections_max,
        queue_max: raw.queue_max.check(&format!("{at}.queue_max"), problems),
        idle_connections_max: raw.idle_connections_max.check(&format!("{at}.idle_connections_max"), problems),
        uploads_max,
        uploads_per_address_max: raw.uploads_per_address_max.check_or(&per_address, share, problems),
    }
}

fn resolve_health(at: &str, raw: &RawHealth, problems: &mut Problems) -> Option<HealthSettings> {
    let at = format!("{at}.health");
    let expected = || format!("\"{}\" is no path, such as /health", raw.path);
    let path = if raw.path.starts_with('/') { raw.path.parse::<PathAndQuery>().ok() } else { None };
    let path = problems.take(format!("{at}.path"), path.ok_or_else(expected));
    let interval = raw.interval_ms.millis(&format!("{at}.interval_ms"), problems);
    let timeout = raw.timeout_ms.millis(&format!("{at}.timeout_ms"), problems);
    let healthy = raw.healthy.check(&format!("{at}.healthy"), problems);
    let unhealthy = raw.unhealthy.check(&format!("{at}.unhealthy"), problems);
    Some(HealthSettings { path: path?, interval, timeout, healthy, unhealthy })
}
