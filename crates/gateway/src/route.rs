//! Routing: the first route that matches a request determines its policy.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use sealway_proto::limits::{INIT_V1_BODY_MAX, SEALED_BODY_MAX_DEFAULT};
use sealway_proto::routes::{self, Decision, Pattern, decide};

use sealway_exchange::KeptAnswers;

use crate::mle::{Mle, MlePolicy};
use crate::ohttp;
use crate::one_shot::{ClearRequests, Document, EhbpPolicy, OneShotPolicy};
use crate::policy::{CertificateField, HeaderPolicy};
use crate::standalone::Standalone;
use crate::upstream::Upstream;

/// Default of the longest body that passes through, in bytes.
pub(crate) const BODY_MAX_DEFAULT: u64 = 16 * 1024 * 1024 * 1024;

/// Mode of sealing on a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sealing {
    /// Every request must be sealed.
    Required,
    /// Requests with `X-Kid`, `X-Idempotency-Key` or `X-Seal` are sealed.
    Optional,
    /// Every request is sealed by the Encrypted HTTP Body Protocol, but for those that the route passes in clear.
    Ehbp,
    /// Every request is sealed to a key of the service, on wire 4.
    Hpke,
    /// Every request is sealed, in a session or on wire 4.
    #[serde(rename = "[session, hpke]")]
    SessionOrHpke,
    /// No request is sealed: all pass through.
    #[default]
    Off,
}

impl Sealing {
    /// Returns the document that publishes the keys of the mode.
    pub(crate) fn document(self) -> Option<Document> {
        match self {
            Sealing::Ehbp => Some(Document::Ehbp),
            Sealing::Hpke | Sealing::SessionOrHpke => Some(Document::Hpke),
            Sealing::Required | Sealing::Optional | Sealing::Off => None,
        }
    }
}

impl Sealing {
    /// Returns true if requests on wire 4 are served.
    pub(crate) fn serves_hpke(self) -> bool {
        matches!(self, Sealing::Hpke | Sealing::SessionOrHpke)
    }

    /// Returns true if requests in a session are served.
    pub(crate) fn serves_sessions(self) -> bool {
        matches!(self, Sealing::Required | Sealing::Optional | Sealing::SessionOrHpke)
    }
}

impl<'de> serde::Deserialize<'de> for Sealing {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Sealing;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("required, optional, hpke, ehbp, off, or a list of session and hpke")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Sealing, E> {
                match text {
                    "required" => Ok(Sealing::Required),
                    "optional" => Ok(Sealing::Optional),
                    "ehbp" => Ok(Sealing::Ehbp),
                    "hpke" => Ok(Sealing::Hpke),
                    // The list, as a merged configuration spells it.
                    "[session, hpke]" => Ok(Sealing::SessionOrHpke),
                    "off" | "false" => Ok(Sealing::Off),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Sealing, A::Error> {
                let (mut session, mut hpke) = (false, false);
                while let Some(name) = list.next_element::<String>()? {
                    let is_in = match name.as_str() {
                        "session" => &mut session,
                        "hpke" => &mut hpke,
                        other => return Err(serde::de::Error::invalid_value(serde::de::Unexpected::Str(other), &self)),
                    };
                    if std::mem::replace(is_in, true) {
                        return Err(serde::de::Error::custom(format!("{name} stands twice")));
                    }
                }
                match (session, hpke) {
                    (true, true) => Ok(Sealing::SessionOrHpke),
                    (true, false) => Ok(Sealing::Required),
                    (false, true) => Ok(Sealing::Hpke),
                    (false, false) => Err(serde::de::Error::invalid_length(0, &self)),
                }
            }

            // Some YAML readers treat a bare `off` as a boolean.
            fn visit_bool<E: serde::de::Error>(self, on: bool) -> Result<Sealing, E> {
                if on { Err(E::invalid_value(serde::de::Unexpected::Bool(on), &self)) } else { Ok(Sealing::Off) }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Action of a route for its requests.
#[derive(Debug)]
pub enum Action {
    /// The session authority answers the request.
    Sessions,
    /// A service behind the gateway answers.
    Forward(Box<Forward>),
    /// The gateway answers by itself.
    Standalone(Standalone),
    /// The gateway answers with its public keys.
    Keys(Document),
    /// A gateway of Oblivious HTTP opens the request and asks one of its targets.
    Ohttp(Arc<ohttp::Gateway>),
    /// A relay of Oblivious HTTP passes the request on to its gateway.
    OhttpRelay(Box<ohttp::Relay>),
}

/// Forwarding to an upstream, with its settings.
#[derive(Debug)]
pub struct Forward {
    /// Upstream that gets the requests.
    pub upstream: Arc<Upstream>,
    /// Settings of the forwarding.
    pub policy: ForwardPolicy,
    /// Sealed answers kept for repeated requests.
    pub kept: Option<KeptAnswers>,
    /// Messages of a card scheme, with the keys for them.
    pub mle: Option<Mle>,
}

/// Settings for requests that are forwarded.
#[derive(Clone, Debug)]
pub struct ForwardPolicy {
    /// Mode of sealing on the route.
    pub sealed: Sealing,
    /// Media type of the plaintext in a sealed request.
    pub content_type: HeaderValue,
    /// Maximum length of a sealed request's body, and of an answer that is sealed, in bytes.
    pub sealed_body_max: usize,
    /// Maximum length of a body that passes through, in bytes.
    pub body_max: u64,
    /// Changes to headers of requests and answers.
    pub headers: HeaderPolicy,
    /// Field of a client's certificate that must equal the client id of a sealed request's session. A client without a
    /// certificate is left to the listener, which may reject it.
    pub client_id: Option<CertificateField>,
    /// True if `Connection: close` of one side is passed to the other.
    pub pass_connection_close: bool,
    /// Prefix of a request's path on its way to the service.
    pub upstream_path: Option<String>,
    /// Time for which a sealed answer of wire 3 is kept for a client that sends the same bytes again; `None` keeps no
    /// answer.
    pub keep_answers: Option<Duration>,
    /// Headers outside the seal of wire 3 that reach the service, in addition to those that always do.
    pub unsealed_headers: Vec<HeaderName>,
    /// Settings for messages of a card scheme.
    pub mle: Option<MlePolicy>,
    /// Settings for requests by the Encrypted HTTP Body Protocol.
    pub ehbp: EhbpPolicy,
    /// Settings for requests on wire 4.
    pub one_shot: OneShotPolicy,
    /// Index of the route in the configuration.
    pub route: usize,
    /// Maximum share of the upstream's uploads for this route; three quarters by default.
    pub uploads_max: Option<u64>,
    /// Minimum rate of a request's body, in bytes a second; 0 means none. By default the rate of all routes.
    pub body_rate_min: Option<u64>,
    /// Protocols that a connection of the route may switch to by `Upgrade`; none of them is HTTP or TLS.
    pub upgrade_protocols: Vec<String>,
}

impl ForwardPolicy {
    /// Makes a request's target the one for the service: the service's prefix before the path, with one slash between them.
    pub(crate) fn retarget(&self, uri: &mut Uri) {
        let Some(base) = &self.upstream_path else { return };
        let mut target = match uri.path() {
            "" | "/" => base.clone(),
            path => format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/')),
        };
        if let Some(query) = uri.query() {
            target.push('?');
            target.push_str(query);
        }
        // Two valid paths joined are a valid path.
        if let Ok(target) = target.parse() {
            *uri = target;
        }
    }
}

impl Default for ForwardPolicy {
    fn default() -> Self {
        ForwardPolicy {
            sealed: Sealing::Off,
            content_type: HeaderValue::from_static("application/json"),
            sealed_body_max: SEALED_BODY_MAX_DEFAULT,
            body_max: BODY_MAX_DEFAULT,
            headers: HeaderPolicy::default(),
            client_id: None,
            pass_connection_close: false,
            upstream_path: None,
            keep_answers: None,
            unsealed_headers: Vec::new(),
            mle: None,
            ehbp: EhbpPolicy::default(),
            one_shot: OneShotPolicy::default(),
            route: 0,
            uploads_max: None,
            body_rate_min: None,
            upgrade_protocols: vec!["websocket".into()],
        }
    }
}

/// Condition of a route. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matcher {
    /// Names of the matching listeners.
    pub listeners: Vec<Arc<str>>,
    /// Hosts without a port, in lower case; `*.example.com` matches every host below it.
    pub hosts: Vec<String>,
    /// Exact paths and prefixes. If empty, every path matches.
    pub patterns: Vec<Pattern>,
}

/// A route of the gateway's configuration.
#[derive(Debug)]
pub struct Route {
    /// Name for metrics and logs; by default its path in the configuration, `routes[0]`.
    pub name: String,
    /// Condition that selects the route's requests.
    pub matcher: Matcher,
    /// Delay before a request is handled.
    pub delay: Duration,
    /// Action for the route's requests.
    pub action: Action,
}

impl Route {
    /// Returns the name of the upstream; empty if the route has none.
    pub(crate) fn upstream(&self) -> &str {
        match &self.action {
            Action::Forward(forward) => forward.upstream.name(),
            Action::OhttpRelay(relay) => relay.forward.upstream.name(),
            Action::Sessions | Action::Standalone(_) | Action::Keys(_) | Action::Ohttp(_) => "",
        }
    }
}

/// Properties of a request that select its route.
#[derive(Clone, Copy, Debug)]
pub struct RouteQuery<'a> {
    /// Name of the listener that accepted the request.
    pub listener: &'a str,
    /// Requested host, without a port.
    pub host: &'a str,
    /// Requested path, as sent and without the query.
    pub path: &'a str,
}

impl Matcher {
    /// Returns true if a path, as sent, matches, whatever listener and host.
    pub(crate) fn is_for_path(&self, path: &str) -> bool {
        self.patterns().iter().any(|pattern| pattern.names(path))
    }

    /// Returns true if the condition has neither listeners nor hosts.
    pub(crate) fn is_for_all(&self) -> bool {
        self.listeners.is_empty() && self.hosts.is_empty()
    }

    fn patterns(&self) -> &[Pattern] {
        const ANY: &[Pattern] = &[Pattern::ANY];
        if self.patterns.is_empty() { ANY } else { &self.patterns }
    }

    /// True if listener and host match.
    fn is_for(&self, asked: RouteQuery<'_>) -> bool {
        let is_host =
            |host: &String| match host.strip_prefix('*') {
                Some(suffix) => asked.host.len().checked_sub(suffix.len()).is_some_and(|at| {
                    at > 0 && asked.host.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
                }),
                None => host.eq_ignore_ascii_case(asked.host),
            };
        (self.listeners.is_empty() || self.listeners.iter().any(|name| **name == *asked.listener))
            && (self.hosts.is_empty() || self.hosts.iter().any(is_host))
    }
}

impl Route {
    /// Returns whether the route serves Oblivious HTTP, as a gateway or as a relay.
    pub(crate) fn is_oblivious(&self) -> bool {
        matches!(self.action, Action::Ohttp(_) | Action::OhttpRelay(_))
    }

    /// Returns the most bytes of one request that the route holds in memory, with its answer where it holds that too.
    pub(crate) fn held_max(&self) -> usize {
        match &self.action {
            Action::Sessions => INIT_V1_BODY_MAX,
            Action::Standalone(standalone) => standalone.body_max(),
            Action::Keys(_) | Action::OhttpRelay(_) => 0,
            Action::Ohttp(gateway) => gateway.held_max(),
            Action::Forward(forward) if forward.policy.sealed == Sealing::Off && forward.mle.is_none() => 0,
            Action::Forward(forward) => forward.policy.sealed_body_max,
        }
    }

    /// Returns the mode of sealing in terms of `spec/routes.md`.
    fn mode(&self) -> routes::SealMode {
        match &self.action {
            // In another spelling of its path a request would pass by in clear.
            Action::Forward(forward) if forward.mle.as_ref().is_some_and(Mle::bars_clear) => routes::SealMode::Required,
            Action::Forward(forward) => match forward.policy.sealed {
                Sealing::Required | Sealing::Hpke | Sealing::SessionOrHpke => routes::SealMode::Required,
                Sealing::Optional => routes::SealMode::Optional,
                Sealing::Ehbp if forward.policy.ehbp.unsealed == ClearRequests::Pass => routes::SealMode::Optional,
                Sealing::Ehbp => routes::SealMode::Required,
                Sealing::Off => routes::SealMode::Off,
            },
            Action::Standalone(Standalone::Unavailable) => routes::SealMode::Required,
            // What such a route takes is sealed in any spelling of its path.
            Action::Ohttp(_) | Action::OhttpRelay(_) => routes::SealMode::Off,
            Action::Sessions | Action::Standalone(_) | Action::Keys(_) => routes::SealMode::Off,
        }
    }
}

/// Result of the search for a route.
#[derive(Debug)]
pub enum Selection<'a> {
    /// The route that matches, with its index.
    Route(usize, &'a Route),
    /// No route matches the request.
    None,
    /// The path is another spelling of one that must be sealed: a service that reads both alike would be reached in
    /// plain.
    Disguised,
}

/// Finds the first route that matches.
// SPEC routes.md#decision
pub fn find<'a>(routes: &'a [Route], asked: RouteQuery<'_>) -> Selection<'a> {
    let of_request = routes.iter().enumerate().filter(|(_, route)| route.matcher.is_for(asked));
    let rules = of_request.flat_map(|(index, route)| {
        route.matcher.patterns().iter().map(move |pattern| (pattern, route.mode(), (index, route)))
    });
    match decide(rules, asked.path) {
        Decision::Sealed(Some(found)) | Decision::Optional(found) | Decision::Plain(found) => {
            Selection::Route(found.0, found.1)
        }
        Decision::Sealed(None) => Selection::None,
        Decision::Refused => Selection::Disguised,
    }
}

#[cfg(test)]
mod tests;
