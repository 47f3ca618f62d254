//! Issues certificates for all wires.

use tracing::Span;

use super::Wires;
use crate::Result;
use crate::call::Call;
use crate::certificate::{self, IssuedCertificate, Issuer, Request};
use crate::keys::StoreIssuer;
use crate::profile::policy::{CertificatePolicy, KeyKind};
use crate::service::{Grant, Outcome, Query, count_subject, work_of};

/// Issues a certificate. If the query names a key of the store, that key replaces the request's.
pub(super) async fn issue(
    wires: &Wires,
    call: &Call,
    query: Query<'_>,
    shape: Result<()>,
    request: &Request<'_>,
) -> Result<Outcome<IssuedCertificate>> {
    let key_len = match request.issuer {
        Issuer::Pem(pem) => pem.len(),
        Issuer::Key(_) => 0,
    };
    let bytes_in = request.csr.len() + request.ca_certificate.len() + key_len;
    let query = Query { operation: "SignCertificate", count: 1, bytes_in, ..query };
    let work = |grant: &Grant| {
        let span = Span::current();
        span.record("crypto.csr_size", request.csr.len());
        span.record("crypto.ca_cert_size", request.ca_certificate.len());
        span.record("crypto.ca_key_size", key_len);
        let key = query.key.map(|_| grant.key()).transpose()?;
        // A large key in the request makes a long request, which has to be parsed first.
        let sign_us = key.map_or(key_len as u64, |key| key.algorithm().about_us());
        let outcome = work_of(sign_us + request.csr.len() as u64 / 2, || {
            let policy = grant.profile()?.certificate.as_ref();
            let Some(key) = key else { return issue_by(policy, request, 0) };
            let issuer = StoreIssuer::new(key.clone(), request.ca_certificate)?;
            let ca_certificate = issuer.certificate().unwrap_or(request.ca_certificate);
            let request = Request { issuer: Issuer::Key(&issuer), ca_certificate, ..*request };
            issue_by(policy, &request, issuer.version())
        })?;
        span.record("crypto.signed_cert_size", outcome.bytes_out);
        Ok(outcome)
    };
    let outcome = wires.service.run(call, query, shape, work).await?;
    if let Some((kind, size)) = outcome.value.subject_key {
        count_subject(&call.peer, &query, subject_name(kind, size), size, call.arrived_ms());
    }
    Ok(outcome)
}

/// Name of the certified key's algorithm in the inventory.
fn subject_name(kind: KeyKind, size: u32) -> &'static str {
    match (kind, size) {
        (KeyKind::Rsa, _) => "rsa",
        (KeyKind::Ecdsa, 256) => "ecdsa-p256",
        (KeyKind::Ecdsa, 384) => "ecdsa-p384",
        (KeyKind::Ecdsa, 521) => "ecdsa-p521",
        (KeyKind::Ecdsa, _) => "ecdsa",
        (KeyKind::MlDsa, 44) => "ml-dsa-44",
        (KeyKind::MlDsa, 65) => "ml-dsa-65",
        (KeyKind::MlDsa, _) => "ml-dsa-87",
    }
}

fn issue_by(
    policy: Option<&CertificatePolicy>,
    request: &Request<'_>,
    key_version: u32,
) -> Result<Outcome<IssuedCertificate>> {
    let issued = match policy {
        Some(policy) => certificate::issue(policy, request)?,
        None => return Err(certificate::refuse(request)),
    };
    let (algorithm, bytes_out, key_size) = (issued.algorithm.clone(), issued.der.len(), issued.issuer_size);
    Ok(Outcome { algorithm, key_version, key_size, ..Outcome::new(issued, bytes_out) })
}
