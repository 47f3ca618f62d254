//! All that can be set of a relay, and every bound.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sealway_proto::relay::CloseReasons;
use sealway_runtime::tls::ServerFiles;

pub use crate::nodes::Sharing;

/// How a relay is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// The path of the WebSocket.
    pub ws_path: String,
    /// The keyset of issuers.
    pub issuer_keys_file: PathBuf,
    /// The audiences that tokens are for; empty for any.
    pub aud: Vec<String>,
    /// The issuers that are served; empty for any.
    pub iss: Vec<String>,
    /// Values of `Origin` that are allowed, byte for byte.
    pub allow_origin: Vec<String>,
    /// Whether a request without `Origin` is allowed: it is from no page.
    pub allow_no_origin: bool,
    /// TLS; none for plain WebSockets.
    pub tls: Option<ServerFiles>,
    /// How reasons of close frames are written.
    pub close_reasons: CloseReasons,
    /// The code of `replace rate limited`.
    pub replace_close_code: u16,
    /// Serves the metrics under the names of v1 too; SIGUSR1 and SIGUSR2 switch `/metrics` on and off.
    pub metrics_compat: bool,
    /// What several nodes share; none for a relay alone.
    pub sharing: Option<Sharing>,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds in number, in bytes and in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections_max: usize,
    /// Channels at once.
    pub channels_max: usize,
    /// Channels at once of an audience and issuer; 0 for no bound of its own.
    pub channels_per_tenant_max: usize,
    /// Connections at once of an address; 0 for no bound of its own.
    pub connections_per_address_max: usize,
    /// Payloads that wait in a channel for the other end to come, in bytes, of each end.
    pub pending_bytes_max: usize,
    /// What waits in memory in all, in bytes.
    pub waiting_bytes_max: usize,
    /// A message, in bytes.
    pub message_bytes_max: usize,
    /// Tokens that are remembered; over that none is taken.
    pub replays_max: usize,
    /// The longest time between `iat` and `exp` of a token, in seconds; 0 for any.
    pub token_lifetime_max_s: i64,
    /// How long the attach message may take.
    pub attach_timeout: Duration,
    /// How long a channel may stay without a message, unless its token says otherwise.
    pub idle_timeout: Duration,
    /// How long an endpoint may leave what is sent to it unread.
    pub write_timeout: Duration,
    /// How long an endpoint may be silent before it is asked for a sign of life; it is cut off after three times that.
    pub keepalive: Duration,
    /// How often time is looked at.
    pub tick: Duration,
    /// How long a peer has to close when we have.
    pub linger: Duration,
    /// How long channels go on after stopping began.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 4096,
            channels_max: 2048,
            channels_per_tenant_max: 0,
            connections_per_address_max: 0,
            pending_bytes_max: 256 * 1024,
            waiting_bytes_max: 256 * 1024 * 1024,
            message_bytes_max: 1024 * 1024,
            replays_max: 1_000_000,
            token_lifetime_max_s: 3600,
            attach_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(25),
            tick: Duration::from_millis(500),
            linger: Duration::from_secs(2),
            drain: Duration::from_secs(5),
        }
    }
}

impl Settings {
    /// With the defaults.
    pub fn new(listen: Vec<SocketAddr>, issuer_keys_file: impl Into<PathBuf>) -> Self {
        Settings {
            listen,
            ws_path: "/ws".into(),
            issuer_keys_file: issuer_keys_file.into(),
            aud: Vec::new(),
            iss: Vec::new(),
            allow_origin: Vec::new(),
            allow_no_origin: true,
            tls: None,
            close_reasons: CloseReasons::Words,
            replace_close_code: 1013,
            metrics_compat: false,
            sharing: None,
            limits: Limits::default(),
        }
    }
}
