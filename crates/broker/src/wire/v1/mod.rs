//! Our own wire, `sealway.broker.v1`: batches, and only keys of the store. A header has the parent span; the answer
//! describes the operation.

pub(super) mod keys;
pub(super) mod sealing;
pub(super) mod secrets;

use sealway_proto::broker::v1::{
    Deprecation, Descriptor, HashRequest, HashResponse, InformationRequest, InformationResponse, MacRequest,
    MacResponse, ProfileOperations, Refusal as RefusalMessage, SignCertificateRequest, SignCertificateResponse,
    SignRequest, SignResponse, Signed as SignedMessage, VerifyMacRequest, VerifyMacResponse, VerifyRequest,
    VerifyResponse,
};
use zeroize::Zeroizing;

use super::{Wires, bounds, certificate};
use crate::call::Call;
use crate::certificate::{Bound, Flavour, Issuer, Request};
use crate::keys::{Algorithm, KEY_ID_LEN_MAX};
use crate::module::module;
use crate::operation::{self, Outputs, SignedInput};
use crate::profile::policy::{Curve, Profile, SignAlgorithm, SignatureHash, UnwrapAlgorithm};
use crate::service::{Grant, Outcome, Query, work_of};
use crate::{Refusal, Result};

/// Lower bound of the throughput of ciphers and MACs, in bytes per µs.
const BYTES_A_US: u64 = 500;

pub(super) fn query<'a>(
    call: &'a Call,
    operation: &'static str,
    profile: &'a str,
    key: Option<&'a str>,
    lens: impl IntoIterator<Item = usize>,
) -> Query<'a> {
    Query { key, trace: call.trace(), ..Query::new(call.method.own_wire(), operation, profile, lens) }
}

/// Runs an operation under a profile, and describes it. `shape` is the request's fault apart from its profile and key.
pub(super) async fn run<T: Send>(
    wires: &Wires,
    call: &Call,
    query: Query<'_>,
    shape: Result<()>,
    work: impl FnOnce(&Profile, &Grant) -> Result<Outcome<T>> + Send,
) -> Result<(Option<Descriptor>, T)> {
    let key_fits = query.key.map_or(Ok(()), |id| bounds::required("key_id", id.len(), KEY_ID_LEN_MAX));
    let shape = bounds::profile(query.profile.unwrap_or_default()).and(key_fits).and(shape);
    let work = |grant: &Grant| {
        let profile = grant.profile()?;
        let each_us = if query.operation.starts_with("Verify") { Algorithm::verify_us } else { Algorithm::about_us };
        let each_us = query.key.map(|_| grant.key()).transpose()?.map_or(0, |key| each_us(key.algorithm()));
        let about_us = each_us * query.count as u64 + query.bytes_in as u64 / BYTES_A_US;
        work_of(about_us, || work(profile, grant))
    };
    let outcome = wires.service.run(call, query, shape, work).await?;
    Ok((descriptor(&query, &outcome), outcome.value))
}

fn descriptor<T>(query: &Query<'_>, outcome: &Outcome<T>) -> Option<Descriptor> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Some(Descriptor {
        profile: query.profile.unwrap_or_default().to_owned(),
        operation: query.operation.to_owned(),
        algorithm: outcome.algorithm.clone(),
        key_id: query.key.unwrap_or_default().to_owned(),
        key_version: outcome.key_version,
        deprecation: outcome.deprecation.as_ref().map(|found| Deprecation {
            replaced_by: text(&found.replaced_by),
            deprecated_since: text(&found.deprecated_since),
            remove_after: text(&found.remove_after),
            reason: text(&found.reason),
        }),
    })
}

/// Makes the outcome of outputs under a key, or without one.
pub(super) fn outcome<T>(outputs: Outputs<T>, len: impl Fn(&T) -> usize, algorithm: String) -> Outcome<Vec<T>> {
    let bytes_out = outputs.outputs.iter().map(len).sum();
    Outcome { algorithm, key_version: outputs.key_version, ..Outcome::new(outputs.outputs, bytes_out) }
}

/// Takes the inputs out of a message, to be wiped on drop however the call ends. Copies in the connection's buffers
/// cannot be wiped.
fn secrets<'a>(inputs: impl IntoIterator<Item = &'a mut Vec<u8>>) -> Vec<Zeroizing<Vec<u8>>> {
    inputs.into_iter().map(|input| Zeroizing::new(std::mem::take(input))).collect()
}

pub(super) fn slices(inputs: &[Zeroizing<Vec<u8>>]) -> Vec<&[u8]> {
    inputs.iter().map(|input| input.as_slice()).collect()
}

/// Formats the error of one entry of a batch, which leaves the others unaffected.
fn refused(refusal: Refusal) -> RefusalMessage {
    RefusalMessage { code: refusal.code.number().into(), message: refusal.text }
}

pub(super) async fn hash(wires: &Wires, call: &Call, mut request: HashRequest) -> Result<HashResponse> {
    let inputs = secrets(&mut request.inputs);
    let query = query(call, "HashData", &request.profile, None, inputs.iter().map(|input| input.len()));
    let shape = bounds::profile(&request.profile)
        .and_then(|()| operation::check_batch("inputs", inputs.iter().map(|input| input.len())));
    let outcome = crate::hash::run(&wires.service, call, query, shape, &inputs).await?;
    Ok(HashResponse { descriptor: descriptor(&query, &outcome), digests: outcome.value })
}

pub(super) async fn sign_certificate(
    wires: &Wires,
    call: &Call,
    request: SignCertificateRequest,
) -> Result<SignCertificateResponse> {
    let bound = |field: &str, seconds: Option<i64>| {
        let bound = seconds.map_or(Ok(Bound::Profile), |seconds| u64::try_from(seconds).map(Bound::At));
        bound.map_err(|_| Refusal::invalid(format!("{field}: before 1970")))
    };
    let not_before = bound("not_before", request.not_before);
    let not_after = bound("not_after", request.not_after);
    let shape = bounds::profile(&request.profile)
        .and_then(|()| bounds::required("csr", request.csr.len(), bounds::PEM_MAX))
        .and_then(|()| bounds::required("ca_key_ref", request.ca_key_ref.len(), KEY_ID_LEN_MAX))
        .and_then(|()| bounds::at_most("ca_certificate", request.ca_certificate.len(), bounds::PEM_MAX))
        .and_then(|()| bounds::subject(request.subject.as_deref()))
        .and_then(|()| bounds::crl_points("crl_distribution_points", &request.crl_distribution_points))
        .and_then(|()| not_before.as_ref().and(not_after.as_ref()).map(|_| ()).map_err(Refusal::clone));
    let query = query(call, "SignCertificate", &request.profile, Some(&request.ca_key_ref), []);
    let certificate = Request {
        csr: &request.csr,
        ca_certificate: &request.ca_certificate,
        // Replaced by the query's key.
        issuer: Issuer::Pem(&[]),
        not_before: not_before.unwrap_or_default(),
        not_after: not_after.unwrap_or_default(),
        subject: request.subject.as_deref(),
        crl_points: &request.crl_distribution_points,
        now_ms: wires.service.now_ms(),
        wire: Flavour::Ours,
    };
    let outcome = certificate::issue(wires, call, query, shape, &certificate).await?;
    Ok(SignCertificateResponse { descriptor: descriptor(&query, &outcome), der: outcome.value.der })
}

pub(super) async fn sign(wires: &Wires, call: &Call, mut request: SignRequest) -> Result<SignResponse> {
    let inputs = secrets(&mut request.inputs);
    let lens = inputs.iter().map(|input| input.len());
    let operation = if request.prehashed { "SignDigest" } else { "SignData" };
    let query = query(call, operation, &request.profile, Some(&request.key_id), lens);
    let work = |profile: &Profile, grant: &Grant| {
        let (key, inputs) = (grant.key()?, slices(&inputs));
        let outputs = match request.prehashed {
            false => operation::sign(profile, key, &inputs),
            true => operation::sign_digests(profile, key, &inputs),
        }?;
        Ok(outcome(outputs, Vec::len, signature_name(profile.sign)))
    };
    let (descriptor, signatures) = run(wires, call, query, Ok(()), work).await?;
    Ok(SignResponse { descriptor, signatures })
}

pub(super) async fn mac(wires: &Wires, call: &Call, mut request: MacRequest) -> Result<MacResponse> {
    let inputs = secrets(&mut request.inputs);
    let query = query(call, "Mac", &request.profile, Some(&request.key_id), inputs.iter().map(|input| input.len()));
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let outputs = operation::mac(profile, key, &slices(&inputs))?;
        Ok(outcome(outputs, Vec::len, key.algorithm().to_string()))
    };
    let (descriptor, tags) = run(wires, call, query, Ok(()), work).await?;
    Ok(MacResponse { descriptor, tags })
}

pub(super) async fn verify(wires: &Wires, call: &Call, mut request: VerifyRequest) -> Result<VerifyResponse> {
    let inputs = secrets(request.signed.iter_mut().map(|signed| &mut signed.input));
    let lens = inputs.iter().map(|input| input.len());
    let operation = if request.prehashed { "VerifyDigest" } else { "VerifyData" };
    let query = query(call, operation, &request.profile, Some(&request.key_id), lens);
    let work = |profile: &Profile, grant: &Grant| {
        let (key, signed) = (grant.key()?, signed(&inputs, &request.signed));
        let valid = match request.prehashed {
            false => operation::verify(profile, key, &signed),
            true => operation::verify_digests(profile, key, &signed),
        }?;
        let bytes_out = valid.len();
        Ok(Outcome { algorithm: signature_name(profile.sign), ..Outcome::new(valid, bytes_out) })
    };
    let (descriptor, valid) = run(wires, call, query, Ok(()), work).await?;
    Ok(VerifyResponse { descriptor, valid })
}

pub(super) async fn verify_mac(wires: &Wires, call: &Call, mut request: VerifyMacRequest) -> Result<VerifyMacResponse> {
    let inputs = secrets(request.signed.iter_mut().map(|signed| &mut signed.input));
    let lens = inputs.iter().map(|input| input.len());
    let query = query(call, "VerifyMac", &request.profile, Some(&request.key_id), lens);
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let valid = operation::verify_mac(profile, key, &signed(&inputs, &request.signed))?;
        let bytes_out = valid.len();
        Ok(Outcome { algorithm: key.algorithm().to_string(), ..Outcome::new(valid, bytes_out) })
    };
    let (descriptor, valid) = run(wires, call, query, Ok(()), work).await?;
    Ok(VerifyMacResponse { descriptor, valid })
}

fn signed<'a>(inputs: &'a [Zeroizing<Vec<u8>>], batch: &'a [SignedMessage]) -> Vec<SignedInput<'a>> {
    let batch = inputs.iter().zip(batch);
    batch.map(|(input, one)| SignedInput { input, signature: &one.signature, key_version: one.key_version }).collect()
}

pub(super) async fn information(wires: &Wires, call: &Call, _: InformationRequest) -> Result<InformationResponse> {
    let query = Query { operation: "Information", wire: "v1", trace: call.trace(), ..Query::default() };
    let work = |_: &Grant| {
        let profiles = wires.service.profiles.current();
        let names = wires.service.with_callers(&profiles, |callers| {
            let usable = profiles.iter().filter(|profile| callers.may_use(&call.peer, &profile.name));
            usable.map(|profile| operations_of(profile, wires.service.is_fips)).collect::<Vec<_>>()
        });
        Ok(Outcome::new(names, 0))
    };
    let outcome = wires.service.run(call, query, Ok(()), work).await?;
    let module = module();
    Ok(InformationResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        module: module.name.to_owned(),
        module_version: module.version,
        certificate: module.certificate.unwrap_or("none").to_owned(),
        is_fips: module.is_fips,
        profiles: outcome.value.iter().map(|operations| operations.profile.clone()).collect(),
        operations: outcome.value,
    })
}

/// Describes a profile, without the operations that the FIPS build switches off.
fn operations_of(profile: &Profile, is_fips: bool) -> ProfileOperations {
    let is_on = |operation| !is_fips || !profile.unapproved.iter().any(|fault| fault.stops(operation, "v1"));
    let text = |name: Option<&str>| name.unwrap_or_default().to_owned();
    ProfileOperations {
        profile: profile.name.clone(),
        hash_data: text(profile.hash.map(crate::hash::name)),
        sign_data: signature_name(profile.sign.filter(|_| is_on("SignData"))),
        signs_digests: profile.sign_digests && is_on("SignDigest"),
        unwrap: text(profile.unwrap.filter(|_| is_on("Unwrap")).map(UnwrapAlgorithm::name)),
        random: profile.random,
    }
}

/// Name of a digest in descriptors.
pub(crate) fn hash_name(hash: SignatureHash) -> &'static str {
    match hash {
        SignatureHash::Sha256 => "sha-256",
        SignatureHash::Sha384 => "sha-384",
        SignatureHash::Sha512 => "sha-512",
    }
}

/// Name of a signature algorithm, such as `ecdsa-p384-sha-384`.
pub(crate) fn signature_name(algorithm: Option<SignAlgorithm>) -> String {
    let hash = hash_name;
    let curve = |curve| match curve {
        Curve::P256 => "p256",
        Curve::P384 => "p384",
        Curve::P521 => "p521",
    };
    match algorithm {
        Some(SignAlgorithm::RsaPkcs1(of)) => format!("rsa-pkcs1-{}", hash(of)),
        Some(SignAlgorithm::RsaPss(of)) => format!("rsa-pss-{}", hash(of)),
        Some(SignAlgorithm::EcdsaDer(on, of)) => format!("ecdsa-{}-{}", curve(on), hash(of)),
        Some(SignAlgorithm::EcdsaRaw(on, of)) => format!("ecdsa-{}-raw-{}", curve(on), hash(of)),
        Some(SignAlgorithm::Ed25519) => "ed25519".into(),
        Some(SignAlgorithm::MlDsa(set)) => set.name().into(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::policy::MlDsaAlgorithm;

    #[test]
    fn every_signature_algorithm_has_a_name_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for hash in [SignatureHash::Sha256, SignatureHash::Sha384, SignatureHash::Sha512] {
            names.insert(signature_name(Some(SignAlgorithm::RsaPkcs1(hash))));
            names.insert(signature_name(Some(SignAlgorithm::RsaPss(hash))));
            for curve in [Curve::P256, Curve::P384, Curve::P521] {
                names.insert(signature_name(Some(SignAlgorithm::EcdsaDer(curve, hash))));
                names.insert(signature_name(Some(SignAlgorithm::EcdsaRaw(curve, hash))));
            }
        }
        names.insert(signature_name(Some(SignAlgorithm::Ed25519)));
        names.extend(MlDsaAlgorithm::NAMES.map(|(_, set)| signature_name(Some(SignAlgorithm::MlDsa(set)))));
        assert_eq!(names.len(), 3 * 2 + 3 * 3 * 2 + 1 + 3);
        for name in ["rsa-pkcs1-sha-256", "rsa-pss-sha-512", "ecdsa-p384-sha-384", "ecdsa-p521-raw-sha-512"] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        assert_eq!(signature_name(None), "");
    }
}
