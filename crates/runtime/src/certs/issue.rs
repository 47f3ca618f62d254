//! Keys, certificates and PKCS#12 files, in memory.

use std::net::IpAddr;
use std::time::Duration;

use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::rotate::Leaf;
use super::{CertsError, fault, of_rcgen};

const DAY_S: u64 = 86_400;
/// Validity of an authority's certificate, in days.
pub(super) const CA_DAYS: u64 = 3650;
/// Days after which a list of revoked certificates is due again. Only revocation and rotation renew it.
const CRL_DAYS: u64 = 366;

/// Time by which validity begins before now, in seconds: the clocks of other machines may be slow.
const BEHIND_S: u64 = 300;

/// Generates a new P-256 key.
pub(super) fn new_key() -> Result<KeyPair, CertsError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(of_rcgen)
}

/// Encodes the key as PKCS#8 in PEM.
pub(super) fn key_pem(key: &KeyPair) -> Zeroizing<String> {
    Zeroizing::new(key.serialize_pem())
}

/// Draws a serial number: 16 random bytes, positive and of one length.
pub(super) fn serial() -> Result<[u8; 16], CertsError> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| fault("the system gives no random numbers"))?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(bytes)
}

/// Returns the content of an authority's certificate, to be signed by itself or another.
pub(super) fn authority_params(name: &str, now_ms: u64) -> Result<CertificateParams, CertsError> {
    let mut params = dated(now_ms, CA_DAYS);
    params.serial_number = Some(SerialNumber::from_slice(&serial()?));
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// The content of a server's or a client's certificate.
pub(super) struct LeafWish {
    pub(super) leaf: Leaf,
    pub(super) common_name: String,
    pub(super) names: Vec<SanType>,
    pub(super) days: u64,
}

/// Issues a certificate for `key`.
pub(super) fn leaf(
    wish: &LeafWish,
    key: &KeyPair,
    issuer: &Issuer<'_, KeyPair>,
    serial: [u8; 16],
    now_ms: u64,
) -> Result<rcgen::Certificate, CertsError> {
    let mut params = dated(now_ms, wish.days);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name.push(DnType::CommonName, wish.common_name.as_str());
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.subject_alt_names.clone_from(&wish.names);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    match wish.leaf {
        Leaf::Server => {
            params.key_usages.push(KeyUsagePurpose::KeyAgreement);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        }
        Leaf::Client => params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
    }
    params.signed_by(key, issuer).map_err(of_rcgen)
}

fn dated(now_ms: u64, days: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let start = date_time_ymd(1970, 1, 1) + Duration::from_secs((now_ms / 1000).saturating_sub(BEHIND_S));
    params.not_before = start;
    // The last second belongs to the validity.
    params.not_after = start + Duration::from_secs(days * DAY_S - 1);
    params
}

/// Parses a DNS name or an IP address.
pub(super) fn name(text: &str) -> Result<SanType, CertsError> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(ip));
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let rest = text.strip_prefix("*.").unwrap_or(text);
    match text.try_into() {
        Ok(dns) if text.len() <= 253 && rest.split('.').all(label) => Ok(SanType::DnsName(dns)),
        _ => Err(fault(format!("\"{text}\" is neither a DNS name nor an IP address"))),
    }
}

/// An entry of a list of revoked certificates.
pub(super) struct Entry {
    pub(super) serial: Vec<u8>,
    /// Time of the revocation, in seconds since 1970.
    pub(super) at_s: u64,
}

/// Signs a list of revoked certificates, in PEM.
pub(super) fn list(
    issuer: &Issuer<'_, KeyPair>,
    key_id: KeyIdMethod,
    number: u64,
    entries: &[Entry],
    now_ms: u64,
) -> Result<String, CertsError> {
    let moment = |seconds: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    let revoked = |entry: &Entry| RevokedCertParams {
        serial_number: SerialNumber::from_slice(&entry.serial),
        revocation_time: moment(entry.at_s),
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: moment((now_ms / 1000).saturating_sub(BEHIND_S)),
        next_update: moment(now_ms / 1000 + CRL_DAYS * DAY_S),
        crl_number: SerialNumber::from(number),
        issuing_distribution_point: None,
        revoked_certs: entries.iter().map(revoked).collect(),
        key_identifier_method: key_id,
    };
    params.signed_by(issuer).and_then(|list| list.pem()).map_err(of_rcgen)
}

/// Builds a PKCS#12 file of a key, its certificate and the issuers' certificates: PBES2 with AES-256, integrity by HMAC-SHA256.
pub(super) fn pfx(
    alias: &str,
    key: &KeyPair,
    chain: &[CertificateDer<'_>],
    password: &str,
) -> Result<Zeroizing<Vec<u8>>, CertsError> {
    let broken = |err: p12_keystore::error::Error| fault(format!("cannot make a PKCS#12 file: {err}"));
    let certificates = chain.iter().map(|der| Certificate::from_der(der)).collect::<Result<Vec<_>, _>>();
    let der = Zeroizing::new(key.serialize_der());
    // It links the key to its certificate within the file, and only needs to be unique there.
    let id = crate::tls::digest(chain.first().map(AsRef::as_ref).unwrap_or_default());
    let entry =
        PrivateKeyChain::new(&id[..20], PrivateKey::from_der(&der).map_err(broken)?, certificates.map_err(broken)?);
    let mut store = KeyStore::new();
    store.add_entry(alias, KeyStoreEntry::PrivateKeyChain(entry));
    store.writer(password).write().map(Zeroizing::new).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_names_or_addresses() {
        for text in ["localhost", "*.plant.example", "a-b.example", "::1", "192.0.2.1"] {
            assert!(name(text).is_ok(), "{text}");
        }
        for text in ["", ".", "a..b", "a b", "*", "a.*.b", "-a", "ä.example", "https://a", "a:443"] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
