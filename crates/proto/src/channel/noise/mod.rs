//! The native profile: a Noise handshake over our own crypto seam, and records of our own.
//! `spec/channel.md#native`.

pub(crate) mod handshake;
mod hybrid;
pub(crate) mod record;
mod resolver;
