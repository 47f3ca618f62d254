//! Section `ohttp:` of a route.

use std::collections::BTreeMap;

use sealway_runtime::config::{Flag, Number, Problems};
use serde::{Deserialize, Serialize};

use super::RawUpstream;
use super::one_shot::keeps_claims;
use super::routes::{CheckedAction, RawRoute, SEALED_BODY_MAX, resolve_forward};
use crate::ohttp::{DateRule, GatewayPolicy, RelayPolicy, Target};

const MIB: u64 = 1024 * 1024;

/// Section `ohttp:` of a route as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOhttp {
    /// `gateway` opens requests for its targets, without an upstream of its own; `relay` passes messages on to the one gateway
    /// behind `upstream`.
    /// - default: required
    role: RawRole,
    /// Of a gateway: each origin that requests may name, `HOST` or `HOST:PORT` of `https`, and the upstream that serves it.
    /// - type: origins to upstreams
    targets: Option<BTreeMap<String, String>>,
    /// Of a gateway: takes requests in chunks and answers them so.
    chunked: Flag<true>,
    /// Of a gateway: `required` rejects requests without a `Date` inside. With `optional` such a request is remembered for as long as its key
    /// is accepted.
    /// - default: `optional`
    date: Option<DateRule>,
    /// Of a gateway: longest request within that is not in chunks. Over it: 413.
    request_max: Number<usize, MIB, 64, SEALED_BODY_MAX>,
    /// Of a gateway: longest answer of a service to a request that is not in chunks. Over it: 502, inside.
    answer_max: Number<usize, MIB, 64, SEALED_BODY_MAX>,
    /// Of a gateway: length to whose multiples answers are filled up; 0 fills nothing up.
    padding: Number<usize, 0, 0, { 64 * 1024 }>,
    /// Of a gateway: requests a minute and address (IPv6: a /64), counted before a private key is used; 0: no limit. A relay sends from its own
    /// address for all of its clients, so a limit is one for the relay.
    opens_per_minute: Number<u32, 0, 0, { u32::MAX as u64 }>,
    /// Of a relay: the path of the gateway at `upstream`.
    /// - type: path of a URL
    gateway_path: Option<String>,
    /// Of a relay: allows a gateway in the same configuration. One operator of both sees who asks and what: for test rigs.
    allow_same_operator: Flag<false>,
}

/// The role of a route in Oblivious HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawRole {
    Gateway,
    Relay,
}

/// Checks a route of Oblivious HTTP.
pub(super) fn resolve(
    index: usize,
    raw: &RawRoute,
    upstream: Option<&String>,
    upstreams: &BTreeMap<String, RawUpstream>,
    problems: &mut Problems,
) -> Option<CheckedAction> {
    let at = format!("routes[{index}]");
    let ohttp = raw.ohttp.as_ref()?;
    match (ohttp.role, upstream) {
        (RawRole::Gateway, None) => Some(CheckedAction::Ohttp(resolve_gateway(index, ohttp, upstreams, problems))),
        (RawRole::Gateway, Some(_)) => {
            problems.add(format!("{at}.upstream"), "role: gateway has the upstreams of ohttp.targets");
            None
        }
        (RawRole::Relay, None) => {
            problems.add(format!("{at}.upstream"), "expected the upstream of the gateway that the relay is for");
            None
        }
        (RawRole::Relay, Some(upstream)) => {
            if !upstreams.contains_key(upstream) {
                problems.add(format!("{at}.upstream"), format!("no upstream is named \"{upstream}\""));
            }
            for name in raw.settings_of_upstreams() {
                if !["body_max", "uploads_max", "body_rate_min_bytes_per_sec"].contains(&name) {
                    problems.add(format!("{at}.{name}"), "a relay adds and passes on nothing; leave it out");
                }
            }
            let policy = resolve_forward(index, raw, problems);
            let relay = resolve_relay(index, ohttp, policy.body_max, problems)?;
            Some(CheckedAction::OhttpRelay(upstream.clone(), Box::new(policy), relay))
        }
    }
}

/// Checks the settings of a gateway; `index` is that of the route.
fn resolve_gateway(
    index: usize,
    raw: &RawOhttp,
    upstreams: &BTreeMap<String, RawUpstream>,
    problems: &mut Problems,
) -> GatewayPolicy {
    let at = format!("routes[{index}].ohttp");
    for (name, is_given) in [
        ("gateway_path", raw.gateway_path.is_some()),
        ("allow_same_operator", raw.allow_same_operator.given().is_some()),
    ] {
        if is_given {
            problems.add(format!("{at}.{name}"), "only role: relay takes this");
        }
    }
    let mut targets: Vec<(Target, String)> = Vec::new();
    for (origin, upstream) in raw.targets.iter().flatten() {
        let at = format!("{at}.targets.{origin}");
        let expected = "expected a host name with or without a port, such as api.example:443";
        let Some(target) = problems.take(&at, Target::parse(origin).ok_or(expected)) else { continue };
        if !upstreams.contains_key(upstream) {
            problems.add(&at, format!("no upstream is named \"{upstream}\""));
        }
        if targets.iter().any(|(other, _)| *other == target) {
            problems.add(&at, "it stands twice, in another spelling");
        }
        targets.push((target, upstream.clone()));
    }
    if raw.targets.as_ref().is_none_or(BTreeMap::is_empty) {
        problems.add(format!("{at}.targets"), "expected at least one target, such as { \"api.example:443\": api }");
    }
    GatewayPolicy {
        targets,
        takes_chunks: raw.chunked.get(),
        date: raw.date.unwrap_or_default(),
        request_max: raw.request_max.check(&format!("{at}.request_max"), problems),
        answer_max: raw.answer_max.check(&format!("{at}.answer_max"), problems),
        padding: raw.padding.check(&format!("{at}.padding"), problems),
        opens_per_minute: raw.opens_per_minute.check(&format!("{at}.opens_per_minute"), problems),
        route: index,
    }
}

/// Checks the settings of a relay; `message_max` is the route's bound on bodies.
fn resolve_relay(index: usize, raw: &RawOhttp, message_max: u64, problems: &mut Problems) -> Option<RelayPolicy> {
    let at = format!("routes[{index}].ohttp");
    for (name, is_given) in [
        ("targets", raw.targets.is_some()),
        ("chunked", raw.chunked.given().is_some()),
        ("date", raw.date.is_some()),
        ("request_max", raw.request_max.given().is_some()),
        ("answer_max", raw.answer_max.given().is_some()),
        ("padding", raw.padding.given().is_some()),
        ("opens_per_minute", raw.opens_per_minute.given().is_some()),
    ] {
        if is_given {
            problems.add(format!("{at}.{name}"), "only role: gateway takes this");
        }
    }
    let path = raw.gateway_path.as_deref().filter(|path| super::routes::is_path(path));
    let path = path.and_then(|path| path.parse().ok()).ok_or("expected the path of the gateway, such as /gateway");
    let gateway_path = problems.take(format!("{at}.gateway_path"), path)?;
    Some(RelayPolicy { gateway_path, message_max })
}

/// Checks what the routes of Oblivious HTTP need of each other and of section `one_shot:`.
pub(super) fn check_routes(routes: &[RawRoute], has_keys: bool, problems: &mut Problems) {
    let routes = || routes.iter().enumerate().filter_map(|(index, route)| Some((index, route.ohttp.as_ref()?)));
    let gateway = routes().find(|(_, ohttp)| ohttp.role == RawRole::Gateway).map(|(index, _)| index);
    for (index, ohttp) in routes() {
        match (ohttp.role, gateway) {
            (RawRole::Gateway, _) if !has_keys => problems.add(
                format!("routes[{index}].ohttp"),
                "a gateway needs one_shot.keys: sealway one-shot-keys add --use ohttp makes the file",
            ),
            (RawRole::Relay, Some(gateway)) if !ohttp.allow_same_operator.get() => problems.add(
                format!("routes[{index}].ohttp.role"),
                format!(
                    "routes[{gateway}] is a gateway: one operator of both sees who asks and what, which a relay is there to keep apart. Run \
                     it elsewhere, or write allow_same_operator: true in a test"
                ),
            ),
            (RawRole::Relay, Some(_)) => tracing::warn!(
                "ohttp.allow_same_operator: relay and gateway are in one configuration: clients are not hidden from it"
            ),
            _ => {}
        }
    }
}

/// Checks that a store of this kind keeps the claims that a gateway makes.
///
/// # Errors
/// A sentence with the setting of the route.
pub(super) fn check_store(policy: &GatewayPolicy, kind: &str) -> Result<(), String> {
    if keeps_claims(kind) {
        return Ok(());
    }
    Err(format!(
        "routes[{}].ohttp: role: gateway needs a store that keeps claims over a restart: sessions.store with file: or postgres:, and not \
         {kind} alone",
        policy.route
    ))
}
