//! ML-KEM-768 keys of their seed, and encapsulation with given randomness, by RustCrypto: AWS-LC reads expanded keys alone.
//! Keys are read here; every other operation is the provider's.

use alloc::vec::Vec;

#[expect(deprecated, reason = "the seam's libraries read expanded keys, which FIPS 203 defines")]
use ml_kem::ExpandedKeyEncoding;
use ml_kem::kem::TryKeyInit;
use ml_kem::{DecapsulationKey, EncapsulationKey, MlKem768};
use zeroize::Zeroizing;

use super::agreement::{KEM_PRIVATE_LEN, KEM_SEED_LEN};
use crate::error::Error;

/// Expands a seed to the decapsulation key that libraries read (FIPS 203 section 7.1).
#[expect(deprecated, reason = "the seam's libraries read expanded keys, which FIPS 203 defines")]
pub(crate) fn expand(seed: &[u8; KEM_SEED_LEN]) -> Zeroizing<[u8; KEM_PRIVATE_LEN]> {
    let key = DecapsulationKey::<MlKem768>::from_seed((*seed).into());
    let bytes = Zeroizing::new(key.to_expanded_bytes());
    let mut expanded = Zeroizing::new([0; KEM_PRIVATE_LEN]);
    for (to, from) in expanded.iter_mut().zip(bytes.iter()) {
        *to = *from;
    }
    expanded
}

/// Encapsulates with given randomness, for test vectors.
///
/// # Errors
/// [`Error::PublicKeyInvalid`].
pub(crate) fn encapsulate_with(public: &[u8], message: &[u8; 32]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
    let key = EncapsulationKey::<MlKem768>::new_from_slice(public).map_err(|_| Error::PublicKeyInvalid)?;
    let (ciphertext, shared) = key.encapsulate_deterministic(message.into());
    Ok((ciphertext.to_vec(), Zeroizing::new(shared.into())))
}
