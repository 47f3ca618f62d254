//! Signatures with the profile's algorithm and a key of its kind.

use aws_lc_rs::signature::{ED25519, KeyPair, UnparsedPublicKey};
#[cfg(not(feature = "fips"))]
use aws_lc_rs::signature::{ML_DSA_44, ML_DSA_65, ML_DSA_87, PqdsaVerificationAlgorithm};
use sealway_awslc::{PublicKey, Scheme};

use super::encrypt::outputs_of;
use super::{Outputs, candidates, check_batch, failed, not_in};
use crate::keys::{Algorithm, Content, Form, Key};
#[cfg(not(feature = "fips"))]
use crate::profile::policy::MlDsaAlgorithm;
use crate::profile::policy::{Curve, Profile, SignAlgorithm, SignatureHash};
use crate::{Code, Refusal, Result};

mod fixed;
#[cfg(test)]
mod published;

/// An input with its signature, or with a MAC's tag as the signature.
#[derive(Clone, Copy, Debug)]
pub struct SignedInput<'a> {
    /// Input that was signed; its digest only for [`verify_digests`].
    pub input: &'a [u8],
    /// Signature or tag of the input.
    pub signature: &'a [u8],
    /// Version of the key; 0 is the current one.
    pub key_version: u32,
}

impl SignedInput<'_> {
    /// Length that counts for the batch, in bytes.
    pub(super) fn len(&self) -> usize {
        self.input.len().saturating_add(self.signature.len())
    }
}

/// Signs a batch with the key's current version.
///
/// # Errors
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument): batch or key;
/// [`Code::FailedPrecondition`](crate::Code::FailedPrecondition): not in the profile, the key is disabled or that of a CA,
/// or this build has not the algorithm.
pub fn sign(profile: &Profile, key: &Key, inputs: &[&[u8]]) -> Result<Outputs<Vec<u8>>> {
    sign_inputs(profile, check(profile, key)?, Content::Message, key, inputs)
}

/// Signs a batch of digests by the profile's `HashAlg`, with the key's current version. A digest hides its message, so
/// that the profile has to allow it.
///
/// # Errors
/// Those of [`sign`]; [`Code::FailedPrecondition`](crate::Code::FailedPrecondition): the profile does not say
/// `Prehashed`; [`Code::InvalidArgument`](crate::Code::InvalidArgument): a digest of another length.
pub fn sign_digests(profile: &Profile, key: &Key, digests: &[&[u8]]) -> Result<Outputs<Vec<u8>>> {
    let algorithm = check(profile, key)?;
    check_digests(profile, algorithm, digests.iter().copied())?;
    sign_inputs(profile, algorithm, Content::Digest, key, digests)
}

fn sign_inputs(
    profile: &Profile,
    algorithm: SignAlgorithm,
    content: Content,
    key: &Key,
    inputs: &[&[u8]],
) -> Result<Outputs<Vec<u8>>> {
    if key.rules().is_issuer && !profile.signs_with_ca_keys {
        let text =
            "key_id: the key of a CA, which signs certificates alone; API.SignData.CAKeys of a profile allows more";
        return Err(Refusal::new(Code::FailedPrecondition, text));
    }
    check_batch("inputs", inputs.iter().map(|input| input.len()))?;
    let version = key.current()?;
    let form = key.form(version)?;
    let sign = |input: &&[u8]| sign_one(algorithm, content, form, input)?.ok_or_else(|| failed("SignData"));
    let signatures = inputs.iter().map(sign);
    Ok(outputs_of(version, signatures.collect::<Result<_>>()?))
}

/// Verifies signatures, each under its version: 0 is the current one.
///
/// # Errors
/// Those of [`sign`]; the batch fails as a whole if one version does not exist or is disabled.
pub fn verify(profile: &Profile, key: &Key, signed: &[SignedInput<'_>]) -> Result<Vec<bool>> {
    verify_inputs(check(profile, key)?, Content::Message, key, signed)
}

/// Verifies signatures of digests, as [`verify`] does of messages.
///
/// # Errors
/// Those of [`verify`] and of [`sign_digests`].
pub fn verify_digests(profile: &Profile, key: &Key, signed: &[SignedInput<'_>]) -> Result<Vec<bool>> {
    let algorithm = check(profile, key)?;
    check_digests(profile, algorithm, signed.iter().map(|one| one.input))?;
    verify_inputs(algorithm, Content::Digest, key, signed)
}

fn verify_inputs(
    algorithm: SignAlgorithm,
    content: Content,
    key: &Key,
    signed: &[SignedInput<'_>],
) -> Result<Vec<bool>> {
    check_batch("signed", signed.iter().map(SignedInput::len))?;
    let verify = |one: &SignedInput<'_>| {
        let form = key.form(key.version(one.key_version)?)?;
        let public = public(form).ok_or_else(|| failed("VerifyData"))?;
        Ok(is_signed_as(algorithm, content, public, one.input, one.signature))
    };
    signed.iter().map(verify).collect()
}

/// Verifies a signature by one of the key's newest enabled versions.
///
/// # Errors
/// Those of [`sign`], except for the batch.
pub fn verify_one(profile: &Profile, key: &Key, input: &[u8], signature: &[u8]) -> Result<bool> {
    let algorithm = check(profile, key)?;
    key.current()?;
    for version in candidates(key) {
        let public = public(key.form(version)?).ok_or_else(|| failed("VerifyData"))?;
        if is_signed(algorithm, public, input, signature) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if a key is of the kind and size that the profile's `SignData` demands.
pub fn may_sign(profile: &Profile, key: &Key) -> bool {
    check(profile, key).is_ok()
}

fn check(profile: &Profile, key: &Key) -> Result<SignAlgorithm> {
    let algorithm = profile.sign.ok_or_else(|| not_in(profile, "SignData"))?;
    match (algorithm, key.algorithm()) {
        (SignAlgorithm::RsaPkcs1(_) | SignAlgorithm::RsaPss(_), Algorithm::Rsa(_)) => {}
        (SignAlgorithm::RsaPkcs1(_) | SignAlgorithm::RsaPss(_), other) => {
            return Err(Refusal::invalid(format!("key_id: a key of {other}, the profile wants rsa")));
        }
        (SignAlgorithm::EcdsaDer(curve, _) | SignAlgorithm::EcdsaRaw(curve, _), _) => {
            key.require(Algorithm::Ecdsa(curve))?;
        }
        (SignAlgorithm::Ed25519, _) => key.require(Algorithm::Ed25519)?,
        (SignAlgorithm::MlDsa(set), _) => key.require(Algorithm::MlDsa(set))?,
    }
    if let (Some(allowed), Some((_, size))) = (profile.sign_key_size, key.algorithm().size())
        && !(allowed.min..=allowed.max).contains(&size)
    {
        let text = format!("key_id: expected a key of {} to {} bits, got {size}", allowed.min, allowed.max);
        return Err(Refusal::invalid(text));
    }
    Ok(algorithm)
}

/// Checks that the profile allows digests, and that these are of its `HashAlg`.
fn check_digests<'a>(
    profile: &Profile,
    algorithm: SignAlgorithm,
    digests: impl Iterator<Item = &'a [u8]>,
) -> Result<()> {
    let hash = hash_of(algorithm).ok_or_else(|| Refusal::invalid("prehashed: this SignAlg signs no digests"))?;
    if !profile.sign_digests {
        let text = format!(
            "profile: {}: signs messages, not digests, which hide what is signed; SignData.Prehashed: true allows it",
            profile.name
        );
        return Err(Refusal::new(Code::FailedPrecondition, text));
    }
    let wanted = hash.digest_len();
    for digest in digests {
        if digest.len() != wanted {
            let text = format!("prehashed: the profile's digest has {wanted} bytes, got {}", digest.len());
            return Err(Refusal::invalid(text));
        }
    }
    Ok(())
}

fn sign_one(algorithm: SignAlgorithm, content: Content, form: &Form, input: &[u8]) -> Result<Option<Vec<u8>>> {
    match form {
        Form::Pair(secret, public) => {
            let Some(scheme) = scheme(algorithm) else { return Ok(None) };
            let signature = secret.sign(public, scheme, content, input)?;
            Ok(match algorithm {
                SignAlgorithm::EcdsaRaw(curve, _) => signature.and_then(|der| fixed::from_der(&der, field_len(curve))),
                _ => signature,
            })
        }
        _ if content == Content::Digest => Ok(None),
        Form::TokenEd25519(key, spki) => {
            let Some(public) = ed25519_of(spki) else { return Ok(None) };
            key.sign_ed25519(public, input).map(Some)
        }
        _ => Ok(sign_here(form, input)),
    }
}

/// Signs with a key of the library that has one algorithm.
fn sign_here(form: &Form, input: &[u8]) -> Option<Vec<u8>> {
    match form {
        Form::Ed25519(pair) => pair.try_sign(input).ok().map(|signature| signature.as_ref().to_vec()),
        #[cfg(not(feature = "fips"))]
        Form::MlDsa(pair) => crate::keys::ml_dsa_signed(pair, input),
        _ => None,
    }
}

/// A public key of the store or of a test vector.
#[derive(Clone, Copy)]
enum Public<'a> {
    Pair(&'a PublicKey),
    Ed25519(&'a [u8]),
    #[cfg(not(feature = "fips"))]
    MlDsa(&'a [u8]),
}

fn public(form: &Form) -> Option<Public<'_>> {
    match form {
        Form::Pair(_, public) => Some(Public::Pair(public)),
        Form::Ed25519(pair) => Some(Public::Ed25519(pair.public_key().as_ref())),
        Form::TokenEd25519(_, spki) => ed25519_of(spki).map(Public::Ed25519),
        #[cfg(not(feature = "fips"))]
        Form::MlDsa(pair) => Some(Public::MlDsa(pair.public_key().as_ref())),
        _ => None,
    }
}

/// Raw public key at the end of a SubjectPublicKeyInfo of Ed25519 (RFC 8410 section 4).
fn ed25519_of(spki: &[u8]) -> Option<&[u8]> {
    spki.strip_prefix(b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00")
}

fn is_signed(algorithm: SignAlgorithm, public: Public<'_>, input: &[u8], signature: &[u8]) -> bool {
    is_signed_as(algorithm, Content::Message, public, input, signature)
}

fn is_signed_as(
    algorithm: SignAlgorithm,
    content: Content,
    public: Public<'_>,
    input: &[u8],
    signature: &[u8],
) -> bool {
    match public {
        Public::Pair(public) => {
            let Some(scheme) = scheme(algorithm) else { return false };
            let verifies = |signature: &[u8]| match content {
                Content::Message => public.verify(scheme, input, signature).is_ok(),
                Content::Digest => public.verify_digest(scheme, input, signature).is_ok(),
            };
            match algorithm {
                SignAlgorithm::EcdsaRaw(curve, _) => {
                    fixed::to_der(signature, field_len(curve)).is_some_and(|der| verifies(&der))
                }
                _ => verifies(signature),
            }
        }
        _ if content == Content::Digest => false,
        Public::Ed25519(public) => UnparsedPublicKey::new(&ED25519, public).verify(input, signature).is_ok(),
        #[cfg(not(feature = "fips"))]
        Public::MlDsa(public) => {
            let SignAlgorithm::MlDsa(set) = algorithm else { return false };
            UnparsedPublicKey::new(ml_dsa(set), public).verify(input, signature).is_ok()
        }
    }
}

/// Digest of an algorithm; `None` for algorithms that sign messages as a whole.
fn hash_of(algorithm: SignAlgorithm) -> Option<SignatureHash> {
    match algorithm {
        SignAlgorithm::RsaPkcs1(hash)
        | SignAlgorithm::RsaPss(hash)
        | SignAlgorithm::EcdsaDer(_, hash)
        | SignAlgorithm::EcdsaRaw(_, hash) => Some(hash),
        SignAlgorithm::Ed25519 | SignAlgorithm::MlDsa(_) => None,
    }
}

/// Scheme of an algorithm of RSA, ECDSA or ML-DSA; `None` for Ed25519.
fn scheme(algorithm: SignAlgorithm) -> Option<Scheme> {
    match algorithm {
        SignAlgorithm::RsaPkcs1(hash) => Some(Scheme::RsaPkcs1(hash.into())),
        SignAlgorithm::RsaPss(hash) => Some(Scheme::RsaPss(hash.into())),
        SignAlgorithm::EcdsaDer(_, hash) | SignAlgorithm::EcdsaRaw(_, hash) => Some(Scheme::Ecdsa(hash.into())),
        SignAlgorithm::MlDsa(set) => Some(Scheme::MlDsa(set.into())),
        SignAlgorithm::Ed25519 => None,
    }
}

/// Parameter set of ML-DSA in the crypto library.
#[cfg(not(feature = "fips"))]
fn ml_dsa(set: MlDsaAlgorithm) -> &'static PqdsaVerificationAlgorithm {
    match set {
        MlDsaAlgorithm::MlDsa44 => &ML_DSA_44,
        MlDsaAlgorithm::MlDsa65 => &ML_DSA_65,
        MlDsaAlgorithm::MlDsa87 => &ML_DSA_87,
    }
}

/// Length of a number below the curve's order, in bytes.
fn field_len(curve: Curve) -> usize {
    curve.bits().div_ceil(8) as usize
}
