//! A client of Sealway's broker over its Unix socket, on the wire `sealway.broker.v1`.
//!
//! [`Client`] connects at its first call, and reconnects after the broker was away. Every call has a deadline, which
//! the client sends to the broker. A call that fails with UNAVAILABLE is retried within its deadline, after random
//! pauses. A circuit breaker makes calls fail at once for a while after several failures in a row. An [`Error`] names
//! the kind of failure, and says if the broker may have executed the call.
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
//! The client does not know how the broker executes an operation, or where keys lie.

mod breaker;
mod call;
#[cfg(test)]
mod call_tests;
mod connection;
mod deadline;
mod error;
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
pub use error::{Code, Delivery, Error};
pub use keys::{Key, KeyVersion, PublicKey, UsableKey};
pub use message::{
    Batch, Certificate, CertificateRequest, Cipher, DecryptInput, Deprecation, Derivation, Descriptor, Encapsulation,
    Health, Information, Plain, ProfileOperations, Recipient, Refusal, Verification, WrappedKey,
};
pub use retry::RetryOptions;
pub use secret::Secret;
pub use trace::TraceParent;
