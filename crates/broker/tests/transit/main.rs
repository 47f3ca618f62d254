//! The transit API on its listener, by requests as its clients make them, and by unchanged clients.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod clients;
mod ground;
mod operations;
mod rules;
mod wrong_inputs;
