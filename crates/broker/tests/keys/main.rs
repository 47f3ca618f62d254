//! The key store and the operations with its keys, from outside of the crate.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod acvp;
mod ground;
mod hostile;
mod interrupted;
mod issuer;
mod operations;
mod post_quantum;
mod published;
#[cfg(not(feature = "fips"))]
mod standards;
mod store;
#[cfg(not(feature = "fips"))]
mod token;
mod unwrap;
