//! `upstreams:` of the configuration.

use std::collections::BTreeMap;

use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use crate::upstream::UpstreamLimits;

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

#[derive(Clone, Debug)]
pub(super) enum CheckedTarget {
    Http(http::uri::Authority),
    Demo,
}

pub(super) fn resolve(
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
