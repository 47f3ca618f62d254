//! Keys of certificates: the request's key, which is certified, and the issuer's key, which signs.

use std::borrow::Cow;

use sealway_awslc::{Curve, Kind, MlDsa, PrivateKey, PublicKey};

use super::der::{self, DerError, Reader};
use super::{Issuer, IssuerKey, algorithm, pem};
use crate::profile::policy::{CertificateSignature, KeyKind};
use crate::{Code, Refusal, Result};

const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const EC: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
/// Identifiers of ML-DSA-44, -65 and -87 (RFC 9881 section 2), which keys and signatures share: all but the last byte, and
/// the first and the last value of that byte.
pub(super) const ML_DSA: (&[u8], u8, u8) = (b"\x60\x86\x48\x01\x65\x03\x04\x03", 0x11, 0x13);
const ML_KEM: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x04";
const CURVES: [&[u8]; 4] =
    [b"\x2b\x81\x04\x00\x21", b"\x2a\x86\x48\xce\x3d\x03\x01\x07", b"\x2b\x81\x04\x00\x22", b"\x2b\x81\x04\x00\x23"];

/// Public key of a request.
pub(super) enum SubjectKey {
    /// A supported key, if the profile allows its size.
    Sized { kind: KeyKind, size: u32, key: PublicKey },
    /// A key of a kind that no profile can allow; its name in errors.
    Unsupported(&'static str),
}

impl SubjectKey {
    /// Parses a SubjectPublicKeyInfo. Keys of unsupported kinds pass, and are rejected by name later.
    pub(super) fn parse(spki: &[u8]) -> Result<SubjectKey, DerError> {
        const WHAT: &str = "malformed public key";
        let mut fields = Reader::new(spki, WHAT).inside(der::SEQUENCE)?;
        let mut identifier = fields.inside(der::SEQUENCE)?;
        fields.bits()?;
        fields.end()?;
        match identifier.element(der::OID)?.value {
            RSA => {}
            EC => {
                let curve = identifier
                    .element(der::OID)
                    .map_err(|_| DerError("failed to parse ECDSA parameters as named curve"))?
                    .value;
                if !CURVES.contains(&curve) {
                    return Err(DerError("unsupported elliptic curve"));
                }
            }
            [prefix @ .., last] if prefix == ML_DSA.0 && (ML_DSA.1..=ML_DSA.2).contains(last) => {}
            // A request is signed by its own key, which a key of a KEM cannot do.
            [prefix @ .., 1..=3] if prefix == ML_KEM => {
                return Ok(SubjectKey::Unsupported("ml-kem, which signs no request"));
            }
            b"\x2b\x65\x70" => return Ok(SubjectKey::Unsupported("ed25519.PublicKey")),
            b"\x2b\x65\x6e" => return Ok(SubjectKey::Unsupported("*ecdh.PublicKey")),
            b"\x2a\x86\x48\xce\x38\x04\x01" => return Ok(SubjectKey::Unsupported("*dsa.PublicKey")),
            _ => return Ok(SubjectKey::Unsupported("<nil>")),
        }
        let key = PublicKey::from_spki(spki).map_err(|_| DerError(WHAT))?;
        let Some((kind, size)) = size(key.kind()) else { return Err(DerError(WHAT)) };
        // Only the canonical encoding is certified: not a compressed point, not a modulus with leading zeros.
        match key.spki() {
            Ok(encoded) if encoded == spki => Ok(SubjectKey::Sized { kind, size, key }),
            _ => Err(DerError(WHAT)),
        }
    }
}

impl SubjectKey {
    /// Kind and size of the key; `None` for an unsupported one.
    pub(super) fn size(&self) -> Option<(KeyKind, u32)> {
        match self {
            SubjectKey::Sized { kind, size, .. } => Some((*kind, *size)),
            SubjectKey::Unsupported(_) => None,
        }
    }
}

/// Kind and size of a key in profiles; `None` for keys that profiles do not know.
fn size(kind: Kind) -> Option<(KeyKind, u32)> {
    match kind {
        Kind::Rsa(bits) => Some((KeyKind::Rsa, bits)),
        Kind::Ec(Curve::P224) => Some((KeyKind::Ecdsa, 224)),
        Kind::Ec(Curve::P256) => Some((KeyKind::Ecdsa, 256)),
        Kind::Ec(Curve::P384) => Some((KeyKind::Ecdsa, 384)),
        Kind::Ec(Curve::P521) => Some((KeyKind::Ecdsa, 521)),
        Kind::MlDsa(MlDsa::MlDsa44) => Some((KeyKind::MlDsa, 44)),
        Kind::MlDsa(MlDsa::MlDsa65) => Some((KeyKind::MlDsa, 65)),
        Kind::MlDsa(MlDsa::MlDsa87) => Some((KeyKind::MlDsa, 87)),
        Kind::Ec(Curve::Secp256k1) | Kind::Ed25519 | Kind::Other => None,
    }
}

/// The issuer's key, from the request or the store.
pub(super) enum SigningKey<'a> {
    Parsed { kind: KeyKind, size: u32, key: PrivateKey },
    Handle(&'a dyn IssuerKey),
    Unsupported(&'static str),
}

impl<'a> SigningKey<'a> {
    /// Parses the key of a request; a handle is used as it is. The decoded copy is wiped.
    pub(super) fn new(issuer: Issuer<'a>) -> Result<SigningKey<'a>> {
        let text = match issuer {
            Issuer::Pem(text) => text,
            Issuer::Key(handle) => return Ok(SigningKey::Handle(handle)),
        };
        let refused =
            |why| Refusal::invalid(format!("error parsing request data: could not parse private key, err: {why}"));
        let block = pem::first(text).ok_or_else(|| refused("key must be PEM encoded"))?;
        let key = PrivateKey::from_der(&block.der).map_err(|_| refused("key is neither PKCS#1 nor PKCS#8 nor SEC1"))?;
        match (key.kind(), size(key.kind())) {
            (_, Some((kind, size))) => Ok(SigningKey::Parsed { kind, size, key }),
            (Kind::Ed25519, None) => Ok(SigningKey::Unsupported("ed25519.PrivateKey")),
            (Kind::Ec(_), None) => Err(refused("x509: unknown elliptic curve")),
            (_, None) => Err(refused("x509: private key with unknown algorithm")),
        }
    }

    /// Kind and size of the key; the name of its type if profiles do not know its kind.
    pub(super) fn size(&self) -> Result<(KeyKind, u32), &'static str> {
        match self {
            SigningKey::Parsed { kind, size, .. } => Ok((*kind, *size)),
            SigningKey::Handle(handle) => Ok((handle.kind(), handle.size())),
            SigningKey::Unsupported(name) => Err(name),
        }
    }

    /// Public key as SubjectPublicKeyInfo in DER.
    pub(super) fn spki(&self) -> Result<Cow<'_, [u8]>> {
        match self {
            SigningKey::Parsed { key, .. } => key.public_spki().map(Cow::Owned).map_err(|_| not_signed()),
            SigningKey::Handle(handle) => Ok(Cow::Owned(handle.spki())),
            SigningKey::Unsupported(_) => Err(not_signed()),
        }
    }

    pub(super) fn sign(&self, signature: CertificateSignature, message: &[u8]) -> Result<Vec<u8>> {
        match self {
            SigningKey::Parsed { key, .. } => key.sign(algorithm::scheme(signature), message).map_err(|_| not_signed()),
            SigningKey::Handle(handle) => handle.sign(signature, message),
            SigningKey::Unsupported(_) => Err(not_signed()),
        }
    }
}

fn not_signed() -> Refusal {
    Refusal::new(Code::Internal, "error while signing data: the key did not sign")
}
