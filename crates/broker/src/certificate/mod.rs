//! Certificates for PKCS#10 requests under a profile (spec/broker.md, "Certificates"). Texts of refusals are those that
//! users of the wire look for; a wire puts its own words before them.
//!
//! It may not know: wires, sockets, files, where keys are kept.
// SPEC broker.md#certificates

mod algorithm;
mod authority;
mod build;
mod checks;
mod constraints;
mod csr;
mod der;
mod extensions;
mod key;
mod pem;
mod subject;
mod time;
mod validity;

use crate::profile::policy::{CertificatePolicy, KeyKind, Offset, SignatureHash};
use crate::refusal::{Code, Refusal};

/// What differs between wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// The oldest: code 2 for everything, the request's signature is checked first, its own form of BasicConstraints, no SKI.
    W0,
    /// W1 to W4.
    Open,
    /// Our own: DER is read as well as PEM.
    Ours,
}

/// An end of the validity that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// None: the profile's.
    #[default]
    Profile,
    /// Seconds since 1970.
    At(u64),
    /// From now on, as W0 tells it.
    From(Offset),
}

/// A key that signs without being seen. Its size is that of [`KeyKind`].
pub trait IssuerKey: Send + Sync {
    /// What it is of.
    fn kind(&self) -> KeyKind;
    /// Bits.
    fn size(&self) -> u32;
    /// The SubjectPublicKeyInfo of its public half, in DER.
    fn spki(&self) -> Vec<u8>;
    /// The signature of `message`: RSA PKCS#1 v1.5, or ECDSA in DER form.
    ///
    /// # Errors
    /// The key may not be used now, or signing failed.
    fn sign(&self, hash: SignatureHash, message: &[u8]) -> Result<Vec<u8>, Refusal>;
}

/// Who issues.
#[derive(Clone, Copy)]
pub enum Issuer<'a> {
    /// The key itself: PEM of PKCS#1, PKCS#8 or SEC1, not encrypted.
    Pem(&'a [u8]),
    /// A handle.
    Key(&'a dyn IssuerKey),
}

/// What is to be issued, from whom. Lengths are bounded by the wire: 64 KiB each, 1024 bytes of subject, 16 CRL points.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// PKCS#10, PEM; on our own wire DER too.
    pub csr: &'a [u8],
    /// PEM with the label CERTIFICATE; on our own wire DER too.
    pub ca_certificate: &'a [u8],
    /// Its key.
    pub issuer: Issuer<'a>,
    /// Begin.
    pub not_before: Bound,
    /// End.
    pub not_after: Bound,
    /// In place of the request's subject: `K=V` separated by commas. Empty is none.
    pub subject: Option<&'a str>,
    /// Absolute http(s) URLs, one distribution point each.
    pub crl_points: &'a [String],
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// Whose rules.
    pub wire: Flavour,
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// X.509 version 3.
    pub der: Vec<u8>,
    /// The registered name of its signature's algorithm, such as `ecdsa-with-SHA512`.
    pub algorithm: String,
}

impl Issued {
    /// As PEM of 64 columns with a line end at its end.
    pub fn pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.der)
    }
}

/// Issues a certificate as the profile and the request say.
///
/// # Errors
/// A text and a code for each rule that the request breaks, in the specified order: 3, or 2 on the oldest wire. What a key
/// handle answers is passed on.
pub fn issue(policy: &CertificatePolicy, request: &Request<'_>) -> Result<Issued, Refusal> {
    issue_any(Some(policy), request).map_err(|refusal| of_wire(request.wire, refusal))
}

/// Why a profile that has no `API.SignCertificate` does not issue: what is wrong with the request comes first.
pub fn refuse(request: &Request<'_>) -> Refusal {
    let refusal = match issue_any(None, request) {
        Err(refusal) => refusal,
        Ok(_) => Refusal::new(Code::Internal, "a certificate was issued without a profile"),
    };
    of_wire(request.wire, refusal)
}

fn of_wire(wire: Flavour, refusal: Refusal) -> Refusal {
    match wire {
        Flavour::W0 => Refusal { code: Code::Unknown, ..refusal },
        Flavour::Open | Flavour::Ours => refusal,
    }
}

fn issue_any(policy: Option<&CertificatePolicy>, request: &Request<'_>) -> Result<Issued, Refusal> {
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
