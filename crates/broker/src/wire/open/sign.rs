//! SignData and VerifyData of the wire W5: one input, a key of the store.
// SPEC broker.md#signatures-on-w5

use sealway_proto::broker::open::{
    KeySource, SignDataRequest, SignDataResponse, SignKeySource, SignatureFormat, VerifyDataRequest,
    VerifyDataResponse, key_source, sign_key_source,
};
use tonic::Status;
use zeroize::Zeroizing;

use super::super::bounds;
use super::super::call::{Call, work_of};
use super::encrypt::told;
use super::request::{check_metadata, deprecate, trace};
use super::{descriptor, shape};
use crate::Refusal;
use crate::keys::Algorithm;
use crate::operation;
use crate::profile::policy::{Profile, SignAlgorithm, SignatureHash};
use crate::service::{Allowed, Asked, Done, Service};

const SIGNING: &str = "something went wrong while signing data: ";
const VERIFYING: &str = "something went wrong while verifying data: ";

/// The id of a key of the store: private keys do not cross the socket, and nothing here makes composite signatures.
fn key_id(source: Option<SignKeySource>) -> Result<String, Refusal> {
    match source.and_then(|source| source.source) {
        None => Err(Refusal::invalid("keySource: required")),
        Some(sign_key_source::Source::ComponentKeys(_)) => {
            Err(Refusal::invalid("keySource.componentKeys: composite signatures are not supported; use single"))
        }
        Some(sign_key_source::Source::Single(KeySource { source })) => match source {
            None => Err(Refusal::invalid("keySource.single: required")),
            Some(key_source::Source::RawKey(bytes)) => {
                drop(Zeroizing::new(bytes));
                let text = "keySource.single.rawKey: not accepted; import the key and name it with keyId";
                Err(Refusal::invalid(text))
            }
            Some(key_source::Source::KeyId(id)) => {
                bounds::required("keySource.single.keyId", id.len(), bounds::KEY_ID_MAX).map(|()| id)
            }
        },
    }
}

/// An encoding that signatures may have here; PEM and CMS have numbers of their own and are not made.
fn format(number: i32) -> Result<SignatureFormat, Refusal> {
    match SignatureFormat::try_from(number) {
        Ok(format @ (SignatureFormat::SignatureRaw | SignatureFormat::SignatureDer)) => Ok(format),
        _ => Err(Refusal::invalid(format!("signatureFormat: {number} is not supported; expected 0 (RAW) or 1 (DER)"))),
    }
}

/// The profile, with the encoding of the signature that the request names: the profile decides on all else.
fn encoded(profile: &Profile, number: i32) -> Result<Profile, Refusal> {
    let is_der = format(number)? == SignatureFormat::SignatureDer;
    let sign = match profile.sign {
        Some(SignAlgorithm::EcdsaDer(curve, hash) | SignAlgorithm::EcdsaRaw(curve, hash)) => {
            Some(if is_der { SignAlgorithm::EcdsaDer(curve, hash) } else { SignAlgorithm::EcdsaRaw(curve, hash) })
        }
        _ if is_der => {
            return Err(Refusal::invalid("signatureFormat: 1 (DER) needs a profile of ecdsa; expected 0 (RAW)"));
        }
        sign => sign,
    };
    Ok(Profile { sign, ..profile.clone() })
}

/// As descriptors of this wire call it.
fn algorithm(profile: &Profile) -> String {
    let hash = |hash| match hash {
        SignatureHash::Sha256 => "sha-256",
        SignatureHash::Sha384 => "sha-384",
        SignatureHash::Sha512 => "sha-512",
    };
    match profile.sign {
        Some(SignAlgorithm::RsaPkcs1(of)) => format!("rsa-with-{}", hash(of)),
        Some(SignAlgorithm::RsaPss(of)) => format!("rsa-pss-with-{}", hash(of)),
        Some(SignAlgorithm::EcdsaDer(_, of) | SignAlgorithm::EcdsaRaw(_, of)) => format!("ecdsa-with-{}", hash(of)),
        Some(SignAlgorithm::Ed25519) => "ed25519".into(),
        Some(SignAlgorithm::MlDsa65) => "ml-dsa-65".into(),
        None => String::new(),
    }
}

pub(super) async fn sign(
    call: &Call,
    service: &Service,
    mut request: SignDataRequest,
) -> Result<SignDataResponse, Status> {
    let input = Zeroizing::new(std::mem::take(&mut request.input));
    let key = key_id(request.key_source.take());
    let fits = bounds::profile(&request.profile)
        .and_then(|()| key.as_ref().map(|_| ()).map_err(Refusal::clone))
        .and_then(|()| bounds::at_most("input", input.len(), bounds::INPUT_MAX))
        .and_then(|()| format(request.signature_format).map(|_| ()))
        .and_then(|()| check_metadata(request.metadata.as_ref()));
    let trace = trace(request.metadata.as_ref(), &fits);
    let asked = Asked {
        operation: "SignData",
        wire: "w5",
        profile: Some(&request.profile),
        key: key.as_deref().ok(),
        count: 1,
        bytes_in: input.len(),
    };
    let work = |allowed: &Allowed| {
        let (profile, key) = (encoded(allowed.profile()?, request.signature_format)?, allowed.key()?);
        let about_us = Algorithm::about_us(key.algorithm());
        let made = work_of(about_us, || operation::sign(&profile, key, &[&input]))?;
        let signature = made.outputs.into_iter().next().unwrap_or_default();
        let bytes_out = signature.len();
        let value = (signature, algorithm(&profile), profile.deprecation);
        Ok(Done { value, key_version: Some(made.key_version), bytes_out })
    };
    let made = call.run(service, trace, asked, fits.map_err(shape), work).await;
    let (signature, algorithm, deprecation) = made.map_err(|refusal| told(SIGNING, refusal))?;
    Ok(SignDataResponse {
        signature,
        metadata: deprecate(request.metadata, &request.profile, deprecation),
        descriptor: Some(descriptor(request.profile, "SignData", &algorithm)),
    })
}

pub(super) async fn verify(
    call: &Call,
    service: &Service,
    mut request: VerifyDataRequest,
) -> Result<VerifyDataResponse, Status> {
    let input = Zeroizing::new(std::mem::take(&mut request.input));
    let key = key_id(request.key_source.take());
    let fits = bounds::profile(&request.profile)
        .and_then(|()| key.as_ref().map(|_| ()).map_err(Refusal::clone))
        .and_then(|()| bounds::at_most("input", input.len(), bounds::INPUT_MAX))
        .and_then(|()| format(request.signature_format).map(|_| ()))
        .and_then(|()| bounds::required("signature", request.signature.len(), bounds::SIGNATURE_MAX))
        .and_then(|()| check_metadata(request.metadata.as_ref()));
    let trace = trace(request.metadata.as_ref(), &fits);
    let asked = Asked {
        operation: "VerifyData",
        wire: "w5",
        profile: Some(&request.profile),
        key: key.as_deref().ok(),
        count: 1,
        bytes_in: input.len(),
    };
    let work = |allowed: &Allowed| {
        let (profile, key) = (encoded(allowed.profile()?, request.signature_format)?, allowed.key()?);
        let about_us = Algorithm::verify_us(key.algorithm());
        let valid = work_of(about_us, || operation::verify_one(&profile, key, &input, &request.signature))?;
        Ok(Done { value: (valid, profile.deprecation), key_version: None, bytes_out: 1 })
    };
    let made = call.run(service, trace, asked, fits.map_err(shape), work).await;
    let (valid, deprecation) = made.map_err(|refusal| told(VERIFYING, refusal))?;
    Ok(VerifyDataResponse { valid, metadata: deprecate(request.metadata, &request.profile, deprecation) })
}
