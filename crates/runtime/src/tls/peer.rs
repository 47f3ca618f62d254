//! The content of a client's certificate, read once a connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{KeyKind, files, name};

/// The certificate of the other side, and its content. Its names are as reliable as its verification: one from
/// [`super::Server::accept`] has been verified.
pub struct PeerCertificate {
    /// As presented: the certificate itself, then those up to an authority.
    pub chain: Vec<CertificateDer<'static>>,
    /// The subject as RFC 4514 writes it.
    pub subject: String,
    /// The subject's common name, if it has exactly one.
    pub common_name: Option<String>,
    /// DNS names among the subject alternative names.
    pub dns: Vec<String>,
    /// URIs among them, SPIFFE ids too.
    pub uris: Vec<String>,
    /// IP addresses among the alternative names.
    pub ips: Vec<IpAddr>,
    /// E-mail addresses among the alternative names.
    pub emails: Vec<String>,
    /// The serial number in upper-case hexadecimal, as OpenSSL prints it.
    pub serial: String,
    /// The issuer as RFC 4514 writes it.
    pub issuer: String,
    /// The last millisecond at which it is valid.
    pub not_after_ms: u64,
    /// SHA-256 of the certificate in lower-case hexadecimal.
    pub sha256: String,
    /// Kind and size of its key.
    pub key: KeyKind,
    verdict: Verdict,
}

/// The rules under which a peer was verified, and the time for which the verdict holds by the clock alone.
#[derive(Debug, Default)]
struct Verdict {
    rules: AtomicU64,
    from_ms: AtomicU64,
    until_ms: AtomicU64,
}

impl PeerCertificate {
    /// Parses the chain that a peer presented, without verifying it.
    ///
    /// # Errors
    /// A sentence, if the first certificate cannot be parsed.
    pub fn parse(chain: Vec<CertificateDer<'static>>) -> Result<Self, String> {
        let leaf = chain.first().ok_or("there is no certificate")?.clone();
        let (rest, cert) = X509Certificate::from_der(&leaf).map_err(|_| "the certificate cannot be read")?;
        if !rest.is_empty() {
            return Err("the certificate is followed by other bytes".into());
        }
        let mut peer = PeerCertificate {
            subject: name::rfc4514(cert.subject()),
            common_name: name::common_name(cert.subject()),
            dns: Vec::new(),
            uris: Vec::new(),
            ips: Vec::new(),
            emails: Vec::new(),
            serial: name::serial(cert.raw_serial()),
            issuer: name::rfc4514(cert.issuer()),
            not_after_ms: until_ms(&cert),
            sha256: name::hex(&files::sha256(&leaf)),
            key: KeyKind::of(&cert),
            verdict: Verdict::default(),
            chain,
        };
        let names = cert.subject_alternative_name().map_err(|_| "the certificate names its subject twice")?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(name) => peer.dns.push((*name).to_owned()),
                GeneralName::URI(uri) => peer.uris.push((*uri).to_owned()),
                GeneralName::RFC822Name(address) => peer.emails.push((*address).to_owned()),
                GeneralName::IPAddress(bytes) => peer.ips.extend(ip(bytes)),
                _ => {}
            }
        }
        Ok(peer)
    }

    /// Records that it was verified under these rules, and for how long that holds.
    pub(super) fn verified(&self, rules: u64, from_ms: u64, until_ms: u64) {
        self.verdict.from_ms.store(from_ms, Ordering::Relaxed);
        self.verdict.until_ms.store(until_ms, Ordering::Relaxed);
        self.verdict.rules.store(rules, Ordering::Release);
    }

    /// Returns whether the verdict under these rules still holds, so that no signature need be verified again.
    pub(super) fn holds(&self, rules: u64, now_ms: u64) -> bool {
        self.verdict.rules.load(Ordering::Acquire) == rules
            && (self.verdict.from_ms.load(Ordering::Relaxed)..=self.verdict.until_ms.load(Ordering::Relaxed))
                .contains(&now_ms)
    }
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCertificate")
            .field("subject", &self.subject)
            .field("serial", &self.serial)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|sixteen| Ipv6Addr::from(sixteen).into())
}

/// Returns the first millisecond of a certificate's validity; 0 for dates before 1970.
pub(super) fn from_ms(cert: &X509Certificate<'_>) -> u64 {
    u64::try_from(cert.validity().not_before.timestamp()).unwrap_or(0).saturating_mul(1000)
}

/// Returns the last millisecond of a certificate's validity, which includes the second that it names.
pub(super) fn until_ms(cert: &X509Certificate<'_>) -> u64 {
    u64::try_from(cert.validity().not_after.timestamp()).map_or(0, |seconds| seconds.saturating_mul(1000) + 999)
}
