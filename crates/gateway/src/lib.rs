//! The HTTP data plane: it accepts requests on its listeners, finds their route, opens sealed ones, forwards them to
//! the service, and seals the answers.
//!
//! It may not know the broker and the relay, or a byte of a sealed message (which belongs to `sealway_proto`).
#![warn(missing_docs)]

mod access_log;
pub mod admin;
pub mod body;
pub mod config;
pub mod cors;
pub mod demo;
mod forward;
pub mod gateway;
pub mod inspect;
mod metrics_help;
mod mle;
mod ohttp;
pub mod one_shot;
pub mod policy;
pub mod route;
mod sealed;
pub mod server;
pub mod standalone;
mod token_key;
pub mod traffic;
mod upgrade;
mod uploads;
pub mod upstream;
mod used;

pub use config::GatewayConfig;
pub use gateway::{Gateway, GatewayService};
pub use metrics_help::METRICS;
pub use mle::{jose_provider, jws_provider};
/// Hosts the module of a token, for the process that starts this one and calls this function there.
pub use sealway_pkcs11::{METRICS as PKCS11_METRICS, run_host as run_pkcs11_host};
pub use server::Server;
