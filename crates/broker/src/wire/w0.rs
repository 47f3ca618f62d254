//! The wire W0: durations as text, and code 2 for all errors.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_proto::broker::w0::{HashRequest, HashResponse, Metadata, SignRequest, SignResponse};
use zeroize::Zeroizing;

use super::{Wires, bounds, certificate};
use crate::call::Call;
use crate::certificate::{Bound, Flavour, Issuer, Request};
use crate::hash::hex;
use crate::profile::duration;
use crate::service::Query;
use crate::{Code, Refusal, Result};

/// The original's text has this misspelling, and users search for it.
const PROFILE: &str = "could not retrieve profile";
const PROFILE_W0: &str = "could not retireve profile";

fn failure(refusal: Refusal) -> Refusal {
    let text = match refusal.text.strip_prefix(PROFILE) {
        Some(rest) => format!("{PROFILE_W0}{rest}"),
        None => refusal.text,
    };
    Refusal::new(Code::Unknown, text)
}

fn check_metadata(metadata: Option<&Metadata>) -> Result<()> {
    let Some(metadata) = metadata else { return Ok(()) };
    bounds::metadata(&metadata.id, None)?;
    bounds::at_most("metadata.createdAt", metadata.created_at.len(), bounds::CREATED_AT_MAX)
}

fn offset(field: &str, text: Option<&str>) -> Result<Bound> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Bound::Profile) };
    bounds::at_most(field, text.len(), bounds::DURATION_MAX)?;
    let parsed = duration::parse(text);
    parsed.map(Bound::From).map_err(|err| Refusal::invalid(format!("error parsing request data: {field}: {err}")))
}

pub(super) async fn hash(wires: &Wires, call: &Call, mut request: HashRequest) -> Result<HashResponse> {
    let input = Zeroizing::new(std::mem::take(&mut request.input));
    let fits = bounds::hash(&request.profile, &input).and_then(|()| check_metadata(request.metadata.as_ref()));
    let query = Query::new("w0", "HashData", &request.profile, [input.len()]);
    let outcome = crate::hash::run(&wires.service, call, query, fits, &[&*input]).await.map_err(failure)?;
    Ok(HashResponse {
        hash_value: outcome.value.first().map(|digest| hex(digest)).unwrap_or_default(),
        hash_algorithm: outcome.algorithm,
        metadata: request.metadata,
    })
}

pub(super) async fn sign(wires: &Wires, call: &Call, mut request: SignRequest) -> Result<SignResponse> {
    let key = Zeroizing::new(std::mem::take(&mut request.ca_private_key));
    let not_before = offset("validNotBeforeOffset", request.valid_not_before_offset.as_deref());
    let not_after = offset("validNotAfterOffset", request.valid_not_after_offset.as_deref());
    let offsets = not_before.as_ref().and(not_after.as_ref()).map(|_| ()).map_err(Refusal::clone);
    let certificate = Request {
        csr: request.csr.as_bytes(),
        ca_certificate: request.ca_cert.as_bytes(),
        issuer: Issuer::Pem(key.as_bytes()),
        not_before: not_before.unwrap_or_default(),
        not_after: not_after.unwrap_or_default(),
        subject: request.subject.as_deref(),
        crl_points: &request.crl_distribution_points,
        now_ms: wires.service.now_ms(),
        wire: Flavour::W0,
    };
    let fits = bounds::certificate(&request.profile, &certificate)
        .and_then(|()| check_metadata(request.metadata.as_ref()))
        .and(offsets);
    let query = Query::new("w0", "SignCertificate", &request.profile, []);
    let outcome = certificate::issue(wires, call, query, fits, &certificate).await.map_err(failure)?;
    Ok(SignResponse { signed_certificate: STANDARD.encode(&outcome.value.der), metadata: request.metadata })
}
