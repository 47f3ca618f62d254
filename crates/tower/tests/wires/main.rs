//! The layer in front of an application, over real sockets: accepted requests, rejections with their texts, and
//! answers.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod compat;
mod ground;
mod native;
