//! A client of Sealway's broker over its Unix socket, on the wire `sealway.broker.v1`.
//!
//! [`Client`] connects when it is first used, and again after the broker was away. Every call has a deadline, which the broker
//! is told; what could not be answered for now is tried again within it, after pauses drawn at random; after several failures
//! in a row calls fail at once for a while. A failed call says what kind of failure it was, and whether the broker may have
//! done it all the same.
//!
//! ```no_run
//! use sealway_client::broker::{Client, Options};
//!
//! # async fn example() -> Result<(), sealway_client::broker::Error> {
//! let broker = Client::new(Options::new("/run/sealway/broker.sock"));
//! let hashed = broker.hash("Default", &["one", "two"]).await?;
//! println!("{} digests by {}", hashed.outputs.len(), hashed.descriptor.algorithm);
//! # Ok(())
//! # }
//! ```
//!
//! It may not know: how the broker does what it is asked for, or where keys lie.

mod breaker;
mod call;
#[cfg(test)]
mod call_tests;
mod connection;
mod deadline;
mod error;
pub mod generated;
mod keys;
mod message;
pub mod open;
mod operation;
mod retry;
mod secret;
mod trace;
mod traffic;

pub use breaker::{BreakerOptions, BreakerState};
pub use call::{Client, Options};
pub use deadline::DEADLINE_MAX;
pub use error::{Code, Error, Sent};
pub use keys::{Key, KeyVersion, PublicKey};
pub use message::{
    Batch, Certificate, CertificateRequest, Cipher, Deprecation, Derivation, Descriptor, Encapsulated, Health,
    Information, Plain, Recipient, Refusal, Sealed, Signed,
};
pub use retry::RetryOptions;
pub use secret::Secret;
pub use trace::TraceParent;
