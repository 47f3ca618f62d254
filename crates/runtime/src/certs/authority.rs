//! The authority of a folder, and during its replacement also the one before it; their lists of revoked certificates.

use rcgen::{Issuer, KeyIdMethod, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use super::folder::{Changes, Folder};
use super::issue::{self, Entry};
use super::{CA_BEFORE_KEY, CA_CERT, CA_CRL, CA_CROSS, CA_KEY, CertsError, fault, of_rcgen};

/// A certificate that signs others, and its key.
pub(super) struct Authority {
    pub(super) der: CertificateDer<'static>,
    pub(super) issuer: Issuer<'static, KeyPair>,
    /// The subject, as it stands in the issuer field of the certificates that it issued.
    pub(super) subject: Vec<u8>,
    key_id: KeyIdMethod,
}

impl Authority {
    /// Combines a certificate and its key.
    pub(super) fn new(der: CertificateDer<'static>, key: KeyPair) -> Result<Self, CertsError> {
        let unreadable = || fault(format!("{CA_CERT}: a certificate cannot be read"));
        let (_, cert) = X509Certificate::from_der(&der).map_err(|_| unreadable())?;
        if cert.public_key().subject_public_key.data != key.public_key_raw() {
            return Err(fault(format!("{CA_CERT}: the authority's key is another's")));
        }
        let subject = cert.subject().as_raw().to_vec();
        let key_id = cert.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        });
        let key_id = key_id.map_or(KeyIdMethod::Sha256, KeyIdMethod::PreSpecified);
        drop(cert);
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(of_rcgen)?;
        Ok(Authority { der, issuer, subject, key_id })
    }

    pub(super) fn key_pem(&self) -> zeroize::Zeroizing<String> {
        issue::key_pem(self.issuer.key())
    }
}

/// The authorities that issue and revoke in a folder.
pub(super) struct Authorities {
    pub(super) current: Authority,
    pub(super) before: Option<Authority>,
    /// The current authority's certificate, signed by the one before.
    pub(super) cross: Option<CertificateDer<'static>>,
}

impl Authorities {
    pub(super) fn load(folder: &Folder) -> Result<Self, CertsError> {
        let mut certificates = certificates(folder, CA_CERT)?.into_iter();
        let (first, second) = (certificates.next(), certificates.next());
        let first = first.ok_or_else(|| fault(format!("{}: holds no certificate", folder.file(CA_CERT).display())))?;
        let before = match second {
            Some(der) if folder.has(CA_BEFORE_KEY) => Some(Authority::new(der, key(folder, CA_BEFORE_KEY)?)?),
            _ => None,
        };
        let cross = match &before {
            Some(_) if folder.has(CA_CROSS) => self::certificates(folder, CA_CROSS)?.into_iter().next(),
            _ => None,
        };
        Ok(Authorities { current: Authority::new(first, key(folder, CA_KEY)?)?, before, cross })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Authority> {
        std::iter::once(&self.current).chain(&self.before)
    }

    /// Returns both certificates in PEM, the current one first.
    pub(super) fn pem(&self) -> String {
        self.all().map(|authority| pem(&authority.der)).collect()
    }

    /// Signs a new list for each authority: the certificates revoked already, and those of `add` by issuer.
    pub(super) fn sign_lists(
        &self,
        known: &Lists,
        add: &[(&[u8], Vec<u8>)],
        now_ms: u64,
        changes: &mut Changes,
    ) -> Result<(), CertsError> {
        let mut text = String::new();
        for authority in self.all() {
            let (number, mut entries) = known.of(&authority.subject)?;
            let new = add.iter().filter(|(issuer, _)| *issuer == authority.subject);
            entries.extend(new.map(|(_, serial)| Entry { serial: serial.clone(), at_s: now_ms / 1000 }));
            text += &issue::list(&authority.issuer, authority.key_id.clone(), number + 1, &entries, now_ms)?;
        }
        changes.public(CA_CRL, text);
        Ok(())
    }
}

/// The lists in the folder; empty for a new folder.
#[derive(Default)]
pub(super) struct Lists(Vec<CertificateRevocationListDer<'static>>);

impl Lists {
    pub(super) fn load(folder: &Folder) -> Result<Self, CertsError> {
        if !folder.has(CA_CRL) {
            return Ok(Lists::default());
        }
        let text = folder.read_bytes(CA_CRL)?;
        let lists = CertificateRevocationListDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
        // Signing a new list without the unreadable entries would take revocations back.
        let lists = lists.map_err(|_| fault(format!("{}: is not proper PEM", folder.file(CA_CRL).display())))?;
        Ok(Lists(lists))
    }

    /// Returns the number of an authority's list, 0 if it has none, and its entries.
    pub(super) fn of(&self, subject: &[u8]) -> Result<(u64, Vec<Entry>), CertsError> {
        for der in &self.0 {
            let unreadable = || fault(format!("{CA_CRL}: a list cannot be read"));
            let (_, list) = CertificateRevocationList::from_der(der.as_ref()).map_err(|_| unreadable())?;
            if list.issuer().as_raw() != subject {
                continue;
            }
            let number = list.crl_number().and_then(|number| number.to_string().parse().ok()).unwrap_or(0);
            let entry = |entry: &x509_parser::revocation_list::RevokedCertificate<'_>| Entry {
                serial: plain(entry.raw_serial()).to_vec(),
                at_s: u64::try_from(entry.revocation_date.timestamp()).unwrap_or(0),
            };
            return Ok((number, list.iter_revoked_certificates().map(entry).collect()));
        }
        Ok((0, Vec::new()))
    }
}

/// Returns a serial number without leading zero bytes, the form for comparisons.
pub(super) fn plain(serial: &[u8]) -> &[u8] {
    let at = serial.iter().position(|byte| *byte != 0).unwrap_or(serial.len().saturating_sub(1));
    &serial[at..]
}

/// Reads the certificates of a file in the folder.
pub(super) fn certificates(folder: &Folder, name: &str) -> Result<Vec<CertificateDer<'static>>, CertsError> {
    let text = folder.read_bytes(name)?;
    CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| fault(format!("{}: is not proper PEM", folder.file(name).display())))
}

/// Reads a private key in the folder.
pub(super) fn key(folder: &Folder, name: &str) -> Result<KeyPair, CertsError> {
    // Not the library's text: it may quote its input.
    KeyPair::from_pem(&folder.read(name)?)
        .map_err(|_| fault(format!("{}: holds no private key that can be used", folder.file(name).display())))
}

/// Encodes a certificate in PEM.
pub(super) fn pem(der: &CertificateDer<'_>) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out + "-----END CERTIFICATE-----\n"
}
