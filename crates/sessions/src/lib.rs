//! The session authority: it agrees keys with clients, keeps sessions and nonces in a store, and opens sealed calls for
//! the gateway. `spec/session.md`.
//!
//! It may not know: the gateway, the broker, the relay, nor how a request was routed to it.
#![warn(missing_docs)]

pub mod admin;
pub mod answer;
pub mod authority;
pub mod config;
pub mod endpoint;
pub mod kek;
pub mod limit;
pub mod peer;
mod random;
pub mod store;
pub mod token;

pub use answer::Refusal;
pub use authority::{Authority, Policy};
