//! The layer in front of an application, over real sockets: what opens, what is refused and in which words, what comes back.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod ground;
mod old;
mod three;
