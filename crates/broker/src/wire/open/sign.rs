//! SignData and VerifyData of the wire W5: one input, a key of the store.
// SPEC broker.md#signatures-on-w5

use sealway_proto::broker::open::{
    KeySource, SignDataRequest, SignDataResponse, SignKeySource, SignatureFormat, VerifyDataRequest,
    VerifyDataResponse, key_source, sign_key_source,
};
use zeroize::Zeroizing;

use super::encrypt::failure;
use super::{check_metadata, deprecate, descriptor, shape, trace};
use crate::call::Call;
use crate::operation;
use crate::profile::policy::{Profile, SignAlgorithm};
use crate::service::{Grant, Outcome, Query, work_of};
use crate::wire::v1::hash_name;
use crate::wire::{Wires, bounds};
use crate::{Refusal, Result};

const SIGNING: &str = "something went wrong while signing data: ";
const VERIFYING: &str = "something went wrong while verifying data: ";

/// Returns the id of a key of the store: private keys do not cross the socket, and composite signatures are not
/// supported.
fn key_id(source: Option<SignKeySource>) -> Result<String> {
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

/// Returns a supported signature encoding; PEM and CMS have numbers of their own and are not supported.
fn format(number: i32) -> Result<SignatureFormat> {
    match SignatureFormat::try_from(number) {
        Ok(format @ (SignatureFormat::SignatureRaw | SignatureFormat::SignatureDer)) => Ok(format),
        _ => Err(Refusal::invalid(format!("signatureFormat: {number} is not supported; expected 0 (RAW) or 1 (DER)"))),
    }
}

/// Returns the profile with the request's signature encoding: the profile decides on everything else.
fn encoded(profile: &Profile, number: i32) -> Result<Profile> {
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

/// Algorithm's name in descriptors of this wire.
fn algorithm(profile: &Profile) -> String {
    let hash = hash_name;
    match profile.sign {
        Some(SignAlgorithm::RsaPkcs1(of)) => format!("rsa-with-{}", hash(of)),
        Some(SignAlgorithm::RsaPss(of)) => format!("rsa-pss-with-{}", hash(of)),
        Some(SignAlgorithm::EcdsaDer(_, of) | SignAlgorithm::EcdsaRaw(_, of)) => format!("ecdsa-with-{}", hash(of)),
        Some(SignAlgorithm::Ed25519) => "ed25519".into(),
        Some(SignAlgorithm::MlDsa(set)) => set.name().into(),
        None => String::new(),
    }
}

pub(crate) async fn sign_data(wires: &Wires, call: &Call, mut request: SignDataRequest) -> Result<SignDataResponse> {
    let input = Zeroizing::new(std::mem::take(&mut request.input));
    let key = key_id(request.key_source.take());
    let fits = bounds::profile(&request.profile)
        .and_then(|()| key.as_ref().map(|_| ()).map_err(Refusal::clone))
        .and_then(|()| bounds::at_most("input", input.len(), bounds::INPUT_MAX))
        .and_then(|()| format(request.signature_format).map(|_| ()))
        .and_then(|()| check_metadata(request.metadata.as_ref()));
    let trace = trace(request.metadata.as_ref(), &fits);
    let key = key.as_deref().ok();
    let query = Query { key, trace, ..Query::new("w5", "SignData", &request.profile, [input.len()]) };
    let work = |grant: &Grant| {
        let (profile, key) = (encoded(grant.profile()?, request.signature_format)?, grant.key()?);
        let outputs = work_of(key.algorithm().about_us(), || operation::sign(&profile, key, &[&input]))?;
        let signature = outputs.outputs.into_iter().next().unwrap_or_default();
        let (key_version, bytes_out) = (outputs.key_version, signature.len());
        Ok(Outcome { algorithm: algorithm(&profile), key_version, ..Outcome::new(signature, bytes_out) })
    };
    let outcome = wires.service.run(call, query, fits.map_err(shape), work).await;
    let outcome = outcome.map_err(|refusal| failure(SIGNING, refusal))?;
    Ok(SignDataResponse {
        signature: outcome.value,
        metadata: deprecate(request.metadata, &request.profile, outcome.deprecation),
        descriptor: descriptor(request.profile, "SignData", outcome.algorithm),
    })
}

pub(crate) async fn verify_data(
    wires: &Wires,
    call: &Call,
    mut request: VerifyDataRequest,
) -> Result<VerifyDataResponse> {
    let input = Zeroizing::new(std::mem::take(&mut request.input));
    let key = key_id(request.key_source.take());
    let fits = bounds::profile(&request.profile)
        .and_then(|()| key.as_ref().map(|_| ()).map_err(Refusal::clone))
        .and_then(|()| bounds::at_most("input", input.len(), bounds::INPUT_MAX))
        .and_then(|()| format(request.signature_format).map(|_| ()))
        .and_then(|()| bounds::required("signature", request.signature.len(), bounds::SIGNATURE_MAX))
        .and_then(|()| check_metadata(request.metadata.as_ref()));
    let trace = trace(request.metadata.as_ref(), &fits);
    let key = key.as_deref().ok();
    let query = Query { key, trace, ..Query::new("w5", "VerifyData", &request.profile, [input.len()]) };
    let work = |grant: &Grant| {
        let (profile, key) = (encoded(grant.profile()?, request.signature_format)?, grant.key()?);
        let verify = || operation::verify_one(&profile, key, &input, &request.signature);
        Ok(Outcome::new(work_of(key.algorithm().verify_us(), verify)?, 1))
    };
    let outcome = wires.service.run(call, query, fits.map_err(shape), work).await;
    let outcome = outcome.map_err(|refusal| failure(VERIFYING, refusal))?;
    let metadata = deprecate(request.metadata, &request.profile, outcome.deprecation);
    Ok(VerifyDataResponse { valid: outcome.value, metadata })
}
