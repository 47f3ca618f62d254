//! Sealed sessions of all wires from an application's view: over real connections, against services in the same
//! process.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod errors;
mod exchange;
mod ground;
mod hostile;
mod sealed;
mod sealed_ends;
mod sealed_trust;
mod settings;
