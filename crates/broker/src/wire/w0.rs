//! The wire W0: durations as text, and 2 for whatever was wrong.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_proto::broker::w0::{HashRequest, HashResponse, Metadata, SignRequest, SignResponse};
use tonic::{Request, Response, Status};
use zeroize::Zeroizing;

use super::bounds;
use super::call::Call;
use super::certifying::{CaKey, Wanted, certify};
use super::generated::w0::crypto_broker_server::CryptoBroker;
use super::hashing::hash;
use super::status::{hex, status};
use crate::certificate::{Bound, Flavour};
use crate::profile::duration;
use crate::service::Service;
use crate::telemetry::Trace;
use crate::{Code, Refusal};

/// What answers on it.
#[derive(Debug)]
pub(super) struct W0 {
    service: Arc<Service>,
}

impl W0 {
    pub(super) fn new(service: Arc<Service>) -> W0 {
        W0 { service }
    }
}

/// The original's text has this slip, and users search for it.
const PROFILE: &str = "could not retrieve profile";
const PROFILE_W0: &str = "could not retireve profile";

fn told(refusal: Refusal) -> Status {
    let text = match refusal.text.strip_prefix(PROFILE) {
        Some(rest) => format!("{PROFILE_W0}{rest}"),
        None => refusal.text,
    };
    status(Refusal::new(Code::Unknown, text))
}

fn check_metadata(metadata: Option<&Metadata>) -> Result<(), Refusal> {
    let Some(metadata) = metadata else { return Ok(()) };
    bounds::metadata(&metadata.id, None)?;
    bounds::at_most("metadata.createdAt", metadata.created_at.len(), bounds::CREATED_AT_MAX)
}

fn offset(field: &str, text: Option<&str>) -> Result<Bound, Refusal> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Bound::Profile) };
    bounds::at_most(field, text.len(), bounds::DURATION_MAX)?;
    let parsed = duration::parse(text);
    parsed.map(Bound::From).map_err(|err| Refusal::invalid(format!("error parsing request data: {field}: {err}")))
}

#[tonic::async_trait]
impl CryptoBroker for W0 {
    async fn hash(&self, request: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let call = Call::of(&request)?;
        let mut request = request.into_inner();
        let input = Zeroizing::new(std::mem::take(&mut request.input));
        let fits = bounds::hash(&request.profile, &input).and_then(|()| check_metadata(request.metadata.as_ref()));
        let asked = ("w0", request.profile.as_str());
        let made = hash(&call, &self.service, Trace::default(), asked, &[&*input], fits).await.map_err(told)?;
        Ok(Response::new(HashResponse {
            hash_value: made.digests.first().map(|digest| hex(digest)).unwrap_or_default(),
            hash_algorithm: made.algorithm.to_owned(),
            metadata: request.metadata,
        }))
    }

    async fn sign(&self, request: Request<SignRequest>) -> Result<Response<SignResponse>, Status> {
        let call = Call::of(&request)?;
        let mut request = request.into_inner();
        let key = Zeroizing::new(std::mem::take(&mut request.ca_private_key));
        let not_before = offset("validNotBeforeOffset", request.valid_not_before_offset.as_deref());
        let not_after = offset("validNotAfterOffset", request.valid_not_after_offset.as_deref());
        let fits = bounds::certificate(
            &request.profile,
            [&request.csr, &key, &request.ca_cert],
            request.subject.as_deref(),
            &request.crl_distribution_points,
        )
        .and_then(|()| check_metadata(request.metadata.as_ref()))
        .and_then(|()| not_before.as_ref().and(not_after.as_ref()).map(|_| ()).map_err(Refusal::clone));
        let wanted = Wanted {
            profile: &request.profile,
            csr: request.csr.as_bytes(),
            ca_certificate: request.ca_cert.as_bytes(),
            ca_key: CaKey::Pem(key.as_bytes()),
            not_before: not_before.unwrap_or_default(),
            not_after: not_after.unwrap_or_default(),
            subject: request.subject.as_deref(),
            crl_points: &request.crl_distribution_points,
            flavour: Flavour::W0,
            wire: "w0",
        };
        let made = certify(&call, &self.service, Trace::default(), &wanted, fits).await.map_err(told)?;
        let signed_certificate = STANDARD.encode(&made.issued.der);
        Ok(Response::new(SignResponse { signed_certificate, metadata: request.metadata }))
    }
}
