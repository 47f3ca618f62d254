//! The wires W1 to W5 of the Open Crypto Broker, which share their paths.

pub(super) mod encrypt;
pub(super) mod sign;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_proto::broker::open::{
    BenchmarkRequest, BenchmarkResponse, CryptoDescriptor, Deprecation, FakeEndpointRequest, FakeEndpointResponse,
    HashDataRequest, HashDataResponse, HashOutputFormat, HashRequest, HashResponse, Metadata, MetadataW1,
    SignCertificateRequest, SignCertificateResponse, SignOutputFormat, SignRequest, SignResponse, TraceContext,
    hash_data_response, sign_certificate_response,
};
use zeroize::Zeroizing;

use super::{Wires, bounds, certificate, dev};
use crate::call::{Call, Trace};
use crate::certificate::{Bound, Flavour, Issuer, Request};
use crate::hash::hex;
use crate::profile::policy;
use crate::service::Query;
use crate::{Code, Refusal, Result};

const HASHING: &str = "something went wrong while hashing data: ";
const SIGNING: &str = "something went wrong while signing certificate: ";

/// Formats a fault of the request itself as the error of an inner call.
fn shape(refusal: Refusal) -> Refusal {
    Refusal { code: refusal.code, text: format!("rpc error: code = InvalidArgument desc = {}", refusal.text) }
}

/// Formats an error as these wires write it.
fn failed(doing: &str, refusal: Refusal) -> Refusal {
    Refusal { code: refusal.code, text: format!("{doing}{}", refusal.text) }
}

/// Rejects a method of the older wires if it is off.
fn check_earlier(is_there: bool, method: &str) -> Result<()> {
    let text = || format!("unknown method {method} for service CryptoBroker.CryptoGrpc");
    if is_there { Ok(()) } else { Err(Refusal::new(Code::Unimplemented, text())) }
}

fn descriptor(profile: String, operation: &str, algorithm: String) -> Option<CryptoDescriptor> {
    Some(CryptoDescriptor { profile, operation: operation.to_owned(), algorithm })
}

fn check_metadata(metadata: Option<&Metadata>) -> Result<()> {
    metadata.map_or(Ok(()), |metadata| bounds::metadata(&metadata.id, metadata.trace_context.as_ref()))
}

pub(super) fn check_metadata_w1(metadata: Option<&MetadataW1>) -> Result<()> {
    let Some(metadata) = metadata else { return Ok(()) };
    bounds::metadata(&metadata.id, metadata.trace_context.as_ref())?;
    bounds::at_most("metadata.createdAt", metadata.created_at.len(), bounds::CREATED_AT_MAX)
}

/// Parent span in the message; none for a rejected message.
fn trace<'a>(metadata: Option<&'a Metadata>, fits: &Result<()>) -> Trace<'a> {
    of_context(metadata.and_then(|metadata| metadata.trace_context.as_ref()), fits)
}

pub(super) fn trace_w1<'a>(metadata: Option<&'a MetadataW1>, fits: &Result<()>) -> Trace<'a> {
    of_context(metadata.and_then(|metadata| metadata.trace_context.as_ref()), fits)
}

fn of_context<'a>(context: Option<&'a TraceContext>, fits: &Result<()>) -> Trace<'a> {
    let Some(context) = context.filter(|_| fits.is_ok()) else { return Trace::default() };
    Trace { trace_id: &context.trace_id, span_id: &context.span_id, correlation: &context.correlation_id }
}

/// Adds the profile's deprecation to the request's metadata.
fn deprecate(metadata: Option<Metadata>, profile: &str, deprecation: Option<policy::Deprecation>) -> Option<Metadata> {
    let Some(found) = deprecation else { return metadata };
    let deprecation = Deprecation {
        profile: profile.to_owned(),
        replaced_by: found.replaced_by,
        deprecated_since: found.deprecated_since,
        remove_after: found.remove_after,
        reason: found.reason,
    };
    Some(Metadata { deprecation: Some(deprecation), ..metadata.unwrap_or_default() })
}

pub(super) async fn hash_data(wires: &Wires, call: &Call, mut request: HashDataRequest) -> Result<HashDataResponse> {
    let input = Zeroizing::new(std::mem::take(&mut request.input));
    let fits = bounds::hash(&request.profile, &input).and_then(|()| check_metadata(request.metadata.as_ref()));
    let trace = trace(request.metadata.as_ref(), &fits);
    let query = Query { trace, ..Query::new("w3", "HashData", &request.profile, [input.len()]) };
    let outcome = crate::hash::run(&wires.service, call, query, fits.map_err(shape), &[&*input]).await;
    let outcome = outcome.map_err(|refusal| failed(HASHING, refusal))?;
    let digest = outcome.value.into_iter().next().unwrap_or_default();
    let hash_value = if request.output_format == i32::from(HashOutputFormat::Raw) {
        hash_data_response::HashValue::HashValueRaw(digest)
    } else {
        hash_data_response::HashValue::HashValueHex(hex(&digest))
    };
    Ok(HashDataResponse {
        hash_algorithm: outcome.algorithm.clone(),
        metadata: deprecate(request.metadata, &request.profile, outcome.deprecation),
        descriptor: descriptor(request.profile, "HashData", outcome.algorithm),
        hash_value: Some(hash_value),
    })
}

pub(super) async fn hash(wires: &Wires, call: &Call, mut request: HashRequest) -> Result<HashResponse> {
    check_earlier(wires.has_earlier_wires, "Hash")?;
    let input = Zeroizing::new(std::mem::take(&mut request.input));
    let fits = bounds::hash(&request.profile, &input).and_then(|()| check_metadata_w1(request.metadata.as_ref()));
    let trace = trace_w1(request.metadata.as_ref(), &fits);
    let query = Query { trace, ..Query::new("w1", "HashData", &request.profile, [input.len()]) };
    let outcome = crate::hash::run(&wires.service, call, query, fits.map_err(shape), &[&*input]).await;
    let outcome = outcome.map_err(|refusal| failed(HASHING, refusal))?;
    Ok(HashResponse {
        hash_value: outcome.value.first().map(|digest| hex(digest)).unwrap_or_default(),
        hash_algorithm: outcome.algorithm,
        metadata: request.metadata,
    })
}

/// Builds the request of SignCertificate: the messages of W1 and W3 differ only in metadata and answers.
macro_rules! certificate {
    ($wires:expr, $request:expr, $key:expr) => {{
        let unix = |seconds: Option<u64>| seconds.map_or(Bound::Profile, Bound::At);
        Request {
            csr: $request.csr.as_bytes(),
            ca_certificate: $request.ca_cert.as_bytes(),
            issuer: Issuer::Pem($key.as_bytes()),
            not_before: unix($request.valid_not_before),
            not_after: unix($request.valid_not_after),
            subject: $request.subject.as_deref(),
            crl_points: &$request.crl_distribution_points,
            now_ms: $wires.service.now_ms(),
            wire: Flavour::Open,
        }
    }};
}

pub(super) async fn sign_certificate(
    wires: &Wires,
    call: &Call,
    mut request: SignCertificateRequest,
) -> Result<SignCertificateResponse> {
    let key = Zeroizing::new(std::mem::take(&mut request.ca_private_key));
    let certificate = certificate!(wires, request, key);
    let fits =
        bounds::certificate(&request.profile, &certificate).and_then(|()| check_metadata(request.metadata.as_ref()));
    let trace = trace(request.metadata.as_ref(), &fits);
    let query = Query { trace, ..Query::new("w3", "SignCertificate", &request.profile, []) };
    let outcome = certificate::issue(wires, call, query, fits.map_err(shape), &certificate).await;
    let outcome = outcome.map_err(|refusal| failed(SIGNING, refusal))?;
    let signed = if request.output_format == i32::from(SignOutputFormat::Pem) {
        sign_certificate_response::SignedCertificate::Pem(outcome.value.pem())
    } else {
        sign_certificate_response::SignedCertificate::Der(outcome.value.der)
    };
    Ok(SignCertificateResponse {
        metadata: deprecate(request.metadata, &request.profile, outcome.deprecation),
        descriptor: descriptor(request.profile, "SignCertificate", outcome.algorithm),
        signed_certificate: Some(signed),
    })
}

pub(super) async fn sign(wires: &Wires, call: &Call, mut request: SignRequest) -> Result<SignResponse> {
    check_earlier(wires.has_earlier_wires, "Sign")?;
    let key = Zeroizing::new(std::mem::take(&mut request.ca_private_key));
    let certificate = certificate!(wires, request, key);
    let fits =
        bounds::certificate(&request.profile, &certificate).and_then(|()| check_metadata_w1(request.metadata.as_ref()));
    let trace = trace_w1(request.metadata.as_ref(), &fits);
    let query = Query { trace, ..Query::new("w1", "SignCertificate", &request.profile, []) };
    let outcome = certificate::issue(wires, call, query, fits.map_err(shape), &certificate).await;
    let outcome = outcome.map_err(|refusal| failed(SIGNING, refusal))?;
    Ok(SignResponse { signed_certificate: STANDARD.encode(&outcome.value.der), metadata: request.metadata })
}

pub(super) async fn benchmark(wires: &Wires, call: &Call, request: BenchmarkRequest) -> Result<BenchmarkResponse> {
    check_earlier(wires.has_earlier_wires && wires.dev.is_some(), "Benchmark")?;
    dev::benchmark(wires, call, request).await
}

pub(super) async fn fake_endpoint(
    wires: &Wires,
    call: &Call,
    request: FakeEndpointRequest,
) -> Result<FakeEndpointResponse> {
    check_earlier(wires.has_earlier_wires && wires.dev.is_some(), "FakeEndpoint")?;
    dev::fake_endpoint(wires, call, request).await
}
