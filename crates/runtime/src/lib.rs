//! The shell of every Sealway service: sources of configuration, listeners and the HTTP connections on them, logs, metrics and
//! traces, shutdown, the output of commands, and the access to the clock.
//!
//! It does not know sessions, profiles or channels.
#![warn(missing_docs)]

#[cfg(feature = "http")]
pub mod certs;
pub mod clock;
pub mod config;
pub mod dial;
#[cfg(feature = "http")]
pub mod http;
/// HTTP/2 alone, for a build without listeners and TLS.
#[cfg(all(feature = "h2", not(feature = "http")))]
pub mod http {
    pub mod h2;
}
pub mod inventory;
pub mod listener;
pub mod log_tail;
pub mod output;
pub mod process;
#[cfg(feature = "redis")]
pub mod redis;
pub mod shutdown;
pub mod telemetry;

#[cfg(feature = "http")]
pub mod tls;
