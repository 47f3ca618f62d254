//! Fixtures of the tests: the shipped profiles, the requests and the CAs.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use sealway_broker::certificate::{Bound, Flavour, IssuedCertificate, Issuer, Request, issue};
use sealway_broker::profile::policy::{CertificatePolicy, Offset};
use sealway_broker::profile::{Leniency, Profiles};
use sealway_broker::{Code, Refusal};

/// The time 2026-11-21 16:53:27.5 UTC.
pub(crate) const NOW_MS: u64 = 1_795_280_007_500;
pub(crate) const NOW: i64 = 1_795_280_007;

pub(crate) const CAS: [&str; 4] = ["rsa4096", "p256", "p384", "p521"];

pub(crate) fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

pub(crate) fn read(path: &str) -> Vec<u8> {
    std::fs::read(data(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

pub(crate) fn hours(hours: i64) -> Offset {
    Offset { ns: hours * 3_600_000_000_000 }
}

/// Shipped profiles, six of which issue certificates.
static PROFILES: LazyLock<Profiles> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/config/broker/Profiles.yaml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    Profiles::parse(&text, Leniency::Strict).unwrap_or_else(|problems| panic!("{problems:?}"))
});

/// Certificate policy of the shipped profile of this name.
pub(crate) fn policy(name: &str) -> CertificatePolicy {
    let profile = PROFILES.get(name).unwrap_or_else(|| panic!("{name}: no such profile"));
    profile.certificate.clone().unwrap_or_else(|| panic!("{name} does not issue"))
}

/// A request as it comes over the wire, which tests modify.
#[derive(Clone)]
pub(crate) struct RequestParts {
    pub(crate) csr: Vec<u8>,
    pub(crate) ca_certificate: Vec<u8>,
    pub(crate) ca_key: Vec<u8>,
    pub(crate) not_before: Bound,
    pub(crate) not_after: Bound,
    pub(crate) subject: Option<&'static str>,
    pub(crate) crl_points: Vec<String>,
    pub(crate) wire: Flavour,
    pub(crate) now_ms: u64,
}

impl RequestParts {
    pub(crate) fn new(csr: &str, ca: &str) -> RequestParts {
        RequestParts {
            csr: read(&format!("csr/{csr}.pem")),
            ca_certificate: read(&format!("ca/{ca}.pem")),
            ca_key: read(&format!("ca/{ca}-key.pem")),
            not_before: Bound::Profile,
            not_after: Bound::Profile,
            subject: None,
            crl_points: Vec::new(),
            wire: Flavour::Open,
            now_ms: NOW_MS,
        }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            csr: &self.csr,
            ca_certificate: &self.ca_certificate,
            issuer: Issuer::Pem(&self.ca_key),
            not_before: self.not_before,
            not_after: self.not_after,
            subject: self.subject,
            crl_points: &self.crl_points,
            now_ms: self.now_ms,
            wire: self.wire,
        }
    }

    pub(crate) fn issue(&self, policy: &CertificatePolicy) -> Result<IssuedCertificate, Refusal> {
        issue(policy, &self.request())
    }

    /// Expects an error of code 3, and returns its text.
    pub(crate) fn refused(&self, policy: &CertificatePolicy) -> String {
        let refusal = self.issue(policy).expect_err("refused");
        assert_eq!(refusal.code, Code::InvalidArgument, "{refusal}");
        refusal.text
    }
}

/// Returns an extension's criticality and value.
pub(crate) fn extension(der: &[u8], oid: &str) -> Option<(bool, Vec<u8>)> {
    let (rest, certificate) = x509_parser::parse_x509_certificate(der).expect("a certificate");
    assert!(rest.is_empty());
    let found = certificate.extensions().iter().find(|extension| extension.oid.to_id_string() == oid)?;
    Some((found.critical, found.value.to_vec()))
}

/// Object identifiers of the extensions, in order.
pub(crate) fn order(der: &[u8]) -> Vec<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).expect("a certificate");
    certificate.extensions().iter().map(|extension| extension.oid.to_id_string()).collect()
}
