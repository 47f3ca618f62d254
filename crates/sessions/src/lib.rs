//! The session authority: it agrees keys with clients, keeps sessions and nonces in a store, and opens sealed calls for
//! the gateway. `spec/session.md`.
//!
//! It may not know the gateway, the broker, the relay, nor how a request was routed to it.
#![warn(missing_docs)]

pub mod admin;
pub mod answer;
pub mod authentication;
pub mod authority;
pub mod config;
pub mod endpoint;
pub mod identity;
pub mod kek;
pub mod limit;
mod metrics_help;
pub mod native;
pub mod peer;
pub mod policies;
mod random;
mod share;
pub mod store;
pub mod token;
mod usage;

pub use answer::Refusal;
pub use authority::{Authority, ListenerKeyFault, Policy};
pub use metrics_help::METRICS;
pub use usage::WireUse;
