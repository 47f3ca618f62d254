//! Key encapsulation: ML-KEM (FIPS 203), to a key of the store or to a public key in the request.

use aws_lc_rs::kem::{Ciphertext, EncapsulationKey};
use zeroize::Zeroizing;

use super::encrypt::outputs_of;
use super::{BATCH_MAX, Outputs, check_batch, failed, not_in};
use crate::keys::{self, Algorithm, Form, Key};
use crate::profile::policy::Profile;
use crate::{Refusal, Result};

/// Recipient of an encapsulated secret.
#[derive(Clone, Copy, Debug)]
pub enum Recipient<'a> {
    /// A key of the store, under its current version.
    Key(&'a Key),
    /// An encapsulation key: raw, or as SubjectPublicKeyInfo.
    Public(&'a [u8]),
}

/// A shared secret, with the ciphertext that carries it.
pub struct Encapsulation {
    /// Ciphertext to send to the recipient.
    pub ciphertext: Vec<u8>,
    /// Shared secret for the caller.
    pub shared_secret: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Encapsulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encapsulated").finish_non_exhaustive()
    }
}

/// Encapsulates `count` fresh secrets to the recipient, under the current version of a key of the store.
///
/// # Errors
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument): count, key or public key;
/// [`Code::FailedPrecondition`](crate::Code::FailedPrecondition): not in the profile, or the key is disabled.
pub fn encapsulate(profile: &Profile, to: Recipient<'_>, count: usize) -> Result<Outputs<Encapsulation>> {
    let algorithm = profile.kem.ok_or_else(|| not_in(profile, "Encapsulate"))?;
    if !(1..=BATCH_MAX).contains(&count) {
        return Err(Refusal::invalid(format!("count: expected 1 to {BATCH_MAX}")));
    }
    match to {
        Recipient::Public(bytes) => {
            let wrong = || Refusal::invalid(format!("public_key: not an encapsulation key of {}", algorithm.name()));
            let public = keys::encapsulation_key(algorithm, bytes).ok_or_else(wrong)?;
            Ok(Outputs { key_version: 0, outputs: encapsulated(&public, count)? })
        }
        Recipient::Key(key) => {
            key.require(Algorithm::Kem(algorithm))?;
            let version = key.current()?;
            let Form::Kem(_, _, public) = key.form(version)? else { return Err(failed("Encapsulate")) };
            Ok(outputs_of(version, encapsulated(public, count)?))
        }
    }
}

/// Recovers the shared secrets of ciphertexts, under a version of the key: 0 is the current one. A changed ciphertext
/// of the right length gives another secret and no error, as ML-KEM specifies.
///
/// # Errors
/// Those of [`encapsulate`].
pub fn decapsulate(
    profile: &Profile,
    key: &Key,
    key_version: u32,
    ciphertexts: &[&[u8]],
) -> Result<Outputs<Zeroizing<Vec<u8>>>> {
    let algorithm = profile.kem.ok_or_else(|| not_in(profile, "Encapsulate"))?;
    key.require(Algorithm::Kem(algorithm))?;
    check_batch("ciphertexts", ciphertexts.iter().map(|ciphertext| ciphertext.len()))?;
    let len = algorithm.ciphertext_len();
    if ciphertexts.iter().any(|ciphertext| ciphertext.len() != len) {
        return Err(Refusal::invalid(format!("ciphertexts: expected {len} bytes each")));
    }
    let version = key.version(key_version)?;
    let Form::Kem(_, secret, _) = key.form(version)? else { return Err(failed("Decapsulate")) };
    let one = |ciphertext: &&[u8]| {
        let shared = secret.decapsulate(Ciphertext::from(*ciphertext)).map_err(|_| failed("Decapsulate"))?;
        Ok(Zeroizing::new(shared.as_ref().to_vec()))
    };
    Ok(outputs_of(version, ciphertexts.iter().map(one).collect::<Result<_>>()?))
}

fn encapsulated(public: &EncapsulationKey, count: usize) -> Result<Vec<Encapsulation>> {
    let one = |_| {
        let (ciphertext, shared) = public.encapsulate().map_err(|_| failed("Encapsulate"))?;
        let shared_secret = Zeroizing::new(shared.as_ref().to_vec());
        Ok(Encapsulation { ciphertext: ciphertext.as_ref().to_vec(), shared_secret })
    };
    (0..count).map(one).collect()
}
