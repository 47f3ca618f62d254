//! ML-KEM-768 with a traditional group: MLKEM768-P256 and X-Wing (draft-ietf-hpke-pq, draft-connolly-cfrg-xwing-kem).
//!
//! Both are of one form: the private key is a seed of 32 bytes, keys and ciphertexts are ML-KEM's and then the group's, and the
//! secret is SHA3-256 of both secrets, the group's part of ciphertext and key, and a label. ML-KEM binds its own parts.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::kem::{ml_kem_encapsulate, public_key_error};
use super::labeled::shake256;
use super::{HpkeError, Secret, dh};
use crate::crypto::agreement::{
    AgreementKey, AgreementProvider, Curve, KEM_CIPHERTEXT_LEN, KEM_PUBLIC_LEN, KEM_SEED_LEN, KemKey,
};
use crate::limits::KEY_LEN;

/// The traditional group of a hybrid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    P256,
    X25519,
}

impl Group {
    pub(super) fn curve(self) -> Curve {
        match self {
            Group::P256 => Curve::P256,
            Group::X25519 => Curve::X25519,
        }
    }

    fn label(self) -> &'static [u8] {
        match self {
            Group::P256 => b"MLKEM768-P256",
            Group::X25519 => br"\.//^\",
        }
    }

    /// The candidates for the group's private key that a seed is expanded to.
    fn candidates(self) -> usize {
        match self {
            Group::P256 => 4,
            Group::X25519 => 1,
        }
    }
}

/// The private keys of both parts.
pub(super) struct Pair {
    pub(super) post_quantum: Box<dyn KemKey>,
    pub(super) traditional: Box<dyn AgreementKey>,
}

/// Splits a key or ciphertext into ML-KEM's part of `len` bytes and the group's.
pub(super) fn split(bytes: &[u8], len: usize) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(len)
}

/// Expands a seed: SHAKE256 gives ML-KEM's seed and the group's candidates, the first of which in range is its key.
pub(super) fn expand(provider: &dyn AgreementProvider, group: Group, seed: &[u8]) -> Result<Pair, HpkeError> {
    if seed.len() != KEY_LEN {
        return Err(HpkeError::PrivateKey);
    }
    let mut expanded = Zeroizing::new([0; KEM_SEED_LEN + 4 * KEY_LEN]);
    let used = expanded.get_mut(..KEM_SEED_LEN + group.candidates() * KEY_LEN).ok_or(HpkeError::Provider)?;
    shake256(&[seed], used);
    let (post_quantum, candidates) = used.split_first_chunk::<KEM_SEED_LEN>().ok_or(HpkeError::Provider)?;
    let traditional = candidates.chunks(KEY_LEN).find_map(|bytes| dh::private(provider, group.curve(), bytes).ok());
    Ok(Pair {
        post_quantum: provider.kem_from_seed(post_quantum).map_err(|_| HpkeError::Provider)?,
        traditional: traditional.ok_or(HpkeError::PrivateKey)?,
    })
}

pub(super) fn encapsulate(
    provider: &dyn AgreementProvider,
    group: Group,
    public: &[u8],
    randomness: Option<&[u8]>,
) -> Result<(Vec<u8>, Secret), HpkeError> {
    let (post_quantum, traditional) = split(public, KEM_PUBLIC_LEN).ok_or(HpkeError::PublicKey)?;
    let (message, private) = match randomness {
        Some(bytes) => split(bytes, KEY_LEN).map(|(message, private)| (Some(message), Some(private))),
        None => Some((None, None)),
    }
    .ok_or(HpkeError::PrivateKey)?;
    let (mut enc, of_post_quantum) = ml_kem_encapsulate(provider, post_quantum, message)?;
    let ephemeral = dh::ephemeral(provider, group.curve(), private)?;
    let of_traditional = ephemeral.agree(traditional).map_err(public_key_error)?;
    let secret = combine(provider, group, &of_post_quantum, &of_traditional, ephemeral.public(), traditional);
    enc.extend_from_slice(ephemeral.public());
    Ok((enc, secret))
}

pub(super) fn decapsulate(
    provider: &dyn AgreementProvider,
    group: Group,
    pair: &Pair,
    enc: &[u8],
) -> Result<Secret, HpkeError> {
    let (post_quantum, traditional) = split(enc, KEM_CIPHERTEXT_LEN).ok_or(HpkeError::Encapsulated)?;
    let of_traditional = dh::agree(&*pair.traditional, traditional)?;
    let of_post_quantum = pair.post_quantum.decapsulate(post_quantum).map_err(|_| HpkeError::Encapsulated)?;
    Ok(combine(provider, group, &of_post_quantum, &of_traditional, traditional, pair.traditional.public()))
}

fn combine(
    provider: &dyn AgreementProvider,
    group: Group,
    post_quantum: &Secret,
    traditional: &Secret,
    enc: &[u8],
    public: &[u8],
) -> Secret {
    Zeroizing::new(provider.sha3_256(&[post_quantum.as_slice(), traditional.as_slice(), enc, public, group.label()]))
}
