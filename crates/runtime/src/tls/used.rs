//! Counts the cryptography of handshakes for the live inventory: cipher suites, groups, signatures, and the keys of certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{CommonState, Error, NamedGroup, SignatureAlgorithm, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

use super::files::sha256;
use super::name::hex;
use crate::inventory::{self, Party, Use};

/// Bytes of a public key's digest that name it in the inventory.
const KEY_ID_LEN: usize = 8;

/// The kind of a certificate's key in the inventory, and its size in bits; 0 if the kind says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyKind {
    /// Name of the algorithm, such as `ecdsa-p256` or `rsa`.
    pub algorithm: &'static str,
    /// Size of the key in bits.
    pub size: u32,
}

impl KeyKind {
    /// Reads the kind of a certificate's key; `unknown` for one that is not known here.
    pub(super) fn of(certificate: &X509Certificate<'_>) -> KeyKind {
        let kind = |algorithm, size| KeyKind { algorithm, size };
        match certificate.public_key().parsed() {
            Ok(PublicKey::RSA(key)) => kind("rsa", u32::try_from(key.key_size()).unwrap_or(0)),
            Ok(PublicKey::EC(point)) => match point.key_size() {
                256 => kind("ecdsa-p256", 256),
                384 => kind("ecdsa-p384", 384),
                _ => kind("ecdsa-p521", 521),
            },
            _ => match certificate.public_key().algorithm.algorithm.to_id_string().as_str() {
                "1.3.101.112" => kind("ed25519", 256),
                "2.16.840.1.101.3.4.3.17" => kind("ml-dsa-44", 44),
                "2.16.840.1.101.3.4.3.18" => kind("ml-dsa-65", 65),
                "2.16.840.1.101.3.4.3.19" => kind("ml-dsa-87", 87),
                _ => kind("unknown", 0),
            },
        }
    }

    /// Reads the kind of the key in a certificate in DER; `unknown` if it does not parse.
    pub fn of_der(certificate: &[u8]) -> KeyKind {
        let parsed = X509Certificate::from_der(certificate);
        parsed.map_or(KeyKind { algorithm: "unknown", size: 0 }, |(_, certificate)| KeyKind::of(&certificate))
    }
}

/// Counts the version, the cipher suite and the group of a handshake that a party has just finished.
pub fn count_handshake(party: Party<'_>, state: &CommonState) {
    let protocol = state.protocol_version().and_then(|version| version.as_str()).unwrap_or("TLS");
    let suite = state.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or("unknown");
    let used = Use { operation: "tls-handshake", algorithm: suite, size: 0, key: "", party, protocol };
    inventory::count_now(&used, 1);
    if let Some(group) = state.negotiated_key_exchange_group() {
        let algorithm = match group.name() {
            NamedGroup::X25519MLKEM768 => "X25519MLKEM768",
            name => name.as_str().unwrap_or("unknown"),
        };
        inventory::count_now(&Use { operation: "tls-key-agreement", algorithm, ..used }, 1);
    }
}

/// Counts a certificate that the other side of a handshake presented, by the subject's name.
pub fn count_peer(party: Party<'_>, state: &CommonState, operation: &str, subject: &str, kind: KeyKind) {
    let protocol = state.protocol_version().and_then(|version| version.as_str()).unwrap_or("TLS");
    let KeyKind { algorithm, size } = kind;
    inventory::count_now(&Use { operation, algorithm, size, key: subject, party, protocol }, 1);
}

/// Counts the signatures of a certificate's key, under the name of the certificate's file.
pub(super) fn counted(certified: CertifiedKey, file: &Path) -> CertifiedKey {
    let size = certified.cert.first().map_or(0, |der| KeyKind::of_der(der).size);
    let public = certified.key.public_key().map(|spki| sha256(&spki));
    let digest = public.as_ref().and_then(|digest| digest.get(..KEY_ID_LEN)).map(hex).unwrap_or_default();
    let label = Label { file: file.display().to_string(), key: format!("sha256:{digest}"), size };
    CertifiedKey { key: Arc::new(CountedKey { key: certified.key.clone(), label: Arc::new(label) }), ..certified }
}

#[derive(Debug)]
struct Label {
    file: String,
    key: String,
    size: u32,
}

#[derive(Debug)]
struct CountedKey {
    key: Arc<dyn SigningKey>,
    label: Arc<Label>,
}

impl SigningKey for CountedKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.key.choose_scheme(offered)?;
        Some(Box::new(CountedSigner { signer, label: Arc::clone(&self.label) }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

#[derive(Debug)]
struct CountedSigner {
    signer: Box<dyn Signer>,
    label: Arc<Label>,
}

impl Signer for CountedSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = self.signer.sign(message)?;
        let Label { file, key, size } = &*self.label;
        let algorithm = self.signer.scheme().as_str().unwrap_or("unknown");
        let (party, size) = (Party::Named("certificate", file), *size);
        inventory::count_now(&Use { operation: "tls-signature", algorithm, size, key, party, protocol: "TLS" }, 1);
        Ok(signature)
    }

    fn scheme(&self) -> SignatureScheme {
        self.signer.scheme()
    }
}
