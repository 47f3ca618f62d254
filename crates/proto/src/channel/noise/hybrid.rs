//! ML-KEM-768 beside the curve: a second pre-shared key, mixed in at the end of message 2. The client's ephemeral key
//! travels in the payload of message 1, the ciphertext before the Noise part of message 2. `spec/channel.md#hybrid`.
//!
//! An attacker who holds a recording must break both the curve and ML-KEM to read it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use crate::channel::error::of_provider;
use crate::channel::settings::KemRandoms;
use crate::channel::{ChannelError, NativeSuite};
use crate::crypto::agreement::{AgreementProvider, KEM_CIPHERTEXT_LEN, KEM_PUBLIC_LEN, Kem, KemKey};

const LABEL: &[u8] = b"sealway-channel-v1 ML-KEM-768";

/// The place in the pattern at which the second key is mixed in: the end of message 2.
pub(super) const PSK_PLACE: usize = 2;

/// Derives the second key: bound to the encapsulation key and the ciphertext, so that neither can be another's.
fn psk(provider: &dyn AgreementProvider, secret: &[u8; 32], public: &[u8], ciphertext: &[u8]) -> Zeroizing<[u8; 32]> {
    provider.hmac_sha256(secret, &[LABEL, &provider.sha256(&[public, ciphertext])])
}

/// Generates the client's ML-KEM key, if the suite has one.
pub(super) fn generate(
    provider: &'static dyn AgreementProvider,
    suite: NativeSuite,
    randoms: &KemRandoms,
) -> Result<Option<Box<dyn KemKey>>, ChannelError> {
    let key = match randoms {
        _ if !suite.hybrid => return Ok(None),
        KemRandoms::Private(private) => provider.kem_from_private(Kem::MlKem768, &private[..]),
        KemRandoms::Draw | KemRandoms::Encapsulated(..) => provider.kem_generate(Kem::MlKem768),
    };
    key.map(Some).map_err(of_provider)
}

/// Performs the server's part: a ciphertext for the client's key, and the second key.
pub(super) fn encapsulate(
    provider: &'static dyn AgreementProvider,
    public: &[u8],
    randoms: KemRandoms,
) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), ChannelError> {
    if public.len() != KEM_PUBLIC_LEN {
        return Err(ChannelError::PeerKeyInvalid);
    }
    let (ciphertext, secret) = match randoms {
        KemRandoms::Encapsulated(ciphertext, secret) => (ciphertext, secret),
        KemRandoms::Draw | KemRandoms::Private(_) => {
            provider.kem_encapsulate(Kem::MlKem768, public).map_err(of_provider)?
        }
    };
    let psk = psk(provider, &secret, public, &ciphertext);
    Ok((ciphertext, psk))
}

/// Performs the client's part: splits message 2 into the ciphertext and the Noise message, and returns the second key.
pub(super) fn decapsulate<'m>(
    provider: &'static dyn AgreementProvider,
    key: &dyn KemKey,
    payload: &'m [u8],
) -> Result<(&'m [u8], Zeroizing<[u8; 32]>), ChannelError> {
    let (ciphertext, noise) =
        payload.split_at_checked(KEM_CIPHERTEXT_LEN).ok_or(ChannelError::HandshakeFieldInvalid("ciphertext"))?;
    let secret = key.decapsulate(ciphertext).map_err(of_provider)?;
    Ok((noise, psk(provider, &secret, key.public(), ciphertext)))
}
