//! The native profile: a Noise handshake over the crypto seam of this crate, and records of its own format.
//! `spec/channel.md#native`.

pub(crate) mod handshake;
mod hybrid;
pub(crate) mod record;
mod resolver;

pub(crate) use resolver::wire_form;
