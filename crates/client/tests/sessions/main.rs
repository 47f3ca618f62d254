//! Sealed sessions of all wires as an application has them: over real connections, against services in the same process.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod exchange;
mod ground;
mod hostile;
mod sealed;
mod sealed_ends;
mod sealed_trust;
