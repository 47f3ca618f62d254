//! Verification of a listener's clients. rustls' own verification builds the path and checks the lists of revoked certificates;
//! this module adds rules that rustls does not have:
//!
//! * the certificate says that it is for clients: one without extended key usages is refused;
//! * the authority that the path leads to is valid now: those that are not are no trust anchors;
//! * the certificate is on the allow-list, if there is one.
//!
//! A chain that was accepted under the same rules is not verified again while its dates hold: instruments return with the same
//! certificate, and one signature less is a quarter of a resumed handshake.
//!
//! A list of revoked certificates that is overdue stays in force, with a warning when it is loaded and in the statuses:
//! rejecting every client because a file was not renewed would stop a plant, and its entries stay revoked. An authority without
//! a list does not need one.

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

/// Most chains whose verdict is remembered. Only accepted ones are, so rejected clients cannot fill it.
const VERDICTS_MAX: usize = 10_000;

/// An authority of the configuration.
#[derive(Debug)]
struct Authority {
    der: CertificateDer<'static>,
    subject: Vec<u8>,
    holds: Holds,
}

/// The rules from which paths are built.
#[derive(Debug)]
struct PathRules {
    lists: Vec<CertificateRevocationListDer<'static>>,
    is_optional: bool,
    provider: Arc<CryptoProvider>,
}

/// The authorities that are valid at a time. rustls does not know dates of a trust anchor, so expired ones are left out: a
/// client chooses which certificates it presents, and may present any authority's beside its own.
#[derive(Debug)]
struct Anchors {
    /// The time in which the same authorities are valid.
    holds: Holds,
    /// The path verifier; `None` while no authority is valid.
    paths: Option<Arc<dyn ClientCertVerifier>>,
}

/// The rules of one listener, as loaded.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    /// A verifier over all authorities, for operations without a path: signatures, and the names that clients receive.
    all: Arc<dyn ClientCertVerifier>,
    authorities: Vec<Authority>,
    rules: PathRules,
    anchors: Mutex<Arc<Anchors>>,
    allow: Vec<AllowPattern>,
    /// Verdicts by SHA-256 of the chain as presented. They are of these rules, and are dropped with them.
    verdicts: Mutex<HashMap<[u8; 32], Holds>>,
}

/// The time in which a verdict holds by the clock, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holds {
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
}

impl Holds {
    fn at(&self, now_ms: u64) -> bool {
        (self.from_ms..=self.until_ms).contains(&now_ms)
    }

    fn and(self, other: Holds) -> Holds {
        Holds { from_ms: self.from_ms.max(other.from_ms), until_ms: self.until_ms.min(other.until_ms) }
    }
}

impl PathRules {
    fn paths<'a>(
        &self,
        authorities: impl Iterator<Item = &'a Authority>,
    ) -> Result<Arc<dyn ClientCertVerifier>, BuildError> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority.der.clone()).map_err(|err| unusable(&err))?;
        }
        let paths = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), self.provider.clone());
        let paths = paths.with_crls(self.lists.clone()).allow_unknown_revocation_status();
        let paths = if self.is_optional { paths.allow_unauthenticated() } else { paths };
        paths.build().map_err(|err| BuildError::List(format!("cannot be used: {err}")))
    }
}

impl Anchors {
    /// Selects those of `authorities` that are valid now, until one of them ends or another begins.
    fn at(now_ms: u64, authorities: &[Authority], rules: &PathRules) -> Result<Self, BuildError> {
        let mut holds = Holds { from_ms: 0, until_ms: u64::MAX };
        for authority in authorities {
            let Holds { from_ms, until_ms } = authority.holds;
            holds = holds.and(match (now_ms < from_ms, now_ms > until_ms) {
                (true, _) => Holds { from_ms: 0, until_ms: from_ms - 1 },
                (false, true) => Holds { from_ms: until_ms.saturating_add(1), until_ms: u64::MAX },
                (false, false) => authority.holds,
            });
        }
        let valid = || authorities.iter().filter(|authority| authority.holds.at(now_ms));
        let paths = if valid().next().is_some() { Some(rules.paths(valid())?) } else { None };
        Ok(Anchors { holds, paths })
    }
}

fn unusable(err: &dyn std::fmt::Display) -> BuildError {
    BuildError::Authority(format!("holds an authority that cannot be used: {err}"))
}

/// The cause for which there is no verifier.
pub(super) enum BuildError {
    /// An authority cannot be used.
    Authority(String),
    /// A list cannot be used.
    List(String),
}

impl ClientVerifier {
    /// Creates a verifier that trusts `authorities`, of which there is at least one.
    pub(super) fn new(
        authorities: &[CertificateDer<'static>],
        lists: Vec<CertificateRevocationListDer<'static>>,
        allow: Vec<AllowPattern>,
        is_optional: bool,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, BuildError> {
        let mut known = Vec::with_capacity(authorities.len());
        for der in authorities {
            let (_, cert) = X509Certificate::from_der(der).map_err(|err| unusable(&err))?;
            let holds = Holds { from_ms: peer::from_ms(&cert), until_ms: peer::until_ms(&cert) };
            known.push(Authority { der: der.clone(), subject: cert.subject().as_raw().to_vec(), holds });
        }
        let rules = PathRules { lists, is_optional, provider };
        let all = rules.paths(known.iter())?;
        // Built at the first handshake, which knows the time.
        let anchors = Mutex::new(Arc::new(Anchors { holds: Holds { from_ms: 1, until_ms: 0 }, paths: None }));
        Ok(ClientVerifier { all, authorities: known, rules, anchors, allow, verdicts: Mutex::default() })
    }

    /// Checks whether a chain is valid now: by the verdict on it, or by verifying it.
    pub(super) fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Holds, Error> {
        let (digest, now_ms) = (digest(chain), now.as_secs().saturating_mul(1000));
        let known = self.verdicts.lock().get(&digest).copied();
        if let Some(holds) = known.filter(|holds| holds.at(now_ms)) {
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
        let now_ms = now.as_secs().saturating_mul(1000);
        let anchors = self.anchors(now_ms)?;
        let paths = anchors.paths.as_ref().ok_or_else(authority_expired)?;
        paths.verify_client_cert(leaf, intermediates, now).map_err(|err| self.blame_dates(err, chain, now_ms))?;
        let holds = dates(chain, now_ms)?.and(anchors.holds);
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

    fn anchors(&self, now_ms: u64) -> Result<Arc<Anchors>, Error> {
        let mut anchors = self.anchors.lock();
        if !anchors.holds.at(now_ms) {
            let made = Anchors::at(now_ms, &self.authorities, &self.rules);
            *anchors = Arc::new(made.map_err(|_| authority_expired())?);
        }
        Ok(anchors.clone())
    }

    /// Replaces the error by one about dates if an authority of the issuer's name is out of date, and no valid one was found.
    fn blame_dates(&self, err: Error, chain: &[CertificateDer<'_>], now_ms: u64) -> Error {
        let is_of = |der: &CertificateDer<'_>, authority: &Authority| {
            X509Certificate::from_der(der).is_ok_and(|(_, cert)| cert.issuer().as_raw() == authority.subject)
        };
        let mut out_of_date = self.authorities.iter().filter(|authority| !authority.holds.at(now_ms));
        match err {
            Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)
                if out_of_date.any(|authority| chain.iter().any(|der| is_of(der, authority))) =>
            {
                authority_expired()
            }
            err => err,
        }
    }
}

/// Returns the time in which all dates of the chain as presented hold. Further certificates need not be part of the path:
/// expired ones make the verdict short, not wrong.
fn dates(chain: &[CertificateDer<'_>], now_ms: u64) -> Result<Holds, Error> {
    let mut holds = Holds { from_ms: 0, until_ms: u64::MAX };
    for (index, der) in chain.iter().enumerate() {
        let (_, cert) =
            X509Certificate::from_der(der).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if index == 0 || peer::until_ms(&cert) >= now_ms {
            holds = holds.and(Holds { from_ms: peer::from_ms(&cert), until_ms: peer::until_ms(&cert) });
        }
    }
    Ok(holds)
}

/// Hashes each certificate after its length: no two chains give one input.
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
struct AuthorityExpiry;

fn authority_expired() -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(AuthorityExpiry))))
}

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
        self.all.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.all.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.all.root_hint_subjects()
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
        self.all.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.all.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.all.supported_verify_schemes()
    }
}

/// Describes the defect of a client's certificate, for a log.
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
