//! The native profile: a Noise handshake over our own crypto seam, and records of our own.
//! `spec/channel.md#native`.

pub(crate) mod handshake;
mod hybrid;
pub(crate) mod record;
mod resolver;

use alloc::vec::Vec;

use crate::channel::ChannelError;
use crate::crypto::channel::{ChannelProvider, Curve};

/// The public half of a static key, as grants pin it: 32 bytes of X25519, 33 of P-256, a compressed point.
///
/// # Errors
/// [`ChannelError::SettingInvalid`] when `private` is no key of the curve.
pub fn static_public(
    provider: &dyn ChannelProvider,
    curve: Curve,
    private: &[u8; 32],
) -> Result<Vec<u8>, ChannelError> {
    let invalid = ChannelError::SettingInvalid("local_static");
    let key = provider.agreement_from_private(curve, private).map_err(|_| invalid)?;
    let len = match curve {
        Curve::X25519 => 32,
        Curve::P256 => 33,
    };
    let form = resolver::wire_form(curve, key.public()).ok_or(invalid)?;
    form.get(..len).map(<[u8]>::to_vec).ok_or(invalid)
}
