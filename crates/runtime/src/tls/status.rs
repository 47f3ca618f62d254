//! Information about certificates in use: names and dates, never a key.

use std::path::Path;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use serde::Serialize;
use x509_parser::prelude::{CertificateRevocationList, FromDer, GeneralName, X509Certificate};

use super::files::{Content, FILE_LEN_MAX, FileWatch, LIST_LEN_MAX, Source};
use super::{TlsError, identity, name, peer};

/// One certificate, or one list of revoked ones, as loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CertificateStatus {
    /// The file that contains it.
    pub file: String,
    /// `server`, `client_ca`, `crl` on a listener; `client`, `server_ca` towards a server; `issuer` for further
    /// certificates of a presented chain; `mle` for a key of messages.
    pub role: &'static str,
    /// The subject as RFC 4514 writes it; of a list, its issuer.
    pub subject: String,
    /// The issuer as RFC 4514 writes it.
    pub issuer: String,
    /// The serial number in upper-case hexadecimal; of a list, its number.
    pub serial: String,
    /// The first millisecond of its validity; of a list, the time of its issue.
    pub not_before_ms: u64,
    /// The last millisecond of its validity; of a list, when the next was due. 0 if a list does not say.
    pub not_after_ms: u64,
    /// DNS names, IP addresses and URIs among the subject alternative names.
    pub names: Vec<String>,
    /// SHA-256 of the certificate in lower-case hexadecimal; empty for a list.
    pub sha256: String,
    /// Number of certificates that a list revokes; `None` for a certificate.
    pub revoked: Option<usize>,
}

impl CertificateStatus {
    /// Reads a certificate in DER that `file` holds in some form; `None` if it is none.
    pub fn read(file: &Path, role: &'static str, der: &[u8]) -> Option<Self> {
        CertificateStatus::of(file, role, &CertificateDer::from(der))
    }

    pub(crate) fn of(file: &Path, role: &'static str, der: &CertificateDer<'_>) -> Option<Self> {
        let (_, cert) = X509Certificate::from_der(der).ok()?;
        let names = cert.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            GeneralName::IPAddress(bytes) => peer::ip(bytes).map(|ip| ip.to_string()),
            _ => None,
        });
        Some(CertificateStatus {
            file: file.display().to_string(),
            role,
            subject: name::rfc4514(cert.subject()),
            issuer: name::rfc4514(cert.issuer()),
            serial: name::serial(cert.raw_serial()),
            not_before_ms: peer::from_ms(&cert),
            not_after_ms: peer::until_ms(&cert),
            names: names.collect(),
            sha256: name::hex(&super::files::sha256(der)),
            revoked: None,
        })
    }

    pub(crate) fn of_list(file: &Path, der: &CertificateRevocationListDer<'_>) -> Option<Self> {
        let (_, list) = CertificateRevocationList::from_der(der.as_ref()).ok()?;
        let ms = |seconds: i64| u64::try_from(seconds).unwrap_or(0).saturating_mul(1000);
        Some(CertificateStatus {
            file: file.display().to_string(),
            role: "crl",
            subject: name::rfc4514(list.issuer()),
            issuer: name::rfc4514(list.issuer()),
            serial: list.crl_number().map(|number| number.to_string()).unwrap_or_default(),
            not_before_ms: ms(list.last_update().timestamp()),
            not_after_ms: list.next_update().map(|next| ms(next.timestamp())).unwrap_or_default(),
            names: Vec::new(),
            sha256: String::new(),
            revoked: Some(list.iter_revoked_certificates().count()),
        })
    }

    /// Returns the whole days that are left at `now_ms`; negative once it has expired.
    pub fn days_left(&self, now_ms: u64) -> i64 {
        let left = i128::from(self.not_after_ms) - i128::from(now_ms);
        i64::try_from(left.div_euclid(86_400_000)).unwrap_or(i64::MAX)
    }
}

/// Returns the statuses of a chain: the first in `role`, the others as issuers.
pub(super) fn chain(file: &Content, role: &'static str, chain: &[CertificateDer<'_>]) -> Vec<CertificateStatus> {
    let roles = std::iter::once(role).chain(std::iter::repeat("issuer"));
    chain.iter().zip(roles).filter_map(|(der, role)| CertificateStatus::of(&file.path, role, der)).collect()
}

/// Logs certificates that have expired or are not valid yet: no error, since a gateway that serves with one is better than
/// none, and the clock may be wrong.
pub(super) fn warn_of_dates(statuses: &[CertificateStatus], now_ms: u64) {
    for status in statuses {
        let what = if status.role == "crl" && status.not_after_ms != 0 && status.not_after_ms < now_ms {
            "a list of revoked certificates is older than it promised to become; what it revokes stays revoked"
        } else if status.role != "crl" && status.not_after_ms < now_ms {
            "a certificate has expired"
        } else if status.not_before_ms > now_ms {
            "a certificate is not valid yet"
        } else {
            continue;
        };
        let not_after = crate::clock::iso8601(status.not_after_ms);
        tracing::warn!(file = status.file, role = status.role, subject = status.subject, not_after, "{what}");
    }
}

/// Reads the certificates of a PEM file for display.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn read_certificates(path: &Path, role: &'static str) -> Result<Vec<CertificateStatus>, TlsError> {
    FileWatch::new(vec![Source::new("cert", path, FILE_LEN_MAX)]).load(|contents| {
        let file = &contents[0];
        let certificates = identity::certificates(file)?;
        Ok(certificates.iter().filter_map(|der| CertificateStatus::of(&file.path, role, der)).collect())
    })
}

/// Reads the lists of revoked certificates in a file for display.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn read_revocations(path: &Path) -> Result<Vec<CertificateStatus>, TlsError> {
    FileWatch::new(vec![Source::new("crl", path, LIST_LEN_MAX)]).load(|contents| {
        let file = &contents[0];
        let lists = identity::revocations(file)?;
        Ok(lists.iter().filter_map(|der| CertificateStatus::of_list(&file.path, der)).collect())
    })
}
