//! Which part of a client's certificate is meant, as configurations name it.

use super::PeerCertificate;

/// A part of a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificateField {
    /// The certificate itself, a byte sequence as `Client-Cert` of RFC 9440 has it.
    Certificate,
    /// The certificates above it, as `Client-Cert-Chain` of RFC 9440 has them.
    Chain,
    /// Subject (RFC 4514).
    Subject,
    /// The common name.
    CommonName,
    /// DNS names, separated by commas.
    Dns,
    /// URIs, separated by commas.
    Uri,
    /// Serial number, hexadecimal.
    Serial,
    /// Issuer (RFC 4514).
    Issuer,
    /// SHA-256 of the certificate, hexadecimal.
    Sha256,
}

impl CertificateField {
    /// The field's values; none of what is no text.
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
