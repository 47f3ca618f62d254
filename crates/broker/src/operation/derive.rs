//! Key derivation: HKDF (RFC 5869) with SHA-2; the key is the input keying material.

use aws_lc_rs::hkdf::{self, KeyType, Salt};

use super::encrypt::outputs_of;
use super::{BATCH_LEN_MAX, Outputs, check_batch, failed, not_in};
use crate::keys::{Algorithm, Form, Key};
use crate::profile::policy::{DeriveAlgorithm, Profile};
use crate::{Refusal, Result};

/// Public parameters of one derivation; the secret is the key.
#[derive(Clone, Copy, Debug)]
pub struct Derivation<'a> {
    /// Salt of HKDF: public, and preferably not empty.
    pub salt: &'a [u8],
    /// Info of HKDF: the purpose of the output.
    pub info: &'a [u8],
    /// Length of the output in bytes: 1 to 255 times the digest's.
    pub length: usize,
}

/// Length of an output, in bytes.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Derives a batch of outputs from a version of the key: 0 is the current one.
///
/// # Errors
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument): batch, lengths or key;
/// [`Code::FailedPrecondition`](crate::Code::FailedPrecondition): not in the profile, or the version is disabled.
pub fn derive(
    profile: &Profile,
    key: &Key,
    key_version: u32,
    derivations: &[Derivation<'_>],
) -> Result<Outputs<Vec<u8>>> {
    let algorithm = profile.derive.ok_or_else(|| not_in(profile, "Derive"))?;
    key.require(Algorithm::Derive(algorithm))?;
    check_batch("derivations", derivations.iter().map(|one| one.salt.len().saturating_add(one.info.len())))?;
    let (hkdf, digest_len) = match algorithm {
        DeriveAlgorithm::HkdfSha256 => (hkdf::HKDF_SHA256, 32),
        DeriveAlgorithm::HkdfSha384 => (hkdf::HKDF_SHA384, 48),
        DeriveAlgorithm::HkdfSha512 => (hkdf::HKDF_SHA512, 64),
    };
    let length_max = 255 * digest_len;
    if derivations.iter().any(|one| !(1..=length_max).contains(&one.length)) {
        return Err(Refusal::invalid(format!("length: expected 1 to {length_max} bytes")));
    }
    if derivations.iter().map(|one| one.length).fold(0, usize::saturating_add) > BATCH_LEN_MAX {
        return Err(Refusal::invalid(format!("length: too large (max {BATCH_LEN_MAX} bytes in all)")));
    }
    // The module's approved service requires a salt and an info.
    #[cfg(feature = "fips")]
    if derivations.iter().any(|one| one.salt.is_empty() || one.info.is_empty()) {
        let text =
            "derivations: without a salt or an info it is not an approved service, and disabled in the FIPS build";
        return Err(Refusal::new(crate::Code::FailedPrecondition, text));
    }
    let version = key.version(key_version)?;
    let Form::Secret(secret) = key.form(version)? else { return Err(failed("Derive")) };
    let one = |derivation: &Derivation<'_>| {
        let prk = Salt::new(hkdf, derivation.salt).extract(secret);
        let info = [derivation.info];
        let mut output = vec![0; derivation.length];
        let filled = prk.expand(&info, Length(derivation.length)).and_then(|okm| okm.fill(&mut output));
        filled.map_err(|_| failed("Derive"))?;
        Ok(output)
    };
    Ok(outputs_of(version, derivations.iter().map(one).collect::<Result<_>>()?))
}
