//! The shell that every Sealway service shares: where configuration comes from, listeners and the HTTP connections on
//! them, logs, metrics and traces, shutdown, and the one door to the clock.
//!
//! It may not know what a session, a profile or a channel is.
#![warn(missing_docs)]

#[cfg(feature = "http")]
pub mod certs;
pub mod clock;
pub mod config;
#[cfg(feature = "http")]
pub mod http;
pub mod listener;
pub mod log_tail;
pub mod process;
pub mod shutdown;
pub mod telemetry;

#[cfg(feature = "http")]
pub mod tls;
