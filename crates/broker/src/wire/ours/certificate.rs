//! SignCertificate of our own wire: the CA's key is one of the store.

use sealway_proto::broker::v1::{Descriptor, SignCertificateRequest, SignCertificateResponse};
use tonic::Status;

use super::super::bounds;
use super::super::certifying::{CaKey, Wanted, certify};
use super::super::status::status;
use super::keyed::{Arrived, deprecation};
use crate::Refusal;
use crate::certificate::{Bound, Flavour};
use crate::keys::KEY_ID_LEN_MAX;
use crate::service::Service;

fn bound(field: &str, seconds: Option<i64>) -> Result<Bound, Refusal> {
    let Some(seconds) = seconds else { return Ok(Bound::Profile) };
    u64::try_from(seconds).map(Bound::At).map_err(|_| Refusal::invalid(format!("{field}: before 1970")))
}

pub(super) async fn sign(
    service: &Service,
    arrived: &Arrived,
    request: SignCertificateRequest,
) -> Result<SignCertificateResponse, Status> {
    let not_before = bound("not_before", request.not_before);
    let not_after = bound("not_after", request.not_after);
    let shape = bounds::profile(&request.profile)
        .and_then(|()| bounds::required("csr", request.csr.len(), bounds::PEM_MAX))
        .and_then(|()| bounds::required("ca_key_ref", request.ca_key_ref.len(), KEY_ID_LEN_MAX))
        .and_then(|()| bounds::required("ca_certificate", request.ca_certificate.len(), bounds::PEM_MAX))
        .and_then(|()| bounds::subject(request.subject.as_deref()))
        .and_then(|()| bounds::crl_points("crl_distribution_points", &request.crl_distribution_points))
        .and_then(|()| not_before.as_ref().and(not_after.as_ref()).map(|_| ()).map_err(Refusal::clone));
    let wanted = Wanted {
        profile: &request.profile,
        csr: &request.csr,
        ca_certificate: &request.ca_certificate,
        ca_key: CaKey::Ref(&request.ca_key_ref),
        not_before: not_before.unwrap_or_default(),
        not_after: not_after.unwrap_or_default(),
        subject: request.subject.as_deref(),
        crl_points: &request.crl_distribution_points,
        flavour: Flavour::Ours,
        wire: "v1",
    };
    let made = certify(&arrived.call, service, arrived.trace(), &wanted, shape).await.map_err(status)?;
    let descriptor = Descriptor {
        profile: request.profile,
        operation: "SignCertificate".to_owned(),
        algorithm: made.issued.algorithm,
        key_id: request.ca_key_ref,
        key_version: made.key_version,
        deprecation: made.deprecation.as_ref().map(deprecation),
    };
    Ok(SignCertificateResponse { descriptor: Some(descriptor), der: made.issued.der })
}
