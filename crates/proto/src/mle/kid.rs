//! The derivations of a key's name (`kid`). Each scheme has its own, so it is configured and never guessed. SPEC mle.md#kid

use alloc::format;
use alloc::string::{String, ToString};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::compact;
use super::header::KID_LEN_MAX;
use super::key_error::KeyError;
use super::load::{Certificate, Numbers, Public};
use crate::crypto::Provider;

/// The source of a key's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KidSource {
    /// A fixed text, such as a portal's UUID.
    Fixed(String),
    /// Lower-case hexadecimal SHA-256 of the SubjectPublicKeyInfo: Mastercard.
    SpkiSha256Hex,
    /// Lower-case hexadecimal SHA-256 of the certificate: Mastercard's library for Node, by option.
    CertificateSha256Hex,
    /// Padded base64 of the SHA-256 of the certificate: Mastercard's library for Node, by option.
    CertificateSha256Base64,
    /// base64url of the SHA-256 of the certificate (RFC 7515 section 4.1.8): UAE.
    X5tS256,
    /// The serialNumber attribute in the certificate's subject, not the certificate's serial number: Visa Acceptance.
    SubjectSerialNumber,
    /// The thumbprint of the public key as a JWK (RFC 7638), with SHA-256.
    JwkThumbprint,
}

impl KidSource {
    /// The derivations, each with its name in configurations and flags.
    pub const DERIVED: [(&'static str, KidSource); 6] = [
        ("spki_sha256_hex", KidSource::SpkiSha256Hex),
        ("certificate_sha256_hex", KidSource::CertificateSha256Hex),
        ("certificate_sha256_base64", KidSource::CertificateSha256Base64),
        ("x5t_s256", KidSource::X5tS256),
        ("subject_serial_number", KidSource::SubjectSerialNumber),
        ("jwk_thumbprint", KidSource::JwkThumbprint),
    ];

    /// Returns the derivation of this name, one of [`KidSource::DERIVED`].
    pub fn derived(name: &str) -> Option<KidSource> {
        KidSource::DERIVED.into_iter().find_map(|(known, source)| (known == name).then_some(source))
    }

    /// Derives the name of a key.
    ///
    /// # Errors
    /// [`KeyError::CertificateAbsent`] and [`KeyError::SerialNumber`] where a certificate is needed; [`KeyError::Kid`] for an empty
    /// name or one of more than 256 bytes.
    pub fn derive(&self, key: &Public, provider: &dyn Provider) -> Result<String, KeyError> {
        let certificate = || key.certificate.as_ref().ok_or(KeyError::CertificateAbsent);
        let kid = match self {
            KidSource::Fixed(kid) => kid.clone(),
            KidSource::SpkiSha256Hex => hex(&provider.sha256(&[&key.spki])),
            KidSource::CertificateSha256Hex => hex(&certificate_sha256(certificate()?, provider)),
            KidSource::CertificateSha256Base64 => STANDARD.encode(certificate_sha256(certificate()?, provider)),
            KidSource::X5tS256 => compact::encode(&certificate_sha256(certificate()?, provider)),
            KidSource::SubjectSerialNumber => match &certificate()?.serial_numbers[..] {
                [number] => number.to_string(),
                _ => return Err(KeyError::SerialNumber),
            },
            KidSource::JwkThumbprint => compact::encode(&jwk_thumbprint(key, provider)),
        };
        check(kid)
    }
}

/// Returns the name if it has 1 to 256 bytes.
pub(super) fn check(kid: String) -> Result<String, KeyError> {
    if kid.is_empty() || kid.len() > KID_LEN_MAX { Err(KeyError::Kid) } else { Ok(kid) }
}

pub(super) fn certificate_sha256(certificate: &Certificate, provider: &dyn Provider) -> [u8; 32] {
    provider.sha256(&[&certificate.der])
}

/// Computes the thumbprint of RFC 7638 section 3.3: the required members in lexical order, without white space.
fn jwk_thumbprint(key: &Public, provider: &dyn Provider) -> [u8; 32] {
    let json = match &key.numbers {
        Numbers::Rsa { modulus, exponent } => {
            let (n, e) = (compact::encode(modulus), compact::encode(exponent));
            format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#)
        }
        Numbers::P256([_, coordinates @ ..]) => {
            let (x, y) = coordinates.split_at(32);
            let (x, y) = (compact::encode(x), compact::encode(y));
            format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#)
        }
    };
    provider.sha256(&[json.as_bytes()])
}

/// Writes bytes in lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
