//! Keys of ML-KEM (FIPS 203), raw and in the encodings of RFC 9935.

use aws_lc_rs::digest;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::kem::{Algorithm, AlgorithmId, DecapsulationKey, EncapsulationKey, ML_KEM_512, ML_KEM_768, ML_KEM_1024};

use crate::profile::policy::KemAlgorithm;

/// Coefficients of a vector's element are below it.
const Q: u16 = 3329;
/// Length of the seed that follows a vector in a key, and of a digest, in bytes.
const WORD_LEN: usize = 32;
/// Length of the seed in a private key that has both forms.
const SEED_LEN: usize = 64;

/// Parameter set in the crypto library.
pub(super) fn library(set: KemAlgorithm) -> &'static Algorithm<AlgorithmId> {
    match set {
        KemAlgorithm::MlKem512 => &ML_KEM_512,
        KemAlgorithm::MlKem768 => &ML_KEM_768,
        KemAlgorithm::MlKem1024 => &ML_KEM_1024,
    }
}

/// Length of an encoded vector, which begins a decapsulation key and an encapsulation key (FIPS 203 table 3).
fn vector_len(set: KemAlgorithm) -> usize {
    match set {
        KemAlgorithm::MlKem512 => 384 * 2,
        KemAlgorithm::MlKem768 => 384 * 3,
        KemAlgorithm::MlKem1024 => 384 * 4,
    }
}

/// Length of an expanded decapsulation key: a vector, the encapsulation key, its digest, and 32 bytes for implicit rejection.
fn secret_len(set: KemAlgorithm) -> usize {
    2 * vector_len(set) + 3 * WORD_LEN
}

/// Parses an expanded decapsulation key, which contains the encapsulation key and its digest; checks the digest as FIPS 203
/// section 7.3 demands.
pub(super) fn parse(set: KemAlgorithm, material: &[u8]) -> Option<(DecapsulationKey, EncapsulationKey)> {
    if material.len() != secret_len(set) {
        return None;
    }
    let rest = material.get(vector_len(set)..)?;
    let (public, rest) = rest.split_at_checked(vector_len(set) + WORD_LEN)?;
    if digest::digest(&digest::SHA3_256, public).as_ref() != rest.get(..WORD_LEN)? {
        return None;
    }
    let secret = DecapsulationKey::new(library(set), material).ok()?;
    Some((secret, raw(set, public)?))
}

/// Parses an encapsulation key, raw or in a SubjectPublicKeyInfo.
pub(crate) fn encapsulation_key(set: KemAlgorithm, public: &[u8]) -> Option<EncapsulationKey> {
    raw(set, public.strip_prefix(spki_head(set).as_slice()).unwrap_or(public))
}

/// Parses an encapsulation key with the check of FIPS 203 section 7.2: each coefficient is below q.
fn raw(set: KemAlgorithm, public: &[u8]) -> Option<EncapsulationKey> {
    if public.len() != vector_len(set) + WORD_LEN {
        return None;
    }
    let (coefficients, _seed) = public.split_at_checked(vector_len(set))?;
    let in_range = coefficients.chunks_exact(3).all(|bytes| {
        let [a, b, c] = [bytes[0], bytes[1], bytes[2]].map(u16::from);
        (a | (b & 15) << 8) < Q && (b >> 4 | c << 4) < Q
    });
    in_range.then(|| EncapsulationKey::new(library(set), public).ok())?
}

/// Encodes an encapsulation key as SubjectPublicKeyInfo.
pub(super) fn spki(set: KemAlgorithm, public: &EncapsulationKey) -> Result<Vec<u8>, Unspecified> {
    Ok([spki_head(set).as_slice(), public.key_bytes()?.as_ref()].concat())
}

/// Bytes before an encapsulation key in its SubjectPublicKeyInfo. All lengths are fixed.
fn spki_head(set: KemAlgorithm) -> Vec<u8> {
    let (oid, bits) = (algorithm(set), vector_len(set) + WORD_LEN + 1);
    [head(0x30, oid.len() + 4 + bits).as_slice(), &oid, &head(0x03, bits), &[0]].concat()
}

/// Returns the expanded decapsulation key in a PKCS#8, which may also have the seed; the module cannot read a seed alone.
/// All lengths and the bytes before the keys are fixed.
pub(super) fn expanded(set: KemAlgorithm, pkcs8: &[u8]) -> Option<Vec<u8>> {
    let key_len = 4 + secret_len(set);
    let both_len = 2 + SEED_LEN + key_len;
    let body = pkcs8.get(4..)?.strip_prefix(&[0x02, 0x01, 0x00])?.strip_prefix(&algorithm(set))?;
    let key = match body.strip_prefix(&head(0x04, 4 + both_len)) {
        Some(both) => both.strip_prefix(&head(0x30, both_len))?.strip_prefix(&[0x04, 0x40])?.get(SEED_LEN..)?,
        None => body.strip_prefix(&head(0x04, key_len))?,
    };
    let key = key.strip_prefix(&head(0x04, secret_len(set)))?;
    (key.len() == secret_len(set)).then(|| key.to_vec())
}

/// AlgorithmIdentifier of a parameter set in DER: 2.16.840.1.101.3.4.4.1 to .3.
fn algorithm(set: KemAlgorithm) -> [u8; 13] {
    let last = match set {
        KemAlgorithm::MlKem512 => 1,
        KemAlgorithm::MlKem768 => 2,
        KemAlgorithm::MlKem1024 => 3,
    };
    [0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x04, last]
}

/// Tag and length of a DER element of 256 to 65,535 bytes.
fn head(tag: u8, len: usize) -> [u8; 4] {
    let [.., high, low] = len.to_be_bytes();
    [tag, 0x82, high, low]
}
