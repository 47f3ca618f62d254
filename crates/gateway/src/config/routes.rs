//! Section `routes:` of the configuration.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};
use sealway_proto::limits::SEALED_BODY_MAX_DEFAULT;
use sealway_proto::routes::{Pattern, PatternInvalid};
use sealway_runtime::config::{Flag, Number, Problems, Within};
use serde::{Deserialize, Serialize};

use super::limits::BODY_RATE_MIN_MAX;
use super::listeners::Listener;
use super::mle::{self, RawMle, RawMleKey};
use super::ohttp::{self, RawOhttp};
use super::one_shot::{RawEhbp, RawRouteOneShot, resolve_ehbp, resolve_one_shot};
use super::{OneOrMany, RawUpstream};
use crate::mle::KeyFiles;
use crate::ohttp::{GatewayPolicy, RelayPolicy};
use crate::policy::{CertificateField, HeaderPolicy, HeaderRules};
use crate::route::{BODY_MAX_DEFAULT, ForwardPolicy, Matcher, Sealing};
use crate::standalone::Standalone;

/// Maximum value of `sealed_body_max`, in bytes.
pub(super) const SEALED_BODY_MAX: u64 = 64 * 1024 * 1024;
/// Maximum length of `name`, in bytes.
const NAME_LEN_MAX: usize = 64;
/// Maximum value of `delay_ms`, in milliseconds.
const DELAY_MS_MAX: u64 = 600_000;

/// An entry of `routes:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawRoute {
    /// Name in metrics and logs; 1 to 64 bytes, not `none`.
    /// - default: `routes[N]`, by its index
    name: Option<String>,
    /// Requests of the route; `{}` matches everything.
    #[serde(rename = "match")]
    matcher: RawMatch,
    /// The session authority answers.
    /// - type: `{}`
    /// - default: –
    sessions: Option<RawEmpty>,
    /// The gateway answers by itself. `ok`: 200 and `{"status":"ok","mode":"standalone"}`. `echo`: 200 and the request's
    /// body, of at most 16 MiB. `not_found`: 404. `unavailable`: 500, and other spellings of the route's paths are rejected
    /// as those of a sealed route are.
    /// - default: –
    standalone: Option<Standalone>,
    /// Name of the upstream that answers.
    /// - default: –
    upstream: Option<String>,
    /// A gateway or a relay of Oblivious HTTP (RFC 9458).
    /// - type: section
    /// - default: –
    pub(super) ohttp: Option<RawOhttp>,
    /// Time that a request waits first.
    delay_ms: Number<u64, 0, 0, DELAY_MS_MAX>,
    /// `required`: every request is sealed. `optional`: requests with `X-Kid`, `X-Idempotency-Key` or `X-Seal` are sealed.
    /// `off`: requests pass as sent. `ehbp`: requests are sealed by the Encrypted HTTP Body Protocol, see `ehbp`. `hpke`: requests are
    /// sealed to a key of the service, without a session (wire 4), see `one_shot`. `[session, hpke]`: either.
    sealed: Option<Sealing>,
    /// Settings of a route with `sealed: ehbp`.
    /// - type: section
    ehbp: Option<RawEhbp>,
    /// Settings of a route with `sealed: hpke`.
    /// - type: section
    one_shot: Option<RawRouteOneShot>,
    /// Messages encrypted as card schemes do (JWE): opened for the service, or sealed on its behalf.
    /// - type: section
    mle: Option<RawMle>,
    /// `Content-Type` of a plaintext for the service.
    /// - default: `application/json`
    content_type: Option<String>,
    /// Longest sealed request body, and longest answer that is sealed. Over it: 413; a longer answer: 502.
    sealed_body_max: Number<usize, { SEALED_BODY_MAX_DEFAULT as u64 }, 28, SEALED_BODY_MAX>,
    /// Longest request body that passes unsealed, or is sealed on wire 3.
    body_max: Number<u64, BODY_MAX_DEFAULT, 0, { u64::MAX }>,
    /// Headers of requests to the service.
    request_headers: Option<RawHeaderRules>,
    /// Headers of answers to the client.
    response_headers: Option<RawHeaderRules>,
    /// Sends the service `Forwarded`, `X-Forwarded-For`, `-Proto`, `-Host`, `Via` and `traceparent`.
    forwarded: Flag<true>,
    /// Sends the service the client's `Host` instead of its own address.
    preserve_host: Flag<false>,
    /// Headers that tell the service about a client's certificate: `certificate` and `chain` (in the form of RFC 9440),
    /// `subject`, `common_name`, `dns`, `uri`, `serial`, `issuer`, `sha256`. A client's own headers of these names, and
    /// `X-Client-Cert`, `Client-Cert` and `Client-Cert-Chain`, are always dropped, also with underscores for hyphens, and
    /// from trailers.
    /// - type: headers to fields
    /// - default: `X-Client-Cert: certificate`
    client_identity: Option<BTreeMap<String, CertificateField>>,
    /// On sealed routes: if a client shows a certificate, this field of it must be the client id of the session, else 403.
    /// Sessions of wire 1 have no client id.
    /// - type: a field
    client_id_from: Option<CertificateField>,
    /// Forwards `Connection: close` of one side to the other.
    pass_connection_close: Flag<false>,
    /// Prefix of the request's path on its way to the service, with one slash between the two.
    /// - type: path of a URL
    upstream_path: Option<String>,
    /// Headers outside a seal of wire 3 that reach the service where the seal has none of that name, beside `Host`,
    /// `User-Agent`, `Accept-Language` and the forwarding headers; anybody on the path can have written them.
    /// - type: list of names
    unsealed_headers: Option<Vec<String>>,
    /// Time that a sealed answer of wire 3 is kept for a client that sends the very same bytes again: requests of one frame
    /// (64 KiB), answers of up to 32 KiB, 32 MiB a route in this process's memory.
    /// - default: off
    keep_answers_sec: Within<u64, 1, 600>,
    /// Requests of this route whose bodies still arrive while they hold a connection to the service. Over it: 503 with
    /// `Retry-After`.
    /// - default: three quarters of the upstream's
    uploads_max: Within<u64, 1, { u64::MAX }>,
    /// Lowest rate of a request's body on this route; 0: none. For streams that rest while their service has not answered
    /// yet.
    /// - type: bytes a second
    /// - default: that of `limits`
    body_rate_min_bytes_per_sec: Within<u64, 0, BODY_RATE_MIN_MAX>,
    /// Protocols to which a client may change its connection by `Upgrade`, or a stream of HTTP/2 by extended CONNECT, one
    /// protocol at a time. The `Upgrade` of others is removed and the request goes on without it; an extended CONNECT to
    /// others gets 501. `[]` allows none; `h2c`, `HTTP` and `TLS` cannot be listed, for
    /// requests in them would pass every route.
    /// - type: list of protocols
    /// - default: `[websocket]`
    upgrade_protocols: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawMatch {
    /// Names of listeners.
    /// - default: any
    listener: Option<OneOrMany>,
    /// Hosts without a port, in any case, addresses of IPv6 as `[::1]`; `*.example.com` is every host below it.
    /// - default: any
    host: Option<OneOrMany>,
    /// Exact paths; each begins with `/` and has no query.
    path: Option<OneOrMany>,
    /// Beginnings of paths, as text: `/api/` does not match `/api`. Letter case counts.
    path_prefix: Option<OneOrMany>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawEmpty {}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawHeaderRules {
    /// Headers to set in the place of existing ones; `${NAME}` in a value is the environment's variable.
    /// - type: names to values
    set: Option<BTreeMap<String, String>>,
    /// Headers to drop. Neither this nor `set` is for headers of framing, `Connection` and `Host`.
    /// - type: list of names
    remove: Option<Vec<String>>,
}

/// A route after its checks.
#[derive(Clone, Debug)]
pub(super) struct CheckedRoute {
    /// Index of the route in the configuration.
    pub(super) index: usize,
    /// Name in metrics and logs; by default its path in the configuration.
    pub(super) name: String,
    pub(super) matcher: Matcher,
    pub(super) delay: Duration,
    pub(super) action: CheckedAction,
}

#[derive(Clone, Debug)]
pub(super) enum CheckedAction {
    Sessions,
    Standalone(Standalone),
    /// Name of the upstream, and the route's settings for it.
    Forward(String, Box<ForwardPolicy>),
    /// A gateway of Oblivious HTTP.
    Ohttp(GatewayPolicy),
    /// A relay of Oblivious HTTP: the name of the upstream, and the route's settings.
    OhttpRelay(String, Box<ForwardPolicy>, RelayPolicy),
}

/// Checks `routes[index]`; `None` if it has no valid action.
pub(super) fn resolve(
    index: usize,
    raw: &RawRoute,
    listeners: &[Listener],
    (upstreams, raw_keys): (&BTreeMap<String, RawUpstream>, &BTreeMap<String, RawMleKey>),
    (mle_keys, file): (&BTreeMap<String, KeyFiles>, Option<&Path>),
    problems: &mut Problems,
) -> Option<CheckedRoute> {
    let at = format!("routes[{index}]");
    let matcher = resolve_matcher(&at, &raw.matcher, listeners, problems);
    let delay = raw.delay_ms.millis(&format!("{at}.delay_ms"), problems);
    let action = match (&raw.sessions, raw.standalone, &raw.upstream) {
        (None, None, upstream) if raw.ohttp.is_some() => {
            ohttp::resolve(index, raw, upstream.as_ref(), upstreams, problems)
        }
        (Some(_), None, None) => Some(CheckedAction::Sessions),
        (None, Some(standalone), None) => Some(CheckedAction::Standalone(standalone)),
        (None, None, Some(upstream)) => {
            if !upstreams.contains_key(upstream) {
                problems.add(format!("{at}.upstream"), format!("no upstream is named \"{upstream}\""));
            }
            let mut policy = resolve_forward(index, raw, problems);
            if let Some(raw_mle) = &raw.mle {
                let at = format!("{at}.mle");
                if !matches!(policy.sealed, Sealing::Off | Sealing::Optional) {
                    problems.add(&at, "no message reaches it: sealed takes all of them");
                }
                policy.mle = mle::resolve(&at, raw_mle, raw_keys, file, problems);
                if let Some(mle) = &policy.mle {
                    mle::check_algorithms(&at, mle, mle_keys, problems);
                    if policy.headers.preserve_host && mle.sign.as_ref().is_some_and(|sign| sign.scheme.covers_host()) {
                        let why = "the signature names the scheme's server, and preserve_host: true sends another Host";
                        problems.add(format!("{at}.sign"), why);
                    }
                }
            }
            Some(CheckedAction::Forward(upstream.clone(), Box::new(policy)))
        }
        _ => {
            problems.add(&at, "expected one of: sessions: {}, an upstream, ohttp, or standalone");
            None
        }
    };
    if raw.upstream.is_none() {
        for name in raw.settings_of_upstreams() {
            problems.add(format!("{at}.{name}"), "only a route with an upstream takes this");
        }
    }
    if let Some(name) = &raw.name
        && (name.is_empty() || name.len() > NAME_LEN_MAX || name == "none" || name.chars().any(char::is_control))
    {
        problems.add(
            format!("{at}.name"),
            format!("expected 1 to {NAME_LEN_MAX} bytes without control characters, and not \"none\""),
        );
    }
    let name = raw.name.clone().unwrap_or_else(|| at.clone());
    Some(CheckedRoute { index, name, matcher, delay, action: action? })
}

impl RawRoute {
    /// Returns the given settings that have no effect without an upstream.
    pub(super) fn settings_of_upstreams(&self) -> Vec<&'static str> {
        let is_echo = self.standalone == Some(Standalone::Echo);
        let given = [
            ("sealed", self.sealed.is_some()),
            ("mle", self.mle.is_some()),
            ("ehbp", self.ehbp.is_some()),
            ("one_shot", self.one_shot.is_some()),
            ("content_type", self.content_type.is_some()),
            ("sealed_body_max", self.sealed_body_max.given().is_some()),
            ("body_max", self.body_max.given().is_some() && !is_echo),
            ("request_headers", self.request_headers.is_some()),
            ("response_headers", self.response_headers.is_some()),
            ("forwarded", self.forwarded.given().is_some()),
            ("preserve_host", self.preserve_host.given().is_some()),
            ("client_identity", self.client_identity.is_some()),
            ("client_id_from", self.client_id_from.is_some()),
            ("pass_connection_close", self.pass_connection_close.given().is_some()),
            ("upstream_path", self.upstream_path.is_some()),
            ("unsealed_headers", self.unsealed_headers.is_some()),
            ("keep_answers_sec", self.keep_answers_sec.given().is_some()),
            ("uploads_max", self.uploads_max.given().is_some()),
            ("body_rate_min_bytes_per_sec", self.body_rate_min_bytes_per_sec.given().is_some()),
            ("upgrade_protocols", self.upgrade_protocols.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

fn resolve_matcher(at: &str, raw: &RawMatch, listeners: &[Listener], problems: &mut Problems) -> Matcher {
    let mut matcher = Matcher {
        listeners: Vec::new(),
        hosts: OneOrMany::checked(raw.host.as_ref(), &format!("{at}.match.host"), problems),
        patterns: Vec::new(),
    };
    let exact: fn(String) -> Result<Pattern, PatternInvalid> = Pattern::exact;
    for (name, paths, pattern) in [("path", &raw.path, exact), ("path_prefix", &raw.path_prefix, Pattern::prefix)] {
        let field = format!("{at}.match.{name}");
        for path in OneOrMany::checked(paths.as_ref(), &field, problems) {
            let pattern = if is_path(&path) { pattern(path) } else { Err(PatternInvalid(path)) };
            matcher.patterns.extend(problems.take(&field, pattern));
        }
    }
    for host in &mut matcher.hosts {
        let bare = host.strip_prefix("*.").unwrap_or(host);
        // Only an IPv6 address contains a colon: the compared host has no port.
        let is_name = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
        let is_ipv6 = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).and_then(|ip| ip.parse().ok());
        if !is_name && is_ipv6.is_none_or(|_: Ipv6Addr| bare != host) {
            problems.add(
                format!("{at}.match.host"),
                format!("\"{host}\" is no host, such as example.com or *.example.com"),
            );
        }
        host.make_ascii_lowercase();
        host.truncate(host.trim_end_matches('.').len());
    }
    for name in OneOrMany::checked(raw.listener.as_ref(), &format!("{at}.match.listener"), problems) {
        match listeners.iter().find(|listener| *listener.name == *name) {
            Some(listener) => matcher.listeners.push(listener.name.clone()),
            None => problems.add(format!("{at}.match.listener"), format!("no listener is named \"{name}\"")),
        }
    }
    matcher
}

pub(super) fn resolve_forward(index: usize, raw: &RawRoute, problems: &mut Problems) -> ForwardPolicy {
    let at = &format!("routes[{index}]");
    let all = ForwardPolicy::default();
    let content_type = raw.content_type.as_deref().map_or(Some(all.content_type.clone()), |text| {
        let value = HeaderValue::from_str(text).ok().filter(|value| !value.is_empty());
        problems.take(format!("{at}.content_type"), value.ok_or("not a media type"))
    });
    let defaults = all.headers;
    let identity = match &raw.client_identity {
        None => defaults.identity,
        Some(identity) => {
            let path = format!("{at}.client_identity");
            let mut checked: Vec<(HeaderName, CertificateField)> = Vec::new();
            for (name, field) in identity {
                let Some(header) = header_name(&path, name, problems) else { continue };
                if checked.iter().any(|(other, _)| *other == header) {
                    problems.add(&path, format!("{name} stands twice"));
                }
                checked.push((header, *field));
            }
            checked
        }
    };
    if let Some(CertificateField::Certificate | CertificateField::Chain) = raw.client_id_from {
        problems
            .add(format!("{at}.client_id_from"), "expected a name in the certificate, such as common_name, dns or uri");
    }
    let sealed = raw.sealed.unwrap_or_default();
    if raw.ehbp.is_some() && sealed != Sealing::Ehbp {
        problems.add(format!("{at}.ehbp"), "only a route with sealed: ehbp takes this");
    }
    if raw.client_id_from.is_some() && !sealed.serves_sessions() {
        problems.add(format!("{at}.client_id_from"), "a request without a session has no client id");
    }
    ForwardPolicy {
        sealed,
        ehbp: resolve_ehbp(raw.ehbp.as_ref()),
        one_shot: resolve_one_shot(&format!("{at}.one_shot"), raw.one_shot.as_ref(), sealed, problems),
        content_type: content_type.unwrap_or(all.content_type),
        sealed_body_max: raw.sealed_body_max.check(&format!("{at}.sealed_body_max"), problems),
        body_max: raw.body_max.check(&format!("{at}.body_max"), problems),
        headers: HeaderPolicy {
            forwarded: raw.forwarded.get(),
            preserve_host: raw.preserve_host.get(),
            identity,
            request: resolve_rules(&format!("{at}.request_headers"), raw.request_headers.as_ref(), problems),
            response: resolve_rules(&format!("{at}.response_headers"), raw.response_headers.as_ref(), problems),
        },
        client_id: raw.client_id_from,
        pass_connection_close: raw.pass_connection_close.get(),
        keep_answers: raw.keep_answers_sec.check(&format!("{at}.keep_answers_sec"), problems).map(Duration::from_secs),
        mle: None,
        route: index,
        uploads_max: raw.uploads_max.check(&format!("{at}.uploads_max"), problems),
        body_rate_min: raw.body_rate_min_bytes_per_sec.check(&format!("{at}.body_rate_min_bytes_per_sec"), problems),
        unsealed_headers: {
            let names = raw.unsealed_headers.iter().flatten();
            names.filter_map(|name| header_name(&format!("{at}.unsealed_headers"), name, problems)).collect()
        },
        upgrade_protocols: match &raw.upgrade_protocols {
            None => all.upgrade_protocols,
            Some(names) => {
                let path = format!("{at}.upgrade_protocols");
                names.iter().filter_map(|name| problems.take(&path, upgrade_protocol(name))).collect()
            }
        },
        upstream_path: raw.upstream_path.as_ref().and_then(|path| {
            let expected = || format!("\"{path}\" is no path, such as /base");
            problems.take(format!("{at}.upstream_path"), is_path(path).then(|| path.clone()).ok_or_else(expected))
        }),
    }
}

/// Parses a protocol of an `Upgrade` (RFC 9110 section 7.8) that a route may allow.
fn upgrade_protocol(name: &str) -> Result<String, String> {
    let (protocol, version) = name.split_once('/').unwrap_or((name, "1"));
    // A header's name is a token too.
    if [protocol, version].iter().any(|part| HeaderName::try_from(*part).is_err()) {
        return Err(format!("\"{name}\" is no protocol, such as websocket"));
    }
    if ["h2", "h2c", "http", "tls"].iter().any(|other| protocol.eq_ignore_ascii_case(other)) {
        return Err(format!("\"{name}\" would carry requests past every route and every seal"));
    }
    Ok(name.to_owned())
}

/// True if the text can be the path of a request.
pub(super) fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains(['?', '#']) && text.parse::<PathAndQuery>().is_ok()
}

fn resolve_rules(at: &str, raw: Option<&RawHeaderRules>, problems: &mut Problems) -> HeaderRules {
    let Some(raw) = raw else { return HeaderRules::default() };
    let mut rules = HeaderRules::default();
    for (name, value) in raw.set.iter().flatten() {
        let path = format!("{at}.set.{name}");
        let value_has_variables = value.contains("${");
        let value = problems.take(&path, with_variables(value, |name| std::env::var(name).ok()));
        let value = value.and_then(|value| {
            let value = HeaderValue::try_from(value).map_err(|_| "a header's value has no control characters");
            problems.take(&path, value).map(|mut value| {
                // A value from the environment may be a secret: it is hidden in `Debug`, and HTTP/2 does not index it.
                value.set_sensitive(value_has_variables);
                value
            })
        });
        if let (Some(name), Some(value)) = (header_name(&path, name, problems), value) {
            if rules.set.iter().any(|(other, _)| *other == name) {
                problems.add(&path, "it stands twice, in another letter case");
            }
            rules.set.push((name, value));
        }
    }
    for name in raw.remove.iter().flatten() {
        rules.remove.extend(header_name(&format!("{at}.remove"), name, problems));
    }
    rules
}

/// Parses a header name for a rule. Headers of framing, and headers of a single hop, are rejected.
fn header_name(at: &str, name: &str, problems: &mut Problems) -> Option<HeaderName> {
    const OF_FRAMING: [&str; 8] = [
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    let parsed = problems.take(at, HeaderName::try_from(name).map_err(|_| format!("\"{name}\" is no header name")))?;
    if OF_FRAMING.contains(&parsed.as_str()) {
        problems.add(at, format!("{name} is the gateway's own (for Host: preserve_host)"));
        return None;
    }
    Some(parsed)
}

/// Replaces `${NAME}` by environment variables.
fn with_variables(text: &str, var: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, tail) = after.split_once('}').ok_or("a ${ without its }")?;
        out.push_str(before);
        out.push_str(&var(name).ok_or_else(|| format!("the environment has no {name}"))?);
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_from_the_environment_are_not_shown() {
        let set = [("x-key", "k-${PATH}"), ("x-open", "seen")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let raw = RawHeaderRules { set: Some(set.into()), remove: None };
        let shown = format!("{:?}", resolve_rules("r", Some(&raw), &mut Problems::default()));
        assert!(shown.contains("seen") && !shown.contains("k-"), "{shown}");
    }

    #[test]
    fn a_route_may_allow_protocols_that_carry_no_requests() {
        for name in ["websocket", "chat/2", "Spdy-like"] {
            assert_eq!(upgrade_protocol(name).as_deref(), Ok(name));
        }
        for name in ["", "h2c", "H2", "HTTP/2.0", "TLS/1.0", "tls", "a b", "a/", "websocket, chat"] {
            assert!(upgrade_protocol(name).is_err(), "{name}");
        }
    }

    #[test]
    fn variables_are_put_in_and_a_missing_one_is_named() {
        let var = |name: &str| (name == "A").then(|| "1".to_owned());
        assert_eq!(with_variables("x${A}y${A}", var).unwrap(), "x1y1");
        assert!(with_variables("${B}", var).unwrap_err().contains('B'));
        assert!(with_variables("${A", var).is_err());
        assert_eq!(with_variables("$A }", var).unwrap(), "$A }");
    }
}
