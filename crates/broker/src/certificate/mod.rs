//! Certificates for PKCS#10 requests under a profile (spec/broker.md, "Certificates"). The texts of errors are those
//! that users of the wire know; a wire puts its own words before them.
//!
//! The module does not know wires, sockets, files, or the storage of keys.
// SPEC broker.md#certificates

mod algorithm;
mod authority;
mod build;
mod checks;
mod constraints;
mod csr;
pub(crate) mod der;
mod extensions;
mod key;
mod pem;
mod subject;
mod time;
mod validity;

pub(crate) use self::algorithm::scheme;
pub use self::pem::encode as encode_pem;
use crate::profile::policy::{CertificatePolicy, CertificateSignature, KeyKind, Offset};
use crate::{Code, Refusal, Result};

/// Differences of the wires in issuing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// W0: code 2 for all errors, the request's signature is checked first, another form of BasicConstraints, no SKI.
    W0,
    /// W1 to W4, the Open Crypto Broker's wires.
    Open,
    /// Our own wire, which accepts DER as well as PEM.
    Ours,
}

/// Requested end of the validity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// None requested: the profile decides.
    #[default]
    Profile,
    /// Absolute time in seconds since 1970-01-01 UTC.
    At(u64),
    /// Offset from now, as W0 sends it.
    From(Offset),
}

/// A key that signs without revealing its private half. Its size is measured as in [`KeyKind`].
pub trait IssuerKey: Send + Sync {
    /// Kind of the key: RSA, ECDSA or ML-DSA.
    fn kind(&self) -> KeyKind;
    /// Size of the key in bits.
    fn size(&self) -> u32;
    /// Public half as SubjectPublicKeyInfo in DER.
    fn spki(&self) -> Vec<u8>;
    /// Signs `message`: RSA PKCS#1 v1.5, ECDSA in DER form, or ML-DSA in its pure mode.
    ///
    /// # Errors
    /// The key may not be used now, or signing failed.
    fn sign(&self, signature: CertificateSignature, message: &[u8]) -> Result<Vec<u8>>;
}

/// Source of the issuer's key.
#[derive(Clone, Copy)]
pub enum Issuer<'a> {
    /// The private key: PEM of PKCS#1, PKCS#8 or SEC1, not encrypted.
    Pem(&'a [u8]),
    /// Handle of a key of the store.
    Key(&'a dyn IssuerKey),
}

/// Request for a certificate. The wire bounds the lengths: 64 KiB each, 1024 bytes of subject, 16 CRL points.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Certificate signing request: PKCS#10 in PEM, on our own wire also DER.
    pub csr: &'a [u8],
    /// Issuer's certificate: PEM with the label CERTIFICATE, on our own wire also DER.
    pub ca_certificate: &'a [u8],
    /// Private key of the issuer.
    pub issuer: Issuer<'a>,
    /// Begin of the validity; the profile sets the earliest one.
    pub not_before: Bound,
    /// End of the validity; the profile sets the latest one.
    pub not_after: Bound,
    /// Subject that replaces the request's: `K=V` separated by commas. Empty counts as none.
    pub subject: Option<&'a str>,
    /// Absolute http(s) URLs, one distribution point each.
    pub crl_points: &'a [String],
    /// Current time in milliseconds since 1970.
    pub now_ms: u64,
    /// Wire whose rules for inputs, errors and extensions apply.
    pub wire: Flavour,
}

/// An issued certificate and its signature algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The certificate, X.509 version 3 in DER.
    pub der: Vec<u8>,
    /// Registered name of the signature algorithm, such as `ecdsa-with-SHA512`.
    pub algorithm: String,
    /// Size of the issuer's key, in bits.
    pub issuer_size: u32,
    /// Kind of the certified key and its size in bits.
    pub subject_key: Option<(KeyKind, u32)>,
}

impl IssuedCertificate {
    /// Encodes the certificate as PEM with lines of 64 columns.
    pub fn pem(&self) -> String {
        encode_pem("CERTIFICATE", &self.der)
    }
}

/// Issues a certificate by the profile and the request.
///
/// # Errors
/// A text and a code for the first broken rule, in the specified order: 3, or 2 on W0. Errors of a key handle are
/// passed on.
pub fn issue(policy: &CertificatePolicy, request: &Request<'_>) -> Result<IssuedCertificate> {
    issue_any(Some(policy), request).map_err(|refusal| of_wire(request.wire, refusal))
}

/// Error for a profile without `API.SignCertificate`: the request's own faults come first.
pub fn refuse(request: &Request<'_>) -> Refusal {
    let refusal = match issue_any(None, request) {
        Err(refusal) => refusal,
        Ok(_) => Refusal::new(Code::Internal, "a certificate was issued without a profile"),
    };
    of_wire(request.wire, refusal)
}

/// Returns the public key in a certificate, PEM or DER, as a canonical SubjectPublicKeyInfo; `None` if the certificate or
/// its key does not parse.
pub(crate) fn public_key_in(certificate: &[u8]) -> Option<Vec<u8>> {
    authority::Authority::parse(&authority::bytes(certificate, true).ok()?).ok()?.spki()
}

/// Returns a certificate, PEM or DER, as DER, if it is that of a CA.
pub(crate) fn ca_certificate(certificate: &[u8]) -> Option<Vec<u8>> {
    let der = authority::bytes(certificate, true).ok()?.into_owned();
    authority::Authority::parse(&der).ok()?.is_ca.then_some(der)
}

fn of_wire(wire: Flavour, refusal: Refusal) -> Refusal {
    match wire {
        Flavour::W0 => Refusal { code: Code::Unknown, ..refusal },
        Flavour::Open | Flavour::Ours => refusal,
    }
}

fn issue_any(policy: Option<&CertificatePolicy>, request: &Request<'_>) -> Result<IssuedCertificate> {
    let may_be_der = request.wire == Flavour::Ours;
    let csr_der = csr::bytes(request.csr, may_be_der)?;
    let csr = csr::Csr::parse(&csr_der)?;
    if request.wire == Flavour::W0 {
        csr.verify()?;
    }
    let issuer = key::SigningKey::new(request.issuer)?;
    let ca_der = authority::bytes(request.ca_certificate, may_be_der)?;
    let ca = authority::Authority::parse(&ca_der)?;

    let (allowed_subjects, allowed_issuers) = policy.map(|policy| (policy.subject, policy.issuer)).unwrap_or_default();
    constraints::check_subject(&allowed_subjects, &csr.key)?;
    constraints::check_issuer(&allowed_issuers, &issuer)?;
    let Some(policy) = policy else {
        return Err(Refusal::new(Code::Internal, "a profile without constraints allowed a key"));
    };
    let validity = validity::resolve(policy, request)?;
    if request.wire != Flavour::W0 {
        csr.verify()?;
    }
    let subject = subject::resolve(request.subject, csr.subject)?;
    build::check_key(policy, &issuer, &ca)?;
    checks::check(policy, &ca, validity, request.now_ms)?;
    build::build(policy, request, &build::Parts { csr: &csr, ca: &ca, issuer: &issuer, subject: &subject, validity })
}
