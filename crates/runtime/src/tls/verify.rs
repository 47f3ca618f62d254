//! Whom a listener lets in. rustls' own verification builds the path and asks the lists of revoked certificates; on top of
//! it stand rules that it does not have:
//!
//! * the certificate says that it is for clients: one without extended key usages is refused;
//! * the authority has not expired either;
//! * the certificate is on the allow-list, if there is one.
//!
//! A chain that was found good under the same rules is not verified again while its dates hold: instruments come back with
//! the same certificate, and one signature less is a quarter of a resumed handshake.
//!
//! A list of revoked certificates whose time for a successor has passed goes on counting, with a warning when it is loaded
//! and in the statuses: refusing everybody because a file was not renewed would stop a plant, and what it revokes stays
//! revoked. An authority that no list is about is not asked for one.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore, SignatureScheme,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::allow::AllowPattern;
use super::peer::{self, PeerCertificate};

/// Chains whose verdict is remembered. Good ones alone are, so nobody else can fill it.
const VERDICTS_MAX: usize = 10_000;

/// An authority's own dates.
#[derive(Debug)]
struct Authority {
    subject: Vec<u8>,
    from_ms: u64,
    until_ms: u64,
}

/// The rules of one listener, as loaded.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    paths: Arc<dyn ClientCertVerifier>,
    authorities: Vec<Authority>,
    allow: Vec<AllowPattern>,
    /// By SHA-256 of the chain as presented. They are of these rules, and go with them.
    verdicts: Mutex<HashMap<[u8; 32], Holds>>,
}

/// From when and until when a verdict holds by the clock, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holds {
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
}

/// Why there is no verifier.
pub(super) enum BuildError {
    /// An authority cannot be used.
    Authority(String),
    /// A list cannot be used.
    List(String),
}

impl ClientVerifier {
    /// Trusts `authorities`, of which there is at least one.
    pub(super) fn new(
        authorities: &[CertificateDer<'static>],
        lists: Vec<CertificateRevocationListDer<'static>>,
        allow: Vec<AllowPattern>,
        is_optional: bool,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, BuildError> {
        let mut roots = RootCertStore::empty();
        let mut known = Vec::with_capacity(authorities.len());
        for der in authorities {
            let broken = |err: String| BuildError::Authority(format!("holds an authority that cannot be used: {err}"));
            roots.add(der.clone()).map_err(|err| broken(err.to_string()))?;
            let (_, cert) = X509Certificate::from_der(der).map_err(|err| broken(err.to_string()))?;
            known.push(Authority {
                subject: cert.subject().as_raw().to_vec(),
                from_ms: peer::from_ms(&cert),
                until_ms: peer::until_ms(&cert),
            });
        }
        let paths = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let paths = paths.with_crls(lists).allow_unknown_revocation_status();
        let paths = if is_optional { paths.allow_unauthenticated() } else { paths };
        let paths = paths.build().map_err(|err| BuildError::List(format!("cannot be used: {err}")))?;
        Ok(ClientVerifier { paths, authorities: known, allow, verdicts: Mutex::default() })
    }

    /// Whether a chain is good now: by the verdict on it, or by verifying it.
    pub(super) fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Holds, Error> {
        let (digest, now_ms) = (digest(chain), now.as_secs().saturating_mul(1000));
        let known = self.verdicts.lock().get(&digest).copied();
        if let Some(holds) = known.filter(|holds| (holds.from_ms..=holds.until_ms).contains(&now_ms)) {
            return Ok(holds);
        }
        let holds = self.verify_anew(chain, now)?;
        let mut verdicts = self.verdicts.lock();
        if verdicts.len() >= VERDICTS_MAX {
            verdicts.clear();
        }
        verdicts.insert(digest, holds);
        Ok(holds)
    }

    fn verify_anew(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Holds, Error> {
        let (leaf, intermediates) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        self.paths.verify_client_cert(leaf, intermediates, now)?;
        let holds = self.dates(chain, now)?;
        is_for_clients(leaf)?;
        if !self.allow.is_empty() {
            let peer = PeerCertificate::parse(vec![leaf.clone().into_owned()])
                .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
            if !self.allow.iter().any(|pattern| pattern.matches(&peer)) {
                return Err(CertificateError::ApplicationVerificationFailure.into());
            }
        }
        Ok(holds)
    }

    /// The dates of the chain as presented, and of the authorities that it may have led to, one of which must be valid.
    fn dates(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Holds, Error> {
        let now_ms = now.as_secs().saturating_mul(1000);
        let (mut from_ms, mut until_ms) = (0, u64::MAX);
        let mut authority: Option<(u64, u64)> = None;
        for (index, der) in chain.iter().enumerate() {
            let (_, cert) =
                X509Certificate::from_der(der).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
            // Further certificates need not be part of the path. Those that are over make the verdict short, not wrong.
            if index == 0 || peer::until_ms(&cert) >= now_ms {
                until_ms = until_ms.min(peer::until_ms(&cert));
                from_ms = from_ms.max(peer::from_ms(&cert));
            }
            for known in self.authorities.iter().filter(|known| {
                known.subject == cert.issuer().as_raw() && (known.from_ms..=known.until_ms).contains(&now_ms)
            }) {
                let (from, until) = authority.unwrap_or((known.from_ms, known.until_ms));
                authority = Some((from.max(known.from_ms), until.min(known.until_ms)));
            }
        }
        let Some((from, until)) = authority else {
            return Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(AuthorityExpired)))));
        };
        Ok(Holds { from_ms: from_ms.max(from), until_ms: until_ms.min(until) })
    }
}

/// Each certificate after its length: no two chains are one text.
fn digest(chain: &[CertificateDer<'_>]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for der in chain {
        context.update(&(der.len() as u64).to_be_bytes());
        context.update(der);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// None of the authorities that could have issued a certificate is valid now.
#[derive(Debug, thiserror::Error)]
#[error("its authority has expired or is not valid yet")]
struct AuthorityExpired;

fn is_for_clients(leaf: &CertificateDer<'_>) -> Result<(), Error> {
    let (_, cert) =
        X509Certificate::from_der(leaf).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    match cert.extended_key_usage() {
        Ok(Some(usage)) if usage.value.client_auth => Ok(()),
        _ => Err(CertificateError::InvalidPurpose.into()),
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.paths.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.paths.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.paths.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut chain = Vec::with_capacity(1 + intermediates.len());
        chain.push(leaf.clone());
        chain.extend_from_slice(intermediates);
        self.verify(&chain, now).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.paths.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.paths.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.paths.supported_verify_schemes()
    }
}

/// What is wrong with a client's certificate, for a log.
pub(super) fn explain(err: &Error) -> String {
    let Error::InvalidCertificate(err) = err else { return err.to_string() };
    match err {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the certificate has expired".into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet".into()
        }
        CertificateError::Revoked => "the certificate is revoked".into(),
        CertificateError::UnknownIssuer => "the certificate is of no authority in client_ca".into(),
        CertificateError::BadSignature => {
            "the certificate, or a list of revoked ones, was not signed by its authority".into()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not for clients (extended key usage clientAuth)".into()
        }
        CertificateError::ApplicationVerificationFailure => "the certificate is not on the allow-list".into(),
        CertificateError::Other(other) => format!("the certificate cannot be trusted: {}", other.0),
        other => format!("the certificate cannot be trusted: {other}"),
    }
}
