//! A plan in plain values. What may be secret is left out: of the target's address the user and password, of a query the
//! values whose names sound like a secret, of headers all values, of TLS and sessions everything but whether it is there.

use std::time::Duration;

use http::Uri;
use sealway_client::sealed::Trust;
use serde::{Deserialize, Serialize};

use super::units::finite;
use crate::plan::{
    Agree, Arrival, Assertion, Broker, Plan, Protocol, Resumption, Sealed, Spacing, Steps, Text, Tls, TlsVersion,
};

/// What stands for a secret.
const HIDDEN: &str = "***";

/// A name of a query's parameter that holds one of these has a secret value.
const SECRET_NAMES: [&str; 9] =
    ["token", "secret", "password", "passwd", "pwd", "key", "auth", "signature", "credential"];

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// Where requests went, without user and password.
    pub(crate) url: String,
    /// Addresses that were connected to instead of the name's.
    pub(crate) addresses: Vec<String>,
    /// `http/1.1`, `http/2`, `http/3`, `websocket` or `broker`.
    pub(crate) protocol: String,
    /// The method.
    pub(crate) method: String,
    /// Path and query: text or a template.
    pub(crate) path: String,
    /// Names of the request's own headers; their values may be secret and are not told.
    pub(crate) headers: Vec<String>,
    /// Bytes of the body, of a template its own; null for no body.
    pub(crate) body_bytes: Option<u64>,
    /// Whether the body is a template.
    pub(crate) body_template: bool,
    /// When requests started.
    pub(crate) arrival: Arrived,
    /// How long was to be measured, in seconds; null for no bound.
    pub(crate) duration_s: Option<f64>,
    /// How many requests were to be made; null for no bound.
    pub(crate) requests: Option<u64>,
    /// What was left out of the totals at the beginning, in seconds.
    pub(crate) warm_up_s: f64,
    /// The wait between an answer and the next request, shortest and longest, in seconds; null for none.
    pub(crate) think_s: Option<(f64, f64)>,
    /// Whether a connection was used for more than one request.
    pub(crate) reuse: bool,
    /// Requests at a time over one connection.
    pub(crate) streams: usize,
    /// Whether requests said `Connection: close`.
    pub(crate) close_header: bool,
    /// Local addresses to come from.
    pub(crate) sources: Vec<String>,
    /// To open a connection, in seconds.
    pub(crate) connect_timeout_s: f64,
    /// For a whole request, in seconds.
    pub(crate) request_timeout_s: f64,
    /// TLS; null for plain connections.
    pub(crate) tls: Option<AskedTls>,
    /// Sealed sessions; null for none.
    pub(crate) sealed: Option<AskedSealed>,
    /// A broker's operation; null for another target.
    #[serde(default)]
    pub(crate) broker: Option<AskedBroker>,
    /// What an answer had to be, each in words.
    pub(crate) assertions: Vec<String>,
    /// Threads that offered the load.
    pub(crate) threads: usize,
    /// The seed of all that was drawn at random.
    pub(crate) seed: u64,
}

/// When requests started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub(crate) enum Arrived {
    /// Each worker sends its next request when it has its answer.
    Closed {
        /// Workers, over time.
        concurrency: Vec<StageAsked>,
        /// Workers that start each second, as a share of all; 0 for all at once.
        ramp_share: f64,
        /// Requests a worker makes at most; 0 for no bound.
        loops: u64,
    },
    /// Requests start when they are due, whatever the target does.
    Open {
        /// Requests a second, over time.
        rate: Vec<StageAsked>,
        /// `even` or `poisson`.
        spacing: String,
        /// Requests under way at most.
        in_flight_max: usize,
    },
    /// So many at one moment.
    Bursts {
        /// Requests in a burst.
        burst: usize,
        /// From one burst's start to the next, in seconds.
        every_s: f64,
        /// How many bursts.
        times: usize,
    },
}

/// A stage of a value over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StageAsked {
    /// What it reaches.
    pub(crate) value: f64,
    /// How long it takes, in seconds; 0 in the last one for the rest of the run.
    pub(crate) length_s: f64,
    /// Whether it goes there in a straight line.
    pub(crate) ramp: bool,
}

/// TLS, without whatever is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedTls {
    /// Whether the server's certificate was looked at.
    pub(crate) verify: bool,
    /// Whether it had to be of the host's name.
    pub(crate) verify_name: bool,
    /// Whether authorities of a file were trusted.
    pub(crate) own_authority: bool,
    /// Whether a client certificate was shown.
    pub(crate) client_certificate: bool,
    /// `off`, `on` or `both`.
    pub(crate) resumption: String,
    /// The lowest version: `1.2` or `1.3`.
    pub(crate) min_version: String,
}

/// Sealed sessions, without whatever is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedSealed {
    /// The wire.
    pub(crate) wire: u8,
    /// When a session was agreed: `per_request`, `per_connection`, `reuse` or `init_only`.
    pub(crate) agree: String,
    /// The path of the init endpoint.
    pub(crate) init_path: String,
    /// Whether a bearer token was shown.
    pub(crate) token: bool,
    /// Wire 3: by what the service's identity key was trusted: `pins`, `root` or `first_use`.
    #[serde(default)]
    pub(crate) trust: Option<String>,
    /// Wire 3: the suites that were offered.
    #[serde(default)]
    pub(crate) suites: Vec<String>,
}

/// What was asked of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedBroker {
    /// The socket's path.
    pub(crate) socket: String,
    /// `v1` or `open`.
    pub(crate) wire: String,
    /// Such as `hash`.
    pub(crate) operation: String,
    /// The profile; null for what needs none.
    pub(crate) profile: Option<String>,
    /// The key's id; null for what needs none.
    pub(crate) key: Option<String>,
    /// Bytes of each input, or of each output; null where neither is chosen.
    pub(crate) input_bytes: Option<u32>,
    /// Inputs in a call.
    pub(crate) batch: u32,
}

impl From<&Plan> for Asked {
    fn from(plan: &Plan) -> Self {
        let (target, request, connections) = (&plan.target, &plan.request, &plan.connections);
        Asked {
            url: target
                .broker
                .as_ref()
                .map_or_else(|| url(&target.url), |at| format!("broker://{}", at.socket.display())),
            addresses: target.addresses.iter().map(ToString::to_string).collect(),
            protocol: protocol(target.protocol).to_owned(),
            method: request.method.to_string(),
            path: query_hidden(&request.path),
            headers: request.headers.iter().map(|(name, _)| name.to_string()).collect(),
            body_bytes: request.body.as_ref().map(|body| match body {
                Text::Fixed(bytes) => bytes.len() as u64,
                Text::Template(text) => text.len() as u64,
            }),
            body_template: matches!(request.body, Some(Text::Template(_))),
            arrival: Arrived::from(&plan.arrival),
            duration_s: plan.stop.duration.map(seconds),
            requests: plan.stop.requests,
            warm_up_s: seconds(plan.warm_up),
            think_s: plan.think.map(|(from, to)| (seconds(from), seconds(to))),
            reuse: connections.reuse,
            streams: connections.streams,
            close_header: connections.close_header,
            sources: connections.sources.iter().map(ToString::to_string).collect(),
            connect_timeout_s: seconds(plan.timeouts.connect),
            request_timeout_s: seconds(plan.timeouts.request),
            tls: target.tls.as_ref().map(AskedTls::from),
            sealed: target.sealed.as_ref().map(AskedSealed::from),
            broker: target.broker.as_ref().map(AskedBroker::from),
            assertions: plan.assertions.iter().map(assertion).collect(),
            threads: plan.threads,
            seed: plan.seed,
        }
    }
}

impl From<&Arrival> for Arrived {
    fn from(arrival: &Arrival) -> Self {
        match arrival {
            Arrival::Closed { concurrency, ramp_share, loops } => {
                Arrived::Closed { concurrency: stages(concurrency), ramp_share: finite(*ramp_share), loops: *loops }
            }
            Arrival::Open { rate, spacing, in_flight_max } => Arrived::Open {
                rate: stages(rate),
                spacing: match spacing {
                    Spacing::Even => "even".to_owned(),
                    Spacing::Poisson => "poisson".to_owned(),
                },
                in_flight_max: *in_flight_max,
            },
            Arrival::Bursts { burst, every, times } => {
                Arrived::Bursts { burst: *burst, every_s: seconds(*every), times: *times }
            }
        }
    }
}

impl Arrived {
    /// In words: `64 workers`, `1000 requests/s (poisson)`, `4 bursts of 3000, every 5 s`.
    pub(crate) fn words(&self) -> String {
        match self {
            Arrived::Closed { concurrency, .. } => {
                let workers = over_time(concurrency);
                format!("{workers} {}", if workers == "1" { "worker" } else { "workers" })
            }
            Arrived::Open { rate, spacing, .. } => format!("{} requests/s ({spacing})", over_time(rate)),
            Arrived::Bursts { burst, times: 1, .. } => format!("1 burst of {burst}"),
            Arrived::Bursts { burst, every_s, times } => format!("{times} bursts of {burst}, every {every_s} s"),
        }
    }
}

fn over_time(stages: &[StageAsked]) -> String {
    let all: Vec<_> = stages.iter().map(|stage| stage.value.to_string()).collect();
    match all.len() {
        // A plan with many stages would fill the line.
        6.. => format!("{}, {}, … {} ({} stages)", all[0], all[1], all[all.len() - 1], all.len()),
        _ => all.join(", then "),
    }
}

impl From<&Tls> for AskedTls {
    fn from(tls: &Tls) -> Self {
        let resumption = match tls.resumption {
            Resumption::Off => "off",
            Resumption::On => "on",
            Resumption::Both => "both",
        };
        let min_version = match tls.min_version {
            TlsVersion::V12 => "1.2",
            TlsVersion::V13 => "1.3",
        };
        AskedTls {
            verify: tls.verify,
            verify_name: tls.verify_name,
            own_authority: tls.files.ca.is_some(),
            client_certificate: tls.files.cert.is_some(),
            resumption: resumption.to_owned(),
            min_version: min_version.to_owned(),
        }
    }
}

impl From<&Sealed> for AskedSealed {
    fn from(sealed: &Sealed) -> Self {
        let agree = match sealed.agree {
            Agree::PerRequest => "per_request",
            Agree::PerConnection => "per_connection",
            Agree::Reuse => "reuse",
            Agree::InitOnly => "init_only",
        };
        let is_new = sealed.wire == 3;
        let trust = match &sealed.trust {
            Trust::Keys(_) => "pins",
            Trust::Root { .. } => "root",
            Trust::FirstUse(_) | Trust::FirstMet => "first_use",
        };
        AskedSealed {
            trust: is_new.then(|| trust.to_owned()),
            suites: sealed.suites.iter().filter(|_| is_new).map(|suite| suite.name().to_owned()).collect(),
            wire: sealed.wire,
            agree: agree.to_owned(),
            init_path: query_hidden(&sealed.init_path),
            token: sealed.token_file.is_some(),
        }
    }
}

impl From<&Broker> for AskedBroker {
    fn from(broker: &Broker) -> Self {
        let named = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
        AskedBroker {
            socket: broker.socket.display().to_string(),
            wire: broker.wire.name().to_owned(),
            operation: broker.operation.name().to_owned(),
            profile: named(&broker.profile),
            key: named(&broker.key),
            input_bytes: broker.operation.has_length().then_some(broker.input_len),
            batch: broker.batch,
        }
    }
}

impl AskedBroker {
    /// In words: `hash on wire v1, profile Default, 64 bytes, 1 a call`.
    pub(crate) fn words(&self) -> String {
        let mut text = format!("{} on wire {}", self.operation, self.wire);
        let parts = [
            self.profile.as_ref().map(|profile| format!("profile {profile}")),
            self.key.as_ref().map(|key| format!("key {key}")),
            self.input_bytes.map(|bytes| format!("{bytes} bytes")),
            Some(format!("{} a call", self.batch)),
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

fn stages(steps: &Steps) -> Vec<StageAsked> {
    let stage = |stage: &crate::plan::Stage| StageAsked {
        value: finite(stage.value),
        length_s: seconds(stage.length),
        ramp: stage.ramp,
    };
    steps.0.iter().map(stage).collect()
}

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http1 => "http/1.1",
        Protocol::Http2 => "http/2",
        Protocol::Http3 => "http/3",
        Protocol::WebSocket => "websocket",
        Protocol::Broker => "broker",
        Protocol::Channel => "channel",
    }
}

fn assertion(assertion: &Assertion) -> String {
    match assertion {
        Assertion::Status(codes) => {
            let codes: Vec<_> = codes.iter().map(u16::to_string).collect();
            format!("status is {}", codes.join(" or "))
        }
        Assertion::JsonPath { path, equals } => format!("{path} is `{equals}`"),
        Assertion::BodyHolds(text) => format!("body holds `{text}`"),
        Assertion::BodyIs(text) => format!("body is {} bytes of text", text.len()),
    }
}

/// An address without user, password and secrets of its query.
pub(super) fn url(url: &Uri) -> String {
    let Some(authority) = url.authority() else { return query_hidden(&url.to_string()) };
    let host = match authority.as_str().rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_string(),
    };
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    format!("{}://{host}{}", url.scheme_str().unwrap_or("http"), query_hidden(path))
}

/// A path whose query has no secret value.
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
        for (given, told) in [
            ("https://ann:pa55@api.example:8443/a?b=c", "https://***@api.example:8443/a?b=c"),
            (
                "http://[::1]:80/?x=1&Access_Token=abc&api-key=z&y",
                "http://[::1]:80/?x=1&Access_Token=***&api-key=***&y",
            ),
            ("wss://host", "wss://host/"),
        ] {
            assert_eq!(url(&given.parse().unwrap()), told);
        }
    }
}
