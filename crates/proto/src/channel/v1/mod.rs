//! Profile `flowersec-v1`: handshake in JSON, records of bytes. `spec/channel.md#flowersec-v1`.
//!
//! Key material is one connection's alone. There is no cache of pending handshakes that connections share: with one, a
//! relay that repeats Init and Ack to a second connection would get two sessions with one key and one run of nonces.

pub(crate) mod client;
pub(crate) mod message;
pub(crate) mod record;
pub(crate) mod schedule;
pub(crate) mod server;

/// Types of handshake frames.
pub(crate) const INIT: u8 = 1;
pub(crate) const RESP: u8 = 2;
pub(crate) const ACK: u8 = 3;

use alloc::boxed::Box;

use crate::channel::ChannelError;
use crate::channel::settings::HandshakeRandoms;
use crate::crypto::channel::{AgreementKey, ChannelProvider, Curve};

fn ephemeral(
    provider: &'static dyn ChannelProvider,
    curve: Curve,
    randoms: &HandshakeRandoms,
) -> Result<Box<dyn AgreementKey>, ChannelError> {
    let key = match &randoms.ephemeral {
        Some(private) => provider.agreement_from_private(curve, private),
        None => provider.agreement_generate(curve),
    };
    key.map_err(|_| ChannelError::ChannelProvider)
}

/// The wire knows one form of a key, which is the form of our own; the seam reads compressed points too.
fn check_point(own: &[u8], peer: &[u8]) -> Result<(), ChannelError> {
    if own.len() == peer.len() { Ok(()) } else { Err(ChannelError::PeerKeyInvalid) }
}
