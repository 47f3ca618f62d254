//! The KEMs, their lengths, and the sender's half: public keys and encapsulation.

use alloc::vec::Vec;

use super::hybrid::{self, Group};
use super::{HpkeError, Secret, dh};
use crate::crypto::agreement::{AgreementProvider, Curve, KEM_CIPHERTEXT_LEN, KEM_PUBLIC_LEN};
use crate::error::Error;
use crate::limits::KEY_LEN;

/// The prime of ML-KEM (FIPS 203): each coefficient of a key is below it.
const Q: u16 = 3329;
/// The part of an encapsulation key that holds coefficients, in bytes; a seed of 32 follows.
const COEFFICIENTS_LEN: usize = KEM_PUBLIC_LEN - 32;

/// A key encapsulation mechanism of HPKE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kem {
    /// DHKEM(P-256, HKDF-SHA256) of RFC 9180, id 0x0010.
    P256,
    /// DHKEM(X25519, HKDF-SHA256) of RFC 9180, id 0x0020.
    X25519,
    /// ML-KEM-768 alone (FIPS 203), id 0x0041.
    MlKem768,
    /// MLKEM768-P256: ML-KEM-768 and P-256, id 0x0050.
    MlKem768P256,
    /// MLKEM768-X25519, which is X-Wing, id 0x647a.
    XWing,
}

/// The parts that a KEM consists of.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Dh(Curve),
    MlKem,
    Hybrid(Group),
}

impl Kem {
    /// Every KEM, by ascending id.
    pub const ALL: [Kem; 5] = [Kem::P256, Kem::X25519, Kem::MlKem768, Kem::MlKem768P256, Kem::XWing];

    /// Returns the KEM of an id, if this module has it.
    pub fn from_id(id: u16) -> Option<Kem> {
        Kem::ALL.into_iter().find(|kem| kem.id() == id)
    }

    /// The id in IANA's registry "HPKE KEM Identifiers".
    pub fn id(self) -> u16 {
        match self {
            Kem::P256 => 0x0010,
            Kem::X25519 => 0x0020,
            Kem::MlKem768 => 0x0041,
            Kem::MlKem768P256 => 0x0050,
            Kem::XWing => 0x647a,
        }
    }

    /// The length of a public key (Npk), in bytes.
    pub fn public_len(self) -> usize {
        match self.form() {
            Form::Dh(curve) => dh::public_len(curve),
            Form::MlKem => KEM_PUBLIC_LEN,
            Form::Hybrid(group) => KEM_PUBLIC_LEN + dh::public_len(group.curve()),
        }
    }

    /// The length of an encapsulated secret (Nenc), in bytes.
    pub fn enc_len(self) -> usize {
        match self.form() {
            Form::Dh(curve) => dh::public_len(curve),
            Form::MlKem => KEM_CIPHERTEXT_LEN,
            Form::Hybrid(group) => KEM_CIPHERTEXT_LEN + dh::public_len(group.curve()),
        }
    }

    /// The length of a private key (Nsk), in bytes: 64 of ML-KEM, whose private key is its seed, and 32 of all others.
    pub fn private_len(self) -> usize {
        match self.form() {
            Form::MlKem => 64,
            Form::Dh(_) | Form::Hybrid(_) => KEY_LEN,
        }
    }

    pub(super) fn form(self) -> Form {
        match self {
            Kem::P256 => Form::Dh(Curve::P256),
            Kem::X25519 => Form::Dh(Curve::X25519),
            Kem::MlKem768 => Form::MlKem,
            Kem::MlKem768P256 => Form::Hybrid(Group::P256),
            Kem::XWing => Form::Hybrid(Group::X25519),
        }
    }

    /// The suite id of derivations within the KEM: `KEM` and its id (RFC 9180 section 4.1).
    pub(super) fn suite_id(self) -> [u8; 5] {
        let [high, low] = self.id().to_be_bytes();
        [b'K', b'E', b'M', high, low]
    }
}

/// A public key that has passed the checks of its KEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    kem: Kem,
    bytes: Vec<u8>,
}

impl PublicKey {
    /// Reads a public key and performs the checks of RFC 9180 section 7.1 and FIPS 203 section 7.2. A point of small order
    /// on X25519 is found when a secret is agreed.
    ///
    /// # Errors
    /// [`HpkeError::PublicKey`].
    pub fn from_bytes(provider: &dyn AgreementProvider, kem: Kem, bytes: &[u8]) -> Result<PublicKey, HpkeError> {
        if bytes.len() != kem.public_len() {
            return Err(HpkeError::PublicKey);
        }
        let is_valid = match kem.form() {
            Form::Dh(curve) => dh::is_public(provider, curve, bytes),
            Form::MlKem => is_in_range(bytes),
            Form::Hybrid(group) => {
                let (post_quantum, traditional) = hybrid::split(bytes, KEM_PUBLIC_LEN).ok_or(HpkeError::PublicKey)?;
                is_in_range(post_quantum) && dh::is_public(provider, group.curve(), traditional)
            }
        };
        if is_valid { Ok(PublicKey { kem, bytes: bytes.to_vec() }) } else { Err(HpkeError::PublicKey) }
    }

    /// The public half of a private key.
    pub(super) fn of_private(kem: Kem, bytes: Vec<u8>) -> PublicKey {
        PublicKey { kem, bytes }
    }

    /// The KEM that the key is of.
    pub fn kem(&self) -> Kem {
        self.kem
    }

    /// The key in bytes, [`Kem::public_len`] of them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn encapsulate(
        &self,
        provider: &dyn AgreementProvider,
        randomness: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Secret), HpkeError> {
        match self.kem.form() {
            Form::Dh(curve) => dh::encapsulate(provider, self.kem, curve, &self.bytes, randomness),
            Form::MlKem => ml_kem_encapsulate(provider, &self.bytes, randomness),
            Form::Hybrid(group) => hybrid::encapsulate(provider, group, &self.bytes, randomness),
        }
    }
}

/// Encapsulates to an ML-KEM key; `message` is the randomness of a test vector.
pub(super) fn ml_kem_encapsulate(
    provider: &dyn AgreementProvider,
    public: &[u8],
    message: Option<&[u8]>,
) -> Result<(Vec<u8>, Secret), HpkeError> {
    let encapsulated = match message {
        None => provider.kem_encapsulate(crate::crypto::agreement::Kem::MlKem768, public),
        Some(message) => {
            let message = message.try_into().map_err(|_| HpkeError::PrivateKey)?;
            crate::crypto::kem_seed::encapsulate_with(public, message)
        }
    };
    encapsulated.map_err(public_key_error)
}

/// Maps the seam's errors of a peer's public key.
pub(super) fn public_key_error(err: Error) -> HpkeError {
    if err == Error::Provider { HpkeError::Provider } else { HpkeError::PublicKey }
}

/// Returns whether all coefficients of an encapsulation key are below the prime (the modulus check of FIPS 203 section 7.2).
fn is_in_range(public: &[u8]) -> bool {
    let coefficients = public.get(..COEFFICIENTS_LEN).unwrap_or_default();
    public.len() == KEM_PUBLIC_LEN
        && coefficients.as_chunks::<3>().0.iter().all(|&[a, b, c]| {
            // Two coefficients of 12 bits, little-endian.
            let first = u16::from(a) | (u16::from(b) & 0x0f) << 8;
            let second = u16::from(b) >> 4 | u16::from(c) << 4;
            first < Q && second < Q
        })
}
