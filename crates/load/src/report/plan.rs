//! Plan of a run in plain values, without anything that may be secret. Left out are the user and password of the target's
//! address, query values whose names suggest a secret, all header values, and everything about TLS and sessions except
//! whether it is there.

use std::time::Duration;

use http::Uri;
use sealway_client::{OneShotTrust, Trust};
use serde::{Deserialize, Serialize};

use crate::plan::{
    Arrival, Assertion, Broker, BrokerOperation, BrokerWire, Connections, OneShotProtocol, OneShotRequests, Plan,
    Protocol, Resumption, SealedSessions, Text, Timeouts, Tls, TlsVersion,
};

/// Placeholder of a secret value.
const HIDDEN: &str = "***";

/// Parts of a query parameter's name that mark its value as secret.
const SECRET_NAMES: [&str; 9] =
    ["token", "secret", "password", "passwd", "pwd", "key", "auth", "signature", "credential"];

/// Plan of a run as its report states it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanSummary {
    /// URL of the target, without user and password.
    pub(crate) url: String,
    /// Addresses connected to instead of those of the name.
    pub(crate) addresses: Vec<String>,
    /// Protocol spoken on a connection.
    pub(crate) protocol: Protocol,
    /// HTTP method of the request.
    pub(crate) method: String,
    /// Path and query of the request: text or a template.
    pub(crate) path: String,
    /// Names of the request's own headers; their values may be secret and are left out.
    pub(crate) headers: Vec<String>,
    /// Size of the body in bytes, of a template its own size; null for no body.
    pub(crate) body_bytes: Option<u64>,
    /// True if the body is a template.
    pub(crate) body_template: bool,
    /// Arrival model: the times at which requests start.
    pub(crate) arrival: Arrival,
    /// Duration of the measurement in seconds; null for no bound.
    pub(crate) duration_s: Option<f64>,
    /// Maximum number of requests; null for no bound.
    pub(crate) requests: Option<u64>,
    /// Length of the warm-up in seconds, which no total includes.
    pub(crate) warm_up_s: f64,
    /// Shortest and longest wait between an answer and the next request, in seconds; null for none.
    pub(crate) think_s: Option<(f64, f64)>,
    /// Settings of the connections to the target.
    #[serde(flatten)]
    pub(crate) connections: Connections,
    /// Timeouts of connections and requests.
    #[serde(flatten)]
    pub(crate) timeouts: Timeouts,
    /// TLS settings; null for plain connections.
    pub(crate) tls: Option<TlsSummary>,
    /// Settings of sealed sessions; null for none.
    pub(crate) sealed: Option<SealedSummary>,
    /// Settings of messages of card schemes; null for none.
    #[serde(default)]
    pub(crate) mle: Option<MleSummary>,
    /// Settings of requests without a session; null for none.
    #[serde(default)]
    pub(crate) one_shot: Option<OneShotSummary>,
    /// Operation of a broker; null for another target.
    #[serde(default)]
    pub(crate) broker: Option<BrokerSummary>,
    /// Assertions on the answer, each in words.
    pub(crate) assertions: Vec<String>,
    /// Number of threads that generated the load.
    pub(crate) threads: usize,
    /// Seed of all random values.
    pub(crate) seed: u64,
}

/// TLS settings of a run, without anything secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TlsSummary {
    /// True if the server's certificate was verified.
    pub(crate) verify: bool,
    /// True if the certificate had to match the host's name.
    pub(crate) verify_name: bool,
    /// True if the authorities of a file were trusted.
    pub(crate) own_authority: bool,
    /// True if a client certificate was sent.
    pub(crate) client_certificate: bool,
    /// Mode of TLS session resumption.
    pub(crate) resumption: Resumption,
    /// Minimum version of the TLS protocol.
    pub(crate) min_version: TlsVersion,
}

/// Settings of sealed sessions, without anything secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedSummary {
    /// Wire version: 1, 2 or 3.
    pub(crate) wire: u8,
    /// Time at which a session was agreed: `per_request`, `per_connection`, `reuse` or `init_only`.
    pub(crate) agree: String,
    /// Path of the init endpoint.
    pub(crate) init_path: String,
    /// True if a bearer token was sent.
    pub(crate) token: bool,
    /// Wire 3: basis of trust in the service's identity key: `pins`, `root` or `first_use`.
    #[serde(default)]
    pub(crate) trust: Option<String>,
    /// Wire 3: suites offered to the service.
    #[serde(default)]
    pub(crate) suites: Vec<String>,
    /// Wire 3: signature algorithms that alone were accepted; empty without a restriction.
    #[serde(default)]
    pub(crate) signature_algorithms: Vec<String>,
}

/// Settings of messages of card schemes: no file and no key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MleSummary {
    /// Profile of the messages, such as `visa`.
    pub(crate) profile: String,
    /// Algorithm that encrypted the content of requests; null for the default.
    pub(crate) enc: Option<String>,
}

/// Settings of requests without a session: no key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OneShotSummary {
    /// Protocol that sealed requests and answers.
    pub(crate) protocol: OneShotProtocol,
    /// Basis of trust in the service's key: `configs`, `kids`, `root` or `fetched`.
    pub(crate) trust: String,
    /// True if a pre-shared key named the client.
    pub(crate) psk: bool,
    /// Oblivious HTTP: URL of the inner requests without their path; null for another protocol.
    pub(crate) inner: Option<String>,
}

impl OneShotSummary {
    /// Formats the settings in words: `hpke, key by root, with a pre-shared key`.
    pub(crate) fn words(&self) -> String {
        let mut text = format!("{}, key by {}", self.protocol.name(), self.trust);
        if self.psk {
            text.push_str(", with a pre-shared key");
        }
        if let Some(inner) = &self.inner {
            text.push_str(", to ");
            text.push_str(inner);
        }
        text
    }
}

/// Operation of a broker run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BrokerSummary {
    /// Path of the broker's socket.
    pub(crate) socket: String,
    /// Wire protocol spoken with the broker.
    pub(crate) wire: BrokerWire,
    /// Operation that the calls performed.
    pub(crate) operation: BrokerOperation,
    /// Profile of the operation; null if it needs none.
    pub(crate) profile: Option<String>,
    /// Key ID of the operation; null if it needs none.
    pub(crate) key: Option<String>,
    /// Size of each input or output in bytes; null if the operation has no such size.
    pub(crate) input_bytes: Option<u32>,
    /// Number of inputs in a call.
    pub(crate) batch: u32,
}

impl From<&Plan> for PlanSummary {
    fn from(plan: &Plan) -> Self {
        let (target, request) = (&plan.target, &plan.request);
        PlanSummary {
            url: target
                .broker
                .as_ref()
                .map_or_else(|| url(&target.url), |at| format!("broker://{}", at.socket.display())),
            addresses: target.addresses.iter().map(ToString::to_string).collect(),
            protocol: target.protocol,
            method: request.method.to_string(),
            path: query_hidden(&request.path),
            headers: request.headers.iter().map(|(name, _)| name.to_string()).collect(),
            body_bytes: request.body.as_ref().map(|body| match body {
                Text::Fixed(bytes) => bytes.len() as u64,
                Text::Template(text) => text.len() as u64,
            }),
            body_template: matches!(request.body, Some(Text::Template(_))),
            arrival: plan.arrival.clone(),
            duration_s: plan.stop.duration.map(seconds),
            requests: plan.stop.requests,
            warm_up_s: seconds(plan.warm_up),
            think_s: plan.think.map(|(from, to)| (seconds(from), seconds(to))),
            connections: plan.connections.clone(),
            timeouts: plan.timeouts,
            tls: target.tls.as_ref().map(TlsSummary::from),
            sealed: target.sealed.as_ref().map(SealedSummary::from),
            mle: target.mle.as_ref().map(|mle| MleSummary { profile: mle.profile.clone(), enc: mle.enc.clone() }),
            one_shot: target.one_shot.as_ref().map(OneShotSummary::from),
            broker: target.broker.as_ref().map(BrokerSummary::from),
            assertions: plan.assertions.iter().map(assertion).collect(),
            threads: plan.threads,
            seed: plan.seed,
        }
    }
}

impl From<&Tls> for TlsSummary {
    fn from(tls: &Tls) -> Self {
        TlsSummary {
            verify: tls.verify,
            verify_name: tls.verify_name,
            own_authority: tls.files.ca.is_some(),
            client_certificate: tls.files.cert.is_some(),
            resumption: tls.resumption,
            min_version: tls.min_version,
        }
    }
}

impl From<&SealedSessions> for SealedSummary {
    fn from(sealed: &SealedSessions) -> Self {
        let is_new = sealed.wire == 3;
        let trust = match &sealed.trust {
            Trust::Pins(_) => "pins",
            Trust::Root { .. } => "root",
            Trust::FirstUse(_) => "first_use",
        };
        SealedSummary {
            trust: is_new.then(|| trust.to_owned()),
            suites: sealed.suites.iter().filter(|_| is_new).map(|suite| suite.name().to_owned()).collect(),
            signature_algorithms: sealed.signature_algorithms.iter().map(|alg| alg.name().to_owned()).collect(),
            wire: sealed.wire,
            agree: sealed.agree.name().replace('-', "_"),
            init_path: query_hidden(&sealed.init_path),
            token: sealed.token_file.is_some(),
        }
    }
}

impl From<&OneShotRequests> for OneShotSummary {
    fn from(one_shot: &OneShotRequests) -> Self {
        let trust = match &one_shot.trust {
            None => "fetched",
            Some(OneShotTrust::Configs(_)) => "configs",
            Some(OneShotTrust::Kids(_)) => "kids",
            Some(OneShotTrust::Root(_)) => "root",
        };
        let inner = one_shot.inner.as_ref();
        OneShotSummary {
            protocol: one_shot.protocol,
            trust: trust.to_owned(),
            psk: one_shot.psk.is_some(),
            inner: inner.and_then(|url| Some(format!("{}://{}", url.scheme_str()?, url.authority()?))),
        }
    }
}

impl From<&Broker> for BrokerSummary {
    fn from(broker: &Broker) -> Self {
        let named = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
        BrokerSummary {
            socket: broker.socket.display().to_string(),
            wire: broker.wire,
            operation: broker.operation,
            profile: named(&broker.profile),
            key: named(&broker.key),
            input_bytes: broker.operation.has_length().then_some(broker.input_len),
            batch: broker.batch,
        }
    }
}

impl BrokerSummary {
    /// Formats the operation in words: `hash on wire v1, profile Default, 64 bytes, 1 per call`.
    pub(crate) fn words(&self) -> String {
        let mut text = format!("{} on wire {}", self.operation.name(), self.wire.name());
        let parts = [
            self.profile.as_ref().map(|profile| format!("profile {profile}")),
            self.key.as_ref().map(|key| format!("key {key}")),
            self.input_bytes.map(|bytes| format!("{bytes} bytes")),
            Some(format!("{} per call", self.batch)),
        ];
        for part in parts.into_iter().flatten() {
            text.push_str(", ");
            text.push_str(&part);
        }
        text
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn assertion(assertion: &Assertion) -> String {
    match assertion {
        Assertion::Status(codes) => {
            let codes: Vec<_> = codes.iter().map(u16::to_string).collect();
            format!("status is {}", codes.join(" or "))
        }
        Assertion::JsonPath { path, equals } => format!("{path} is `{equals}`"),
        Assertion::BodyHolds(text) => format!("body contains `{text}`"),
        Assertion::BodyIs(text) => format!("body is {} bytes of text", text.len()),
    }
}

/// Formats a URL without user, password and secret query values.
pub(super) fn url(url: &Uri) -> String {
    let Some(authority) = url.authority() else { return query_hidden(&url.to_string()) };
    let host = match authority.as_str().rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_string(),
    };
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    format!("{}://{host}{}", url.scheme_str().unwrap_or("http"), query_hidden(path))
}

/// Replaces the secret values in a path's query.
fn query_hidden(path: &str) -> String {
    let Some((before, query)) = path.split_once('?') else { return path.to_owned() };
    let parts: Vec<_> = query
        .split('&')
        .map(|part| match part.split_once('=') {
            Some((name, _)) if sounds_secret(name) => format!("{name}={HIDDEN}"),
            _ => part.to_owned(),
        })
        .collect();
    format!("{before}?{}", parts.join("&"))
}

fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_password_and_secrets_of_a_query_are_hidden_and_the_rest_is_not() {
        for (given, shown) in [
            ("https://ann:pa55@api.example:8443/a?b=c", "https://***@api.example:8443/a?b=c"),
            (
                "http://[::1]:80/?x=1&Access_Token=abc&api-key=z&y",
                "http://[::1]:80/?x=1&Access_Token=***&api-key=***&y",
            ),
            ("wss://host", "wss://host/"),
        ] {
            assert_eq!(url(&given.parse().unwrap()), shown);
        }
    }
}
