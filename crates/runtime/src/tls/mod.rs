//! TLS material: what a listener presents and asks for, what an upstream is shown and asked for.

use rustls_pki_types::CertificateDer;

/// A client's certificate, verified.
#[derive(Clone, Debug)]
pub struct PeerCertificate {
    /// DER, the leaf first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its subject (RFC 4514).
    pub subject: String,
    /// The common name in the subject.
    pub common_name: Option<String>,
    /// DNS names among its alternative names.
    pub dns: Vec<String>,
    /// URIs among its alternative names, such as a SPIFFE ID.
    pub uris: Vec<String>,
    /// Its serial number in hexadecimal.
    pub serial: String,
    /// Its issuer (RFC 4514).
    pub issuer: String,
    /// When it ends, in milliseconds since 1970.
    pub not_after_ms: u64,
    /// SHA-256 of its DER in hexadecimal.
    pub sha256: String,
}
