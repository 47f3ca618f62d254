//! Which operations of a profile need a service of the FIPS module that is not approved. On the FIPS build they are off:
//! told at load with the profile and the key, answered 9 when they are called, and never done in another way.
//!
//! It may not know how operations are done.

use crate::profile::Profile;
use crate::profile::policy::{CertificatePolicy, EncryptAlgorithm, EncryptPolicy, KeyConstraints, SignAlgorithm};
use crate::refusal::{Code, Refusal};

/// The least bits of an RSA key that an approved service signs or is issued for.
const RSA_BITS_MIN: u32 = 2048;
/// The least bits of a curve's field, which leaves out P-224.
const CURVE_BITS_MIN: u32 = 256;

/// An operation of a profile, by its name in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// `API.SignCertificate`
    SignCertificate,
    /// `API.EncryptData`
    EncryptData,
    /// `API.SignData`
    SignData,
}

impl Section {
    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Section::SignCertificate => "SignCertificate",
            Section::EncryptData => "EncryptData",
            Section::SignData => "SignData",
        }
    }
}

/// An operation that is off on a FIPS build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unapproved {
    /// What it is of.
    pub section: Section,
    /// The key of the file at fault, such as `API.EncryptData.NonceStrategy`.
    pub key: &'static str,
    /// A sentence without a full stop.
    pub reason: &'static str,
}

impl std::fmt::Display for Unapproved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.reason)
    }
}

/// What of a profile is not approved, in the file's order. Hashes, MACs, HKDF, random bytes and ML-KEM-768 always are.
pub fn unapproved(profile: &Profile) -> Vec<Unapproved> {
    let mut found = Vec::new();
    found.extend(profile.certificate.as_ref().and_then(certificate));
    found.extend(profile.encrypt.as_ref().and_then(encrypt));
    found.extend(profile.sign.and_then(sign));
    found
}

/// Refuses an operation that is off on this build; on one without the module nothing is.
///
/// # Errors
/// 9, naming the key of the file.
pub fn allow(profile: &Profile, section: Section) -> Result<(), Refusal> {
    if !cfg!(feature = "fips") {
        return Ok(());
    }
    allow_on_fips(profile, section)
}

fn allow_on_fips(profile: &Profile, section: Section) -> Result<(), Refusal> {
    let found = match section {
        Section::SignCertificate => profile.certificate.as_ref().and_then(certificate),
        Section::EncryptData => profile.encrypt.as_ref().and_then(encrypt),
        Section::SignData => profile.sign.and_then(sign),
    };
    match found {
        None => Ok(()),
        Some(found) => Err(Refusal::new(Code::FailedPrecondition, format!("off on a FIPS build: {found}"))),
    }
}

fn encrypt(policy: &EncryptPolicy) -> Option<Unapproved> {
    let off = |key, reason| Some(Unapproved { section: Section::EncryptData, key, reason });
    match policy.algorithm {
        EncryptAlgorithm::ChaCha20Poly1305 => {
            return off("API.EncryptData.EncryptAlg", "ChaCha20-Poly1305 is not an approved cipher");
        }
        EncryptAlgorithm::Aes256GcmSiv => {
            return off("API.EncryptData.EncryptAlg", "AES-GCM-SIV is not an approved cipher");
        }
        EncryptAlgorithm::Aes128Gcm | EncryptAlgorithm::Aes192Gcm | EncryptAlgorithm::Aes256Gcm => {}
    }
    if policy.is_nonce_callers {
        return off(
            "API.EncryptData.NonceStrategy",
            "sealing with a nonce that the caller made is not an approved service",
        );
    }
    if policy.algorithm == EncryptAlgorithm::Aes192Gcm {
        return off("API.EncryptData.KeySize", "the module draws no nonce for AES-192-GCM");
    }
    // Opening a short tag means to seal again under a nonce that was given.
    if policy.tag_len != 16 {
        return off("API.EncryptData.TagLength", "only tags of 128 bits are an approved service");
    }
    None
}

fn sign(algorithm: SignAlgorithm) -> Option<Unapproved> {
    let reason = "this version of the module has no ML-DSA";
    let found = Unapproved { section: Section::SignData, key: "API.SignData.SignAlg", reason };
    matches!(algorithm, SignAlgorithm::MlDsa65).then_some(found)
}

fn certificate(policy: &CertificatePolicy) -> Option<Unapproved> {
    let sides = [
        ("API.SignCertificate.KeyConstraints.Subject", &policy.subject),
        ("API.SignCertificate.KeyConstraints.Issuer", &policy.issuer),
    ];
    let (key, _) = sides.into_iter().find(|(_, constraints)| is_weak(constraints))?;
    let reason = "it allows RSA keys under 2048 bits or curves under 256";
    Some(Unapproved { section: Section::SignCertificate, key, reason })
}

fn is_weak(constraints: &KeyConstraints) -> bool {
    constraints.rsa.is_some_and(|sizes| sizes.min < RSA_BITS_MIN)
        || constraints.ecdsa.is_some_and(|sizes| sizes.min < CURVE_BITS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::policy::{HashAlgorithm, SizeRange};

    fn profile(encrypt: Option<EncryptPolicy>) -> Profile {
        Profile {
            name: "p".into(),
            deprecation: None,
            hash: Some(HashAlgorithm::Shake128),
            certificate: None,
            encrypt,
            sign: None,
            mac: None,
            derive: None,
            random: true,
            kem: None,
        }
    }

    #[test]
    fn only_a_nonce_of_the_brokers_and_a_whole_tag_are_approved() {
        let good = EncryptPolicy { algorithm: EncryptAlgorithm::Aes256Gcm, is_nonce_callers: false, tag_len: 16 };
        assert_eq!(unapproved(&profile(Some(good))), []);
        for (policy, key) in [
            (EncryptPolicy { is_nonce_callers: true, ..good }, "NonceStrategy"),
            (EncryptPolicy { tag_len: 12, ..good }, "TagLength"),
            (EncryptPolicy { algorithm: EncryptAlgorithm::Aes192Gcm, ..good }, "KeySize"),
            (EncryptPolicy { algorithm: EncryptAlgorithm::Aes256GcmSiv, ..good }, "EncryptAlg"),
            (EncryptPolicy { algorithm: EncryptAlgorithm::ChaCha20Poly1305, ..good }, "EncryptAlg"),
        ] {
            let profile = profile(Some(policy));
            let found = unapproved(&profile);
            assert!(found.len() == 1 && found[0].key.ends_with(key), "{found:?}");
            let refusal = allow_on_fips(&profile, Section::EncryptData).unwrap_err();
            assert!(refusal.code == Code::FailedPrecondition && refusal.text.contains(key), "{refusal:?}");
            assert_eq!(allow_on_fips(&profile, Section::SignData), Ok(()), "the profile's other operations stay");
        }
    }

    #[test]
    fn keys_that_are_too_weak_for_the_module_are_named_by_their_side() {
        let sizes = |min| Some(SizeRange { min, max: 8192 });
        for (constraints, is_found) in [
            (KeyConstraints { rsa: sizes(2048), ecdsa: sizes(256) }, false),
            (KeyConstraints { rsa: sizes(1024), ecdsa: None }, true),
            (KeyConstraints { rsa: None, ecdsa: sizes(224) }, true),
        ] {
            assert_eq!(is_weak(&constraints), is_found, "{constraints:?}");
        }
    }

    #[test]
    fn a_build_without_the_module_switches_nothing_off() {
        let policy = EncryptPolicy { algorithm: EncryptAlgorithm::Aes256Gcm, is_nonce_callers: true, tag_len: 16 };
        assert_eq!(allow(&profile(Some(policy)), Section::EncryptData).is_err(), cfg!(feature = "fips"));
    }
}
