//! DHKEM over P-256 and X25519 with HKDF-SHA256 (RFC 9180 section 4.1).

use alloc::boxed::Box;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::kem::public_key_error;
use super::labeled::Labels;
use super::{HpkeError, Kem, Secret};
use crate::crypto::agreement::{AgreementKey, AgreementProvider, Curve};
use crate::limits::{KEY_LEN, P256_PUBLIC_LEN};

pub(super) fn public_len(curve: Curve) -> usize {
    match curve {
        Curve::X25519 => KEY_LEN,
        Curve::P256 => P256_PUBLIC_LEN,
    }
}

/// Returns whether bytes are a public key of the curve. On X25519 all 32 bytes are one.
pub(super) fn is_public(provider: &dyn AgreementProvider, curve: Curve, bytes: &[u8]) -> bool {
    bytes.len() == public_len(curve) && (curve == Curve::X25519 || provider.p256_public(bytes).is_ok())
}

/// Reads a private key of 32 bytes.
pub(super) fn private(
    provider: &dyn AgreementProvider,
    curve: Curve,
    bytes: &[u8],
) -> Result<Box<dyn AgreementKey>, HpkeError> {
    let bytes = bytes.try_into().map_err(|_| HpkeError::PrivateKey)?;
    provider.agreement_from_private(curve, bytes).map_err(|_| HpkeError::PrivateKey)
}

/// `DeriveKeyPair` (RFC 9180 section 7.1.3). Returns the private key in bytes.
pub(super) fn derive(
    provider: &dyn AgreementProvider,
    kem: Kem,
    curve: Curve,
    ikm: &[u8],
) -> Result<Zeroizing<[u8; KEY_LEN]>, HpkeError> {
    let suite_id = kem.suite_id();
    let labeled = Labels { provider, suite_id: &suite_id };
    let prk = labeled.extract(&[], "dkp_prk", ikm);
    match curve {
        Curve::X25519 => labeled.expand_array(&prk, "sk", &[]),
        Curve::P256 => {
            // One candidate in 2³² is no scalar.
            for counter in 0..=u8::MAX {
                let candidate = labeled.expand_array(&prk, "candidate", &[&[counter]])?;
                if private(provider, curve, candidate.as_slice()).is_ok() {
                    return Ok(candidate);
                }
            }
            Err(HpkeError::PrivateKey)
        }
    }
}

/// Draws an ephemeral key, or reads a given one.
pub(super) fn ephemeral(
    provider: &dyn AgreementProvider,
    curve: Curve,
    given: Option<&[u8]>,
) -> Result<Box<dyn AgreementKey>, HpkeError> {
    match given {
        Some(bytes) => private(provider, curve, bytes),
        None => provider.agreement_generate(curve).map_err(|_| HpkeError::Provider),
    }
}

pub(super) fn encapsulate(
    provider: &dyn AgreementProvider,
    kem: Kem,
    curve: Curve,
    public: &[u8],
    randomness: Option<&[u8]>,
) -> Result<(Vec<u8>, Secret), HpkeError> {
    let given = randomness.map(|ikm| derive(provider, kem, curve, ikm)).transpose()?;
    let ephemeral = ephemeral(provider, curve, given.as_ref().map(|bytes| bytes.as_slice()))?;
    let shared = ephemeral.agree(public).map_err(public_key_error)?;
    let secret = extract_and_expand(provider, kem, &shared, ephemeral.public(), public)?;
    Ok((ephemeral.public().to_vec(), secret))
}

pub(super) fn decapsulate(
    provider: &dyn AgreementProvider,
    kem: Kem,
    key: &dyn AgreementKey,
    enc: &[u8],
) -> Result<Secret, HpkeError> {
    extract_and_expand(provider, kem, &agree(key, enc)?, enc, key.public())
}

/// Agrees with the sender's ephemeral key. Its length is checked: the seam also reads compressed points.
pub(super) fn agree(key: &dyn AgreementKey, enc: &[u8]) -> Result<Secret, HpkeError> {
    if enc.len() != key.public().len() {
        return Err(HpkeError::Encapsulated);
    }
    key.agree(enc).map_err(|_| HpkeError::Encapsulated)
}

fn extract_and_expand(
    provider: &dyn AgreementProvider,
    kem: Kem,
    shared: &Secret,
    enc: &[u8],
    public: &[u8],
) -> Result<Secret, HpkeError> {
    let suite_id = kem.suite_id();
    let labeled = Labels { provider, suite_id: &suite_id };
    let prk = labeled.extract(&[], "eae_prk", shared.as_slice());
    labeled.expand_array(&prk, "shared_secret", &[enc, public])
}
