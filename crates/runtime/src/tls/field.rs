//! Parts of a client's certificate by the names of the configuration.

use super::PeerCertificate;

/// A part of a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificateField {
    /// The certificate itself, a byte sequence as in `Client-Cert` of RFC 9440.
    Certificate,
    /// The certificates above it, as in `Client-Cert-Chain` of RFC 9440.
    Chain,
    /// The subject in the form of RFC 4514.
    Subject,
    /// The common name of the subject.
    CommonName,
    /// DNS names, separated by commas.
    Dns,
    /// URIs in one text, separated by commas.
    Uri,
    /// The serial number, in hexadecimal.
    Serial,
    /// The issuer in the form of RFC 4514.
    Issuer,
    /// SHA-256 of the certificate, hexadecimal.
    Sha256,
}

impl CertificateField {
    /// Returns the field's values; empty for a field that is not text.
    pub fn texts(self, certificate: &PeerCertificate) -> Vec<&str> {
        match self {
            CertificateField::Certificate | CertificateField::Chain => Vec::new(),
            CertificateField::Subject => vec![&certificate.subject],
            CertificateField::CommonName => certificate.common_name.iter().map(String::as_str).collect(),
            CertificateField::Dns => certificate.dns.iter().map(String::as_str).collect(),
            CertificateField::Uri => certificate.uris.iter().map(String::as_str).collect(),
            CertificateField::Serial => vec![&certificate.serial],
            CertificateField::Issuer => vec![&certificate.issuer],
            CertificateField::Sha256 => vec![&certificate.sha256],
        }
    }
}
