//! Certificates, as every wire asks for them.

use tracing::Span;

use super::call::{Call, work_of};
use crate::Refusal;
use crate::certificate::{self, Bound, Flavour, Issued, Issuer, Request};
use crate::keys::Issuing;
use crate::profile::policy::Deprecation;
use crate::service::{Allowed, Asked, Done, Service};
use crate::telemetry::Trace;

/// What is asked for.
pub(super) struct Wanted<'a> {
    pub(super) profile: &'a str,
    pub(super) csr: &'a [u8],
    pub(super) ca_certificate: &'a [u8],
    pub(super) ca_key: CaKey<'a>,
    pub(super) not_before: Bound,
    pub(super) not_after: Bound,
    pub(super) subject: Option<&'a str>,
    pub(super) crl_points: &'a [String],
    pub(super) flavour: Flavour,
    /// As the audit log calls it.
    pub(super) wire: &'static str,
}

/// Where the CA's key is.
#[derive(Clone, Copy)]
pub(super) enum CaKey<'a> {
    /// In the request.
    Pem(&'a [u8]),
    /// In the store.
    Ref(&'a str),
}

/// A certificate, and by what it was made.
#[derive(Debug)]
pub(super) struct Certified {
    pub(super) issued: Issued,
    /// 0 where no key of the store took part.
    pub(super) key_version: u32,
    pub(super) deprecation: Option<Deprecation>,
}

/// Issues it.
pub(super) async fn certify(
    call: &Call,
    service: &Service,
    trace: Trace<'_>,
    wanted: &Wanted<'_>,
    shape: Result<(), Refusal>,
) -> Result<Certified, Refusal> {
    let (key, key_len) = match wanted.ca_key {
        CaKey::Pem(pem) => (None, pem.len()),
        CaKey::Ref(id) => (Some(id), 0),
    };
    let asked = Asked {
        operation: "SignCertificate",
        wire: wanted.wire,
        profile: Some(wanted.profile),
        key,
        count: 1,
        bytes_in: wanted.csr.len() + wanted.ca_certificate.len() + key_len,
    };
    let work = |allowed: &Allowed| {
        let span = Span::current();
        span.record("crypto.csr_size", wanted.csr.len());
        span.record("crypto.ca_cert_size", wanted.ca_certificate.len());
        span.record("crypto.ca_key_size", key_len);
        let certified = work_of(about_us(allowed, wanted), || issue(allowed, wanted, service.now_ms()))?;
        let bytes_out = certified.issued.der.len();
        span.record("crypto.signed_cert_size", bytes_out);
        let key_version = Some(certified.key_version).filter(|version| *version > 0);
        Ok(Done { value: certified, key_version, bytes_out })
    };
    call.run(service, trace, asked, shape, work).await
}

/// About how long it takes: who has a large key sends a long request, or a long key, which has to be read first.
fn about_us(allowed: &Allowed, wanted: &Wanted<'_>) -> u64 {
    let sign = match wanted.ca_key {
        CaKey::Pem(pem) => pem.len() as u64,
        CaKey::Ref(_) => allowed.key().map_or(0, |key| key.algorithm().about_us()),
    };
    sign + wanted.csr.len() as u64 / 2
}

fn issue(allowed: &Allowed, wanted: &Wanted<'_>, now_ms: u64) -> Result<Certified, Refusal> {
    let profile = allowed.profile()?;
    let issuing = match wanted.ca_key {
        CaKey::Pem(_) => None,
        CaKey::Ref(_) => Some(Issuing::new(allowed.key()?.clone(), wanted.ca_certificate)?),
    };
    let issuer = match (&issuing, wanted.ca_key) {
        (None, CaKey::Pem(pem)) => Issuer::Pem(pem),
        (Some(issuing), _) => Issuer::Key(issuing),
        (None, CaKey::Ref(_)) => return Err(Refusal::new(crate::Code::Internal, "a key without its handle")),
    };
    let request = Request {
        csr: wanted.csr,
        ca_certificate: wanted.ca_certificate,
        issuer,
        not_before: wanted.not_before,
        not_after: wanted.not_after,
        subject: wanted.subject,
        crl_points: wanted.crl_points,
        now_ms,
        wire: wanted.flavour,
    };
    let issued = match &profile.certificate {
        Some(policy) => certificate::issue(policy, &request)?,
        None => return Err(certificate::refuse(&request)),
    };
    let key_version = issuing.as_ref().map_or(0, Issuing::version);
    Ok(Certified { issued, key_version, deprecation: profile.deprecation.clone() })
}
