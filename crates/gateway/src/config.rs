//! `listeners:`, `routes:`, `upstreams:`, `cors:` and `limits:` of the configuration: as written, then checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use sealway_proto::crypto::Provider;
use sealway_proto::limits::SEALED_BODY_MAX_DEFAULT;
use sealway_runtime::clock::Clock;
use sealway_runtime::config::Problems;
use sealway_runtime::http::HttpLimits;
use sealway_runtime::listener::parse_address;
use sealway_sessions::Authority;
use serde::{Deserialize, Serialize};

use crate::cors::Cors;
use crate::demo::DemoService;
use crate::gateway::Gateway;
use crate::route::{Action, Forward, Route, Sealed};
use crate::upstream::{Target, Upstream, UpstreamLimits};

const BODY_MAX_DEFAULT: u64 = 16 * 1024 * 1024 * 1024;
/// Largest `sealed_body_max`.
const SEALED_BODY_MAX: usize = 64 * 1024 * 1024;
const BUFFERED_BYTES_DEFAULT: usize = 256 * 1024 * 1024;

/// One text, or several.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn list(value: Option<&Self>) -> Vec<String> {
        match value {
            None => Vec::new(),
            Some(OneOrMany::One(one)) => vec![one.clone()],
            Some(OneOrMany::Many(many)) => many.clone(),
        }
    }
}

/// An entry of `listeners:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawListener {
    name: Option<String>,
    address: String,
    /// What errors name instead of the path in the configuration: a flag.
    #[serde(skip)]
    setting: Option<String>,
}

impl RawListener {
    /// Listens on another port.
    pub fn set_port(&mut self, port: u16) {
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        self.address = format!("{host}:{port}");
    }

    /// Names the flag that the address came from.
    pub fn set_setting(&mut self, setting: &str) {
        self.setting = Some(setting.to_owned());
    }
}

/// An entry of `routes:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawRoute {
    #[serde(rename = "match")]
    matcher: RawMatch,
    sessions: Option<RawEmpty>,
    upstream: Option<String>,
    sealed: Option<Sealed>,
    content_type: Option<String>,
    sealed_body_max: Option<usize>,
    body_max: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawMatch {
    listener: Option<OneOrMany>,
    path: Option<OneOrMany>,
    path_prefix: Option<OneOrMany>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawEmpty {}

/// An entry of `upstreams:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawUpstream {
    servers: Vec<String>,
    timeouts: Option<RawTimeouts>,
    idle_connections_max: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawTimeouts {
    connect_ms: Option<u64>,
    response_ms: Option<u64>,
    idle_ms: Option<u64>,
}

/// `cors:` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawCors {
    origins: Option<Vec<String>>,
    max_age_sec: Option<u32>,
}

/// `limits:` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawLimits {
    connections_max: Option<usize>,
    header_bytes_max: Option<usize>,
    header_timeout_ms: Option<u64>,
    body_idle_ms: Option<u64>,
    streams_max: Option<u32>,
    buffered_bytes_max: Option<usize>,
    drain_ms: Option<u64>,
    stop_delay_ms: Option<u64>,
}

/// The sections together, as written.
#[derive(Clone, Copy, Debug)]
pub struct RawGateway<'a> {
    /// `listeners:`
    pub listeners: &'a [RawListener],
    /// `routes:`
    pub routes: &'a [RawRoute],
    /// `upstreams:`
    pub upstreams: &'a BTreeMap<String, RawUpstream>,
    /// `cors:`
    pub cors: &'a RawCors,
    /// `limits:`
    pub limits: &'a RawLimits,
}

/// A listener, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name, or its place.
    pub name: Arc<str>,
    /// Its path in the configuration, for errors.
    pub setting: String,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
}

impl Listener {
    /// Whether `other` is the same listener to those who connect; where it is written does not matter.
    pub fn serves_as(&self, other: &Listener) -> bool {
        self.name == other.name && self.addresses == other.addresses
    }
}

#[derive(Clone, Debug)]
enum CheckedTarget {
    Http(http::uri::Authority),
    Demo,
}

#[derive(Clone, Debug)]
struct CheckedRoute {
    listeners: Vec<Arc<str>>,
    paths: Vec<String>,
    path_prefixes: Vec<String>,
    /// `None` is the session authority.
    forward: Option<CheckedForward>,
}

#[derive(Clone, Debug)]
struct CheckedForward {
    upstream: String,
    sealed: Sealed,
    content_type: HeaderValue,
    sealed_body_max: usize,
    body_max: u64,
}

/// Checked.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Where to listen.
    pub listeners: Vec<Listener>,
    /// Bounds on connections.
    pub http: HttpLimits,
    /// How long draining may take.
    pub drain: Duration,
    /// How long before draining everything is still served, while `/ready` says that this process is stopping.
    pub stop_delay: Duration,
    body_idle: Duration,
    buffered_bytes_max: usize,
    cors: Cors,
    upstreams: BTreeMap<String, (CheckedTarget, UpstreamLimits)>,
    routes: Vec<CheckedRoute>,
}

/// Checks the sections.
pub fn resolve(raw: RawGateway<'_>, problems: &mut Problems) -> GatewayConfig {
    let listeners = resolve_listeners(raw.listeners, problems);
    let upstreams = resolve_upstreams(raw.upstreams, problems);
    if raw.routes.is_empty() {
        problems.add("routes", "expected at least one route");
    }
    let routes = raw
        .routes
        .iter()
        .enumerate()
        .map(|(index, route)| resolve_route(index, route, &listeners, raw.upstreams, problems))
        .collect();
    let cors = Cors::new(raw.cors.origins.as_deref().unwrap_or_default(), raw.cors.max_age_sec.unwrap_or(600));
    let cors = match cors {
        Ok(cors) => cors,
        Err((index, why)) => {
            problems.add(format!("cors.origins[{index}]"), why);
            Cors::default()
        }
    };
    let defaults = HttpLimits::default();
    let limits = raw.limits;
    let mut ms = |name, value, default| {
        Duration::from_millis(problems.bounded(&format!("limits.{name}"), value, default, 1..=3_600_000))
    };
    let header_timeout = ms("header_timeout_ms", limits.header_timeout_ms, 30_000);
    let body_idle = ms("body_idle_ms", limits.body_idle_ms, 30_000);
    let drain = ms("drain_ms", limits.drain_ms, 30_000);
    let http = HttpLimits {
        connections_max: problems.bounded(
            "limits.connections_max",
            limits.connections_max,
            defaults.connections_max,
            1..=1_000_000,
        ),
        header_bytes_max: problems.bounded(
            "limits.header_bytes_max",
            limits.header_bytes_max,
            defaults.header_bytes_max,
            8192..=1024 * 1024,
        ),
        header_timeout,
        streams_max: problems.bounded("limits.streams_max", limits.streams_max, defaults.streams_max, 1..=10_000),
    };
    let stop_delay = problems.bounded("limits.stop_delay_ms", limits.stop_delay_ms, 0, 0..=3_600_000);
    let stop_delay = Duration::from_millis(stop_delay);
    let buffered_bytes_max = problems.bounded(
        "limits.buffered_bytes_max",
        limits.buffered_bytes_max,
        BUFFERED_BYTES_DEFAULT,
        2 * SEALED_BODY_MAX..=64 * 1024 * 1024 * 1024,
    );
    GatewayConfig { listeners, http, drain, stop_delay, body_idle, buffered_bytes_max, cors, upstreams, routes }
}

fn resolve_listeners(raw: &[RawListener], problems: &mut Problems) -> Vec<Listener> {
    if raw.is_empty() {
        problems.add("listeners", "expected at least one listener");
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for (index, listener) in raw.iter().enumerate() {
        let setting = format!("listeners[{index}]");
        let name: Arc<str> = listener.name.clone().unwrap_or_else(|| setting.clone()).into();
        let path = format!("{setting}.address");
        let addresses = problems.take(&path, parse_address(&listener.address)).unwrap_or_default();
        for other in &listeners {
            if other.name == name {
                problems.add(format!("{setting}.name"), format!("\"{name}\" stands twice"));
            }
            if addresses.iter().any(|address| address.port() != 0 && other.addresses.contains(address)) {
                problems.add(&path, format!("{} is also {}", listener.address, other.setting));
            }
        }
        listeners.push(Listener { name, setting: listener.setting.clone().unwrap_or(path), addresses });
    }
    listeners
}

fn resolve_upstreams(
    raw: &BTreeMap<String, RawUpstream>,
    problems: &mut Problems,
) -> BTreeMap<String, (CheckedTarget, UpstreamLimits)> {
    let defaults = UpstreamLimits::default();
    let mut upstreams = BTreeMap::new();
    for (name, upstream) in raw {
        let at = format!("upstreams.{name}");
        let timeouts = upstream.timeouts.clone().unwrap_or_default();
        let mut ms = |key: &str, value, default| {
            problems.bounded(&format!("{at}.timeouts.{key}"), value, default, 1..=3_600_000)
        };
        let limits = UpstreamLimits {
            connect_ms: ms("connect_ms", timeouts.connect_ms, defaults.connect_ms),
            response_ms: ms("response_ms", timeouts.response_ms, defaults.response_ms),
            idle_ms: ms("idle_ms", timeouts.idle_ms, defaults.idle_ms),
            idle_connections_max: problems.bounded(
                &format!("{at}.idle_connections_max"),
                upstream.idle_connections_max,
                defaults.idle_connections_max,
                1..=100_000,
            ),
        };
        let target = match upstream.servers.as_slice() {
            [server] if server == "demo:" => Some(CheckedTarget::Demo),
            [server] => problems.take(format!("{at}.servers[0]"), parse_server(server)).map(CheckedTarget::Http),
            _ => {
                problems.add(format!("{at}.servers"), "expected one server: http://HOST:PORT, or demo:");
                None
            }
        };
        if let Some(target) = target {
            upstreams.insert(name.clone(), (target, limits));
        }
    }
    upstreams
}

fn parse_server(text: &str) -> Result<http::uri::Authority, String> {
    let expected = || format!("\"{text}\" is no server, such as http://127.0.0.1:9000");
    let uri: http::Uri = text.parse().map_err(|_| expected())?;
    let bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
    match (uri.scheme_str(), uri.authority()) {
        (Some("http"), Some(authority)) if bare && !authority.as_str().contains('@') => Ok(authority.clone()),
        (Some("http"), Some(_)) => Err(format!("\"{text}\": a server has no path and no user; routes choose paths")),
        _ => Err(expected()),
    }
}

fn resolve_route(
    index: usize,
    raw: &RawRoute,
    listeners: &[Listener],
    upstreams: &BTreeMap<String, RawUpstream>,
    problems: &mut Problems,
) -> CheckedRoute {
    let at = format!("routes[{index}]");
    let paths = OneOrMany::list(raw.matcher.path.as_ref());
    let path_prefixes = OneOrMany::list(raw.matcher.path_prefix.as_ref());
    for path in paths.iter().chain(&path_prefixes) {
        if !path.starts_with('/') {
            problems.add(format!("{at}.match"), format!("\"{path}\" does not begin with /"));
        }
    }
    let mut on = Vec::new();
    for name in OneOrMany::list(raw.matcher.listener.as_ref()) {
        match listeners.iter().find(|listener| *listener.name == *name) {
            Some(listener) => on.push(listener.name.clone()),
            None => problems.add(format!("{at}.match.listener"), format!("no listener is named \"{name}\"")),
        }
    }
    let forward = match (&raw.sessions, &raw.upstream) {
        (Some(_), None) => {
            if raw.sealed.is_some()
                || raw.content_type.is_some()
                || raw.sealed_body_max.is_some()
                || raw.body_max.is_some()
            {
                problems.add(&at, "a route with sessions takes no other settings");
            }
            None
        }
        (None, Some(upstream)) => {
            if !upstreams.contains_key(upstream) {
                problems.add(format!("{at}.upstream"), format!("no upstream is named \"{upstream}\""));
            }
            let content_type = raw.content_type.as_deref().unwrap_or("application/json");
            let content_type = problems.take(
                format!("{at}.content_type"),
                HeaderValue::from_str(content_type).map_err(|_| "not a media type"),
            );
            Some(CheckedForward {
                upstream: upstream.clone(),
                sealed: raw.sealed.unwrap_or_default(),
                content_type: content_type.unwrap_or(HeaderValue::from_static("application/json")),
                sealed_body_max: problems.bounded(
                    &format!("{at}.sealed_body_max"),
                    raw.sealed_body_max,
                    SEALED_BODY_MAX_DEFAULT,
                    28..=SEALED_BODY_MAX,
                ),
                body_max: raw.body_max.unwrap_or(BODY_MAX_DEFAULT),
            })
        }
        _ => {
            problems.add(&at, "expected either sessions: {} or an upstream");
            None
        }
    };
    CheckedRoute { listeners: on, paths, path_prefixes, forward }
}

impl GatewayConfig {
    /// Sets up upstreams and routes.
    pub fn start(&self, authority: Arc<Authority>, provider: &'static dyn Provider, clock: &Arc<dyn Clock>) -> Gateway {
        let upstreams: BTreeMap<&str, Arc<Upstream>> = self
            .upstreams
            .iter()
            .map(|(name, (target, limits))| {
                let target = match target {
                    CheckedTarget::Http(authority) => Target::Http(authority.clone()),
                    CheckedTarget::Demo => Target::Demo(DemoService::new(provider, clock.clone())),
                };
                (name.as_str(), Arc::new(Upstream::new(target, *limits)))
            })
            .collect();
        let routes = self.routes.iter().enumerate().filter_map(|(index, route)| {
            let action = match &route.forward {
                None => Action::Sessions,
                Some(forward) => Action::Forward(Forward {
                    upstream: upstreams.get(forward.upstream.as_str())?.clone(),
                    sealed: forward.sealed,
                    content_type: forward.content_type.clone(),
                    sealed_body_max: forward.sealed_body_max,
                    body_max: forward.body_max,
                }),
            };
            Some(Route {
                name: format!("routes[{index}]"),
                listeners: route.listeners.clone(),
                paths: route.paths.clone(),
                path_prefixes: route.path_prefixes.clone(),
                action,
            })
        });
        Gateway::new(authority, routes.collect(), self.cors.clone(), self.body_idle, self.buffered_bytes_max)
    }
}
