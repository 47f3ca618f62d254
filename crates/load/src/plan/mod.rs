//! What is asked for: a target, what is sent there, when, over which connections, and what counts as right.
//!
//! A [`Plan`] is checked: whoever makes one (flags, a preset, a matrix file, a JMeter plan) has said no to what makes no
//! sense, so that the engine need not.

mod broker;
mod channel;

use sealway_client::sealed::{Suite, Trust};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Uri};
use sealway_runtime::tls::ClientFiles;

pub use self::broker::{Broker, BrokerCertificate, BrokerOperation, BrokerWire};
pub use self::channel::{ChannelMode, ChannelRole, Channels};

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the run is called in reports.
    pub label: String,
    /// Where requests go, and how.
    pub target: Target,
    /// What is sent.
    pub request: Request,
    /// When requests start.
    pub arrival: Arrival,
    /// When the run ends.
    pub stop: Stop,
    /// What is left out of the totals at its beginning.
    pub warm_up: Duration,
    /// Over which connections.
    pub connections: Connections,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// What an answer must be, beside whole and in time.
    pub assertions: Vec<Assertion>,
    /// How long a worker of the closed model waits between an answer and its next request: nothing, or a time drawn
    /// evenly from a range.
    pub think: Option<(Duration, Duration)>,
    /// Threads that offer the load, 1 to 256.
    pub threads: usize,
    /// All that is drawn at random is drawn from it: the same seed, the same run.
    pub seed: u64,
}

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Target {
    /// Scheme, host, port, path and query. `http`, `https`, `ws` or `wss`; the path may be a template, which
    /// [`Request::path`] holds.
    pub url: Uri,
    /// Addresses that are connected to instead of those the name resolves to; taken in turn.
    pub addresses: Vec<SocketAddr>,
    /// What is spoken on a connection.
    pub protocol: Protocol,
    /// TLS, where the scheme asks for it.
    pub tls: Option<Tls>,
    /// Sealed sessions on top.
    pub sealed: Option<Sealed>,
    /// A broker, where the protocol is [`Protocol::Broker`]. Of the rest the URL alone counts then, and stands for the socket.
    pub broker: Option<Broker>,
    /// Channels over a relay, where the protocol is [`Protocol::Channel`]. The URL is the relay's.
    pub channels: Option<Channels>,
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; over plain TCP with prior knowledge.
    Http2,
    /// HTTP/3, over QUIC.
    Http3,
    /// WebSocket: a request is a message, its answer the next message.
    WebSocket,
    /// A broker's, over a Unix socket.
    Broker,
    /// End-to-end encrypted channels over a relay: a request is a channel, and it stays open.
    Channel,
}

/// TLS on the way to the target.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Whom to trust, and what to show.
    pub files: ClientFiles,
    /// Whether the server's certificate is looked at at all. The name in it is always checked, unless this is false.
    pub verify: bool,
    /// Whether a certificate that is trusted must also be of the host's name.
    pub verify_name: bool,
    /// Whether sessions are resumed.
    pub resumption: Resumption,
    /// The lowest version: `"1.2"` or `"1.3"`.
    pub min_version: TlsVersion,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// Whether TLS sessions are resumed. What happened is counted in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// Every handshake is a full one.
    Off,
    /// Whenever the server allows it.
    On,
    /// As `On`; and the times of full and resumed handshakes are kept apart.
    Both,
}

/// Sealed sessions: `spec/session.md`, `spec/session-3.md`.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The wire, 1, 2 or 3.
    pub wire: u8,
    /// When a session is agreed.
    pub agree: Agree,
    /// The path of the init endpoint, on the target's host; wire 3 has one of its own.
    pub init_path: String,
    /// The client id; wire 1 sends none.
    pub client_id: String,
    /// The file with a bearer token for the init.
    pub token_file: Option<PathBuf>,
    /// Wire 3: whose word is taken for who the service is.
    pub trust: Trust,
    /// Wire 3: what is offered, the one that is liked most first; at least one.
    pub suites: Vec<Suite>,
}

/// When a session is agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agree {
    /// For every request: an init and a sealed call are one request of the run.
    PerRequest,
    /// For every connection.
    PerConnection,
    /// Once for each worker, before the measured time.
    Reuse,
    /// Nothing but inits.
    InitOnly,
}

/// What is sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Path and query: text or a template.
    pub path: String,
    /// Headers of the request's own, in order. Values may be templates.
    pub headers: Vec<(HeaderName, Text)>,
    /// The body.
    pub body: Option<Text>,
    /// Where `{{counter}}` starts.
    pub counter_start: u64,
}

/// Bytes that are the same in every request, or made for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// As they are.
    Fixed(Vec<u8>),
    /// A template: `{{uuid}}`, `{{counter}}`, `{{timestamp}}` (milliseconds since 1970), `{{random}}` (64 bits, in decimal).
    Template(String),
}

impl From<&HeaderValue> for Text {
    fn from(value: &HeaderValue) -> Self {
        Text::Fixed(value.as_bytes().to_vec())
    }
}

/// When requests start.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    /// The closed model: so many workers, each sends its next request when it has its answer.
    Closed {
        /// Workers.
        concurrency: Steps,
        /// Workers that start each second, as a share of all, 0.0 to 1.0; 0 starts all at once.
        ramp_share: f64,
        /// Requests a worker makes at most; 0 for no bound.
        loops: u64,
    },
    /// The open model: requests start when they are due, whatever the target does.
    Open {
        /// Requests a second.
        rate: Steps,
        /// How they lie within a second.
        spacing: Spacing,
        /// Requests under way at most; what is due beyond waits, and its wait is in its response time.
        in_flight_max: usize,
    },
    /// Bursts: so many requests at one moment, each over a connection of its own unless connections are reused.
    Bursts {
        /// Requests in a burst.
        burst: usize,
        /// From one burst's start to the next.
        every: Duration,
        /// How many bursts.
        times: usize,
    },
}

/// How arrivals of the open model lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// At equal distances.
    Even,
    /// As a Poisson process: like users who know nothing of each other.
    Poisson,
}

/// A value over time: stages, one after another; the last one's value stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps(pub Vec<Stage>);

/// One stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// What it reaches.
    pub value: f64,
    /// How long it takes; the last one's may be zero, for as long as the run goes.
    pub length: Duration,
    /// Whether the value goes there in a straight line from the stage before (from 0 in the first), or at once.
    pub ramp: bool,
}

impl Steps {
    /// The same value all the time.
    pub fn constant(value: f64) -> Self {
        Steps(vec![Stage { value, length: Duration::ZERO, ramp: false }])
    }

    /// The value at this time since the start.
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

    /// The largest value there is.
    pub fn max(&self) -> f64 {
        self.0.iter().fold(0.0, |max, stage| stage.value.max(max))
    }
}

/// When the run ends: whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Measured time, the warm-up not counted.
    pub duration: Option<Duration>,
    /// Requests, the warm-up's not counted.
    pub requests: Option<u64>,
}

/// Over which connections.
#[derive(Clone, Debug)]
pub struct Connections {
    /// Whether a connection is used for more than one request.
    pub reuse: bool,
    /// Requests at a time over one connection; more than 1 needs HTTP/2 or 3.
    pub streams: usize,
    /// Local addresses to come from, in turn; each has about 28,000 ports towards one server.
    pub sources: Vec<IpAddr>,
    /// Whether a request that asks for the connection's end says so in `Connection: close`, without reuse.
    pub close_header: bool,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To open a connection, TLS included.
    pub connect: Duration,
    /// From a request's start to the last byte of its answer.
    pub request: Duration,
}

/// What an answer must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Assertion {
    /// Its status is one of these. Without such an assertion 200 to 299 is right.
    Status(Vec<u16>),
    /// The body, as JSON, has this value at this JSONPath; the value may be a template, filled as the request was.
    JsonPath {
        /// A path of RFC 9535: names, indices and wildcards.
        path: String,
        /// The value, as text.
        equals: String,
    },
    /// The body holds this text.
    BodyHolds(String),
    /// The body is this text.
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
