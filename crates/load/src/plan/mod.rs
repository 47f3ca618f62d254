//! The plan of a run: target, request, arrival of requests, connections, and assertions.
//!
//! A [`Plan`] is checked: its makers (flags, presets, matrix files, JMeter plans) reject contradictions, so that the engine need
//! not.

mod broker;
mod channel;

use sealway_client::one_shot::Kem;
use sealway_client::{OneShotTrust, SignatureAlgorithm, Suite, Trust};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Uri};
use sealway_runtime::tls::ClientFiles;
use serde::{Deserialize, Serialize};

pub use sealway_client::mle::MessageSettings;

pub use self::broker::{Broker, BrokerCertificate, BrokerOperation, BrokerWire};
pub use self::channel::{ChannelMode, ChannelRole, Channels};
use crate::named::named;
use crate::record::serial;

/// Complete description of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the run in reports.
    pub label: String,
    /// Server, protocol and layers that requests go over.
    pub target: Target,
    /// Request that each worker sends.
    pub request: Request,
    /// Model and amount of the offered load.
    pub arrival: Arrival,
    /// Conditions that end the run.
    pub stop: Stop,
    /// Time at the beginning that is left out of the totals.
    pub warm_up: Duration,
    /// Use and number of connections.
    pub connections: Connections,
    /// Time limits of connections and requests.
    pub timeouts: Timeouts,
    /// Conditions on a response, besides being complete and in time.
    pub assertions: Vec<Assertion>,
    /// Pause of a worker of a closed loop between a response and its next request: none, or a time drawn evenly from a range.
    pub think: Option<(Duration, Duration)>,
    /// Threads that offer the load, 1 to 256.
    pub threads: usize,
    /// Seed of all random values: the same seed gives the same values.
    pub seed: u64,
}

impl Plan {
    /// Creates a plan that sends `GET` to this URL over HTTP/1.1, by one worker that reuses its connection, until it is stopped.
    pub fn of(url: Uri) -> Plan {
        let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Plan {
            label: String::new(),
            target: Target {
                url,
                addresses: Vec::new(),
                protocol: Protocol::Http1,
                tls: None,
                sealed: None,
                mle: None,
                one_shot: None,
                broker: None,
                channels: None,
            },
            request: Request { method: Method::GET, path, headers: Vec::new(), body: None, counter_start: 0 },
            arrival: Arrival::Closed { concurrency: Steps::constant(1.0), ramp_share: 0.0, loops: 0 },
            stop: Stop { duration: None, requests: None },
            warm_up: Duration::ZERO,
            connections: Connections { reuse: true, streams: 1, close_header: false, sources: Vec::new() },
            timeouts: Timeouts { connect: Duration::from_secs(10), request: Duration::from_secs(30) },
            assertions: Vec::new(),
            think: None,
            threads: 1,
            seed: 1,
        }
    }
}

/// Server, protocol and layers that requests go over.
#[derive(Clone, Debug)]
pub struct Target {
    /// URL with the scheme `http`, `https`, `ws` or `wss`, host, port, path and query. The path may be a template, which
    /// [`Request::path`] holds.
    pub url: Uri,
    /// Addresses to connect to in turn, instead of those that the name resolves to.
    pub addresses: Vec<SocketAddr>,
    /// Protocol of the connections to the target.
    pub protocol: Protocol,
    /// TLS settings, if the scheme needs TLS.
    pub tls: Option<Tls>,
    /// Sealed sessions on top of HTTP.
    pub sealed: Option<SealedSessions>,
    /// Messages encrypted as card schemes do, on top of HTTP. Not beside `sealed`.
    pub mle: Option<MessageSettings>,
    /// Requests sealed without a session, on top of HTTP. Not beside `sealed` and `mle`.
    pub one_shot: Option<OneShotRequests>,
    /// Broker, for [`Protocol::Broker`]. Then of the other fields only the URL counts, which stands for the socket.
    pub broker: Option<Broker>,
    /// Channels over a relay, for [`Protocol::Channel`]. The URL is the relay's.
    pub channels: Option<Channels>,
}

named! {
    /// Protocol of the connections to the target.
    pub enum Protocol {
        /// HTTP/1.1, one request at a time on a connection.
        Http1 = "http/1.1",
        /// HTTP/2; over plain TCP with prior knowledge.
        Http2 = "http/2",
        /// HTTP/3, which is always over QUIC.
        Http3 = "http/3",
        /// WebSocket: a request is a message, its response the next message.
        WebSocket = "websocket",
        /// A broker's wire over a Unix socket.
        Broker = "broker",
        /// End-to-end encrypted channels over a relay: a request is a channel, which stays open.
        Channel = "channel",
    }
}

/// Settings of TLS towards the target.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Files of trusted authorities and of the client's certificate.
    pub files: ClientFiles,
    /// True if the server's certificate is verified. If it is not, neither is its name.
    pub verify: bool,
    /// True if a trusted certificate must also be for the host's name.
    pub verify_name: bool,
    /// Use of TLS session resumption.
    pub resumption: Resumption,
    /// Lowest version to accept: `"1.2"` or `"1.3"`.
    pub min_version: TlsVersion,
}

named! {
    /// Version of the TLS protocol.
    pub enum TlsVersion {
        /// TLS 1.2 of RFC 5246.
        V12 = "1.2",
        /// TLS 1.3 of RFC 8446.
        V13 = "1.3",
    }
}

named! {
    /// Use of TLS session resumption. Full and resumed handshakes are counted in any case.
    pub enum Resumption {
        /// Makes every handshake a full one.
        Off = "off",
        /// Resumes a session if the server allows it.
        On = "on",
        /// Resumes like `On`, and times full and resumed handshakes separately.
        Both = "both",
    }
}

/// Sealed sessions on top of HTTP: `spec/session.md`, `spec/session-3.md`.
#[derive(Clone, Debug)]
pub struct SealedSessions {
    /// Version of the wire: 1, 2 or 3.
    pub wire: u8,
    /// Lifetime of each sealed session.
    pub agree: Agree,
    /// Path of the init endpoint on the target's host; wire 3 has a fixed path.
    pub init_path: String,
    /// Id of the client; wire 1 sends none.
    pub client_id: String,
    /// File with a bearer token for the init.
    pub token_file: Option<PathBuf>,
    /// Verification of the service's identity, for wire 3.
    pub trust: Trust,
    /// Suites to offer, for wire 3, in order of preference; at least one.
    pub suites: Vec<Suite>,
    /// Wire 3: signature algorithms that are accepted; none for no restriction.
    pub signature_algorithms: Vec<SignatureAlgorithm>,
}

named! {
    /// Lifetime of a sealed session.
    pub enum Agree {
        /// One session for each request: an init and a sealed call are one request of the run.
        PerRequest = "per-request",
        /// One session for each connection.
        PerConnection = "per-connection",
        /// One session for each worker, made before the measured time.
        Reuse = "reuse",
        /// Inits alone, without sealed calls.
        InitOnly = "init-only",
    }
}

/// Requests that are sealed to a public key, without a session: `spec/one-shot.md`, EHBP, Oblivious HTTP (RFC 9458).
#[derive(Clone, Debug)]
pub struct OneShotRequests {
    /// Protocol that seals requests and answers.
    pub protocol: OneShotProtocol,
    /// Trust in the service's keys, which wire 4 needs. The other protocols know pinned configurations alone; without them, the key is
    /// fetched from the target and trusted.
    pub trust: Option<OneShotTrust>,
    /// KEMs of the keys that are used; empty for all.
    pub kems: Vec<Kem>,
    /// Wire 4: name of a pre-shared key, and the file with its 32 bytes in base64.
    pub psk: Option<(String, PathBuf)>,
    /// Oblivious HTTP: scheme and authority of the inner requests. The target's URL is that of the gateway or the relay, and the
    /// request's path is the inner one.
    pub inner: Option<Uri>,
}

named! {
    /// Protocol of a request that is sealed without a session.
    pub enum OneShotProtocol {
        /// Wire 4, whose keys are those of HPKE.
        Hpke = "hpke",
        /// Encrypted HTTP Body Protocol: bodies alone are sealed.
        Ehbp = "ehbp",
        /// Oblivious HTTP, requests and responses in one piece.
        Ohttp = "ohttp",
        /// Oblivious HTTP, requests and responses in chunks.
        OhttpChunked = "ohttp-chunked",
    }
}

impl OneShotProtocol {
    /// Returns whether the protocol is Oblivious HTTP.
    pub fn is_ohttp(self) -> bool {
        matches!(self, OneShotProtocol::Ohttp | OneShotProtocol::OhttpChunked)
    }
}

/// Request that each worker sends.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method of each request, such as `GET`.
    pub method: Method,
    /// Path and query: text or a template.
    pub path: String,
    /// Headers that the plan adds, in order. Values may be templates.
    pub headers: Vec<(HeaderName, Text)>,
    /// Body of the request, if it has one.
    pub body: Option<Text>,
    /// First value of `{{counter}}` in a run.
    pub counter_start: u64,
}

/// Bytes that are the same in every request, or a template that is filled for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// Bytes that are sent unchanged.
    Fixed(Vec<u8>),
    /// A template: `{{uuid}}`, `{{counter}}`, `{{timestamp}}` (milliseconds since 1970), `{{random}}` (64 bits, in decimal).
    Template(String),
}

impl From<&HeaderValue> for Text {
    fn from(value: &HeaderValue) -> Self {
        Text::Fixed(value.as_bytes().to_vec())
    }
}

/// Model and amount of the offered load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum Arrival {
    /// Closed model: a number of workers, each of which sends its next request after its response.
    Closed {
        /// Number of workers, and its changes over time.
        concurrency: Steps,
        /// Workers that start each second, as a share of all, 0.0 to 1.0; 0 starts all at once.
        ramp_share: f64,
        /// Upper bound of the requests of a worker; 0 for no bound.
        loops: u64,
    },
    /// Open model: requests start when they are due, however the target behaves.
    Open {
        /// Requests a second over time.
        rate: Steps,
        /// Distribution of arrivals over time.
        spacing: Spacing,
        /// Upper bound of the requests under way. Requests beyond it wait, and the wait counts as response time.
        in_flight_max: usize,
    },
    /// Bursts: many requests at one moment, each over a connection of its own unless connections are reused.
    Bursts {
        /// Number of requests in a burst.
        burst: usize,
        /// Time from the start of one burst to the start of the next.
        #[serde(rename = "every_s", with = "serial::seconds")]
        every: Duration,
        /// Number of bursts in the run.
        times: usize,
    },
}

impl Arrival {
    /// Describes the load: `64 workers`, `1000 requests/s (poisson)`, `4 bursts of 3000, every 5 s`.
    pub(crate) fn words(&self) -> String {
        match self {
            Arrival::Closed { concurrency, .. } => {
                let workers = concurrency.words();
                format!("{workers} {}", if workers == "1" { "worker" } else { "workers" })
            }
            Arrival::Open { rate, spacing, .. } => format!("{} requests/s ({})", rate.words(), spacing.name()),
            Arrival::Bursts { burst, times: 1, .. } => format!("1 burst of {burst}"),
            Arrival::Bursts { burst, every, times } => {
                format!("{times} bursts of {burst}, every {} s", every.as_secs_f64())
            }
        }
    }
}

named! {
    /// Distribution of arrivals over time, in an open loop.
    pub enum Spacing {
        /// Arrivals at equal distances in time.
        Even = "even",
        /// Arrivals of a Poisson process, as of many independent users.
        Poisson = "poisson",
    }
}

/// Value over time: stages in turn; after the last stage its value stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steps(pub Vec<Stage>);

/// Stage of a value over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Value at the end of the stage.
    pub value: f64,
    /// Length of the stage. That of the last one may be zero, because its value stays to the end of the run.
    #[serde(rename = "length_s", with = "serial::seconds")]
    pub length: Duration,
    /// True if the value changes in a straight line from the stage before (from 0 in the first stage); false if it changes at
    /// once.
    pub ramp: bool,
}

impl Steps {
    /// Creates a value that never changes.
    pub fn constant(value: f64) -> Self {
        Steps(vec![Stage { value, length: Duration::ZERO, ramp: false }])
    }

    /// Returns the value at this time since the start.
    pub fn at(&self, time: Duration) -> f64 {
        let (mut start, mut from) = (Duration::ZERO, 0.0);
        for stage in &self.0 {
            let end = start + stage.length;
            if time < end {
                let done = (time - start).as_secs_f64() / stage.length.as_secs_f64();
                return if stage.ramp { from + (stage.value - from) * done } else { stage.value };
            }
            (start, from) = (end, stage.value);
        }
        from
    }

    /// Describes the stages: `100, then 200`; of more than five only the first two and the last.
    fn words(&self) -> String {
        let all: Vec<_> = self.0.iter().map(|stage| stage.value.to_string()).collect();
        match all.len() {
            // A plan with many stages would fill the line.
            6.. => format!("{}, {}, … {} ({} stages)", all[0], all[1], all[all.len() - 1], all.len()),
            _ => all.join(", then "),
        }
    }

    /// Returns the largest value of all stages, at least 0.
    pub fn max(&self) -> f64 {
        self.0.iter().fold(0.0, |max, stage| stage.value.max(max))
    }
}

/// End of the run: at the first of these bounds, or when it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Bound of the measured time, without the warm-up.
    pub duration: Option<Duration>,
    /// Bound of the requests, without those of the warm-up.
    pub requests: Option<u64>,
}

/// Use and number of connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// True if a connection carries more than one request.
    pub reuse: bool,
    /// Requests at a time over one connection; more than 1 needs HTTP/2, HTTP/3 or a broker.
    pub streams: usize,
    /// True if the last request on each connection carries `Connection: close`; for HTTP/1.1 without reuse.
    pub close_header: bool,
    /// Local addresses to connect from, in turn; each has about 28,000 ports towards one server.
    pub sources: Vec<IpAddr>,
}

/// Time limits of connections and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// Limit for opening a connection, TLS included.
    #[serde(rename = "connect_timeout_s", with = "serial::seconds")]
    pub connect: Duration,
    /// Limit from the start of a request to the last byte of its response.
    #[serde(rename = "request_timeout_s", with = "serial::seconds")]
    pub request: Duration,
}

/// Condition on a response; a response that misses it is a failed request.
#[derive(Clone, Debug, PartialEq)]
pub enum Assertion {
    /// The status is one of these. Without such an assertion, 200 to 299 passes.
    Status(Vec<u16>),
    /// The body, as JSON, has this value at this JSONPath; the value may be a template, filled with the same values as the
    /// request.
    JsonPath {
        /// JSONPath of RFC 9535: names, indices and wildcards.
        path: String,
        /// Expected value, compared as text.
        equals: String,
    },
    /// The body contains this text.
    BodyHolds(String),
    /// The body equals this text.
    BodyIs(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_go_in_a_line_or_at_once_and_the_last_value_stays() {
        let second = Duration::from_secs(1);
        let steps = Steps(vec![
            Stage { value: 100.0, length: second * 10, ramp: true },
            Stage { value: 50.0, length: second * 10, ramp: false },
        ]);
        let at = |time: u32| steps.at(second * time);
        assert_eq!((at(0), at(5), at(9), at(10), at(15), at(60)), (0.0, 50.0, 90.0, 50.0, 50.0, 50.0));
        assert_eq!(Steps::constant(7.0).at(Duration::ZERO), 7.0);
    }
}
