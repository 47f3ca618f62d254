//! The settings of a relay, and every bound.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sealway_proto::relay::CloseReasons;
use sealway_runtime::tls::ServerFiles;

pub use crate::nodes::{NodeFiles, Sharing};

/// The settings of a relay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// The path of the WebSocket.
    pub ws_path: String,
    /// The file of the issuers' keyset.
    pub issuer_keys_file: PathBuf,
    /// The audiences of accepted tokens; empty for any.
    pub aud: Vec<String>,
    /// The issuers of accepted tokens; empty for any.
    pub iss: Vec<String>,
    /// Allowed origins: a whole value of `Origin`, a host with or without its port, or `*.` before a host.
    pub allow_origin: Vec<String>,
    /// Allows requests without `Origin`: they come from no page.
    pub allow_no_origin: bool,
    /// The files of TLS; `None` for plain WebSockets.
    pub tls: Option<ServerFiles>,
    /// The style of the reasons in close frames.
    pub close_reasons: CloseReasons,
    /// The close code of `replace rate limited`.
    pub replace_close_code: u16,
    /// Serves the metrics under the names of v1 too; SIGUSR1 and SIGUSR2 switch `/metrics` on and off.
    pub metrics_compat: bool,
    /// The state shared by several nodes; `None` for a single relay.
    pub sharing: Option<Sharing>,
    /// The bounds of the relay.
    pub limits: Limits,
}

/// Bounds in number, in bytes and in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections at once, in all.
    pub connections_max: usize,
    /// Most channels at once, in all.
    pub channels_max: usize,
    /// Most channels at once of an audience and issuer; 0 for no bound of its own.
    pub channels_per_tenant_max: usize,
    /// Most connections at once of an address; 0 for no bound of its own.
    pub connections_per_address_max: usize,
    /// Most payload that waits in a channel for the other end to attach, in bytes, of each end.
    pub pending_bytes_max: usize,
    /// Most data that waits in memory in all, in bytes.
    pub waiting_bytes_max: usize,
    /// Longest message of an endpoint, in bytes.
    pub message_bytes_max: usize,
    /// Most tokens that are remembered; beyond that none is accepted.
    pub replays_max: usize,
    /// The longest time between `iat` and `exp` of a token, in seconds; 0 for any.
    pub token_lifetime_max_s: i64,
    /// Longest time for the attach message.
    pub attach_timeout: Duration,
    /// Default of the longest time that a channel may stay without a message; a token may set another.
    pub idle_timeout: Duration,
    /// Longest time that an endpoint may leave its data unread.
    pub write_timeout: Duration,
    /// Time of silence after which an endpoint gets a ping; it is closed after three times that.
    pub keepalive: Duration,
    /// Interval of the task that checks all deadlines.
    pub tick: Duration,
    /// Time that a peer has to close after the relay has.
    pub linger: Duration,
    /// Time that channels go on after shutdown began.
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
    /// Creates settings with the defaults.
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
