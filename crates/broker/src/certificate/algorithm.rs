//! AlgorithmIdentifiers: those of verified signatures, and those of created ones.

use sealway_awslc::{Hash, MlDsa, PublicKey, Scheme};

use super::der::{self, DerError, Reader};
use crate::profile::policy::{CertificateSignature, MlDsaAlgorithm, SignatureHash};

/// Algorithm of a signature, by its AlgorithmIdentifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// A supported scheme, which is verified.
    Known(Scheme),
    /// An algorithm with forgeable signatures; its name.
    Insecure(&'static str),
    /// Any other algorithm, which is rejected.
    Unknown,
}

const KNOWN: [(&[u8], Scheme); 11] = [
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", Scheme::RsaPkcs1(Hash::Sha1)),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", Scheme::RsaPkcs1(Hash::Sha256)),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", Scheme::RsaPkcs1(Hash::Sha384)),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", Scheme::RsaPkcs1(Hash::Sha512)),
    (b"\x2a\x86\x48\xce\x3d\x04\x01", Scheme::Ecdsa(Hash::Sha1)),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x02", Scheme::Ecdsa(Hash::Sha256)),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x03", Scheme::Ecdsa(Hash::Sha384)),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x04", Scheme::Ecdsa(Hash::Sha512)),
    (b"\x60\x86\x48\x01\x65\x03\x04\x03\x11", Scheme::MlDsa(MlDsa::MlDsa44)),
    (b"\x60\x86\x48\x01\x65\x03\x04\x03\x12", Scheme::MlDsa(MlDsa::MlDsa65)),
    (b"\x60\x86\x48\x01\x65\x03\x04\x03\x13", Scheme::MlDsa(MlDsa::MlDsa87)),
];
const MD2_RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x02";
const MD5_RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04";
const PSS: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";
const MGF1: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x08";
/// Digests of PSS, each with the length of its salt in bytes.
const PSS_HASHES: [(&[u8], Hash, u32); 3] = [
    (b"\x60\x86\x48\x01\x65\x03\x04\x02\x01", Hash::Sha256, 32),
    (b"\x60\x86\x48\x01\x65\x03\x04\x02\x02", Hash::Sha384, 48),
    (b"\x60\x86\x48\x01\x65\x03\x04\x02\x03", Hash::Sha512, 64),
];

impl Algorithm {
    /// Parses the contents of an AlgorithmIdentifier.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Algorithm, DerError> {
        let oid = reader.element(der::OID)?.value;
        if oid == PSS {
            return Ok(pss(reader.clone()).ok().flatten().map_or(Algorithm::Unknown, Algorithm::Known));
        }
        let parameters = if reader.is_empty() { None } else { Some(reader.any()?) };
        reader.end()?;
        let Some((_, scheme)) = KNOWN.iter().find(|(known, _)| *known == oid) else {
            return Ok(match oid {
                MD2_RSA => Algorithm::Insecure("MD2-RSA"),
                MD5_RSA => Algorithm::Insecure("MD5-RSA"),
                _ => Algorithm::Unknown,
            });
        };
        match parameters {
            // RFC 9881 section 2: absent, and not NULL.
            Some(_) if matches!(scheme, Scheme::MlDsa(_)) => Err(DerError("malformed signature algorithm")),
            Some(parameters) if parameters.whole != [der::NULL, 0] => Err(DerError("malformed signature algorithm")),
            _ => Ok(Algorithm::Known(*scheme)),
        }
    }

    /// Verifies `signature` of `message`. The error is a text with the reason.
    pub(super) fn verify(self, key: &PublicKey, message: &[u8], signature: &[u8]) -> Result<(), String> {
        match self {
            Algorithm::Known(scheme) => key.verify(scheme, message, signature).map_err(|_| {
                let said = match scheme {
                    Scheme::Ecdsa(_) => "x509: ECDSA verification failure",
                    Scheme::RsaPkcs1(_) | Scheme::RsaPss(_) => "crypto/rsa: verification error",
                    Scheme::MlDsa(_) => "ML-DSA verification failure",
                };
                said.to_owned()
            }),
            Algorithm::Insecure(name) => Err(format!("x509: cannot verify signature: insecure algorithm {name}")),
            Algorithm::Unknown => Err("x509: cannot verify signature: algorithm unimplemented".to_owned()),
        }
    }
}

/// Parses RSASSA-PSS-params (RFC 4055 section 3.1). Only one form is supported: MGF1 of the same digest, and a salt of
/// the digest's length.
fn pss(mut algorithm: Reader<'_>) -> Result<Option<Scheme>, DerError> {
    let mut parameters = algorithm.inside(der::SEQUENCE)?;
    algorithm.end()?;
    let digest = parameters.inside(0xa0)?.element(der::SEQUENCE)?.whole;
    let mut mask = parameters.inside(0xa1)?.inside(der::SEQUENCE)?;
    let is_mgf1 = mask.element(der::OID)?.value == MGF1;
    let mask_digest = mask.element(der::SEQUENCE)?.whole;
    let salt = parameters.inside(0xa2)?.small()?;
    if let Some(trailer) = parameters.optional(0xa3)?
        && trailer.value != [der::INTEGER, 1, 1]
    {
        return Ok(None);
    }
    parameters.end()?;
    let mut inner = Reader::new(digest, "malformed signature algorithm").inside(der::SEQUENCE)?;
    let oid = inner.element(der::OID)?.value;
    let known = PSS_HASHES.iter().find(|(known, _, len)| *known == oid && *len == salt);
    Ok(known.filter(|_| is_mgf1 && mask_digest == digest).map(|(_, hash, _)| Scheme::RsaPss(*hash)))
}

/// Encodes the AlgorithmIdentifier of a certificate's signature.
pub(super) fn identifier(signature: CertificateSignature) -> Vec<u8> {
    let scheme = scheme(signature);
    let oid = KNOWN.iter().find(|(_, known)| *known == scheme).map(|(oid, _)| *oid).unwrap_or_default();
    let oid = der::element(der::OID, &[oid]);
    match signature {
        CertificateSignature::Rsa(_) => der::sequence(&[&oid, &[der::NULL, 0]]),
        CertificateSignature::Ecdsa(_) | CertificateSignature::MlDsa(_) => der::sequence(&[&oid]),
    }
}

/// Registered name of the algorithm (RFC 8017, RFC 5758, RFC 9881).
pub(super) fn name(signature: CertificateSignature) -> &'static str {
    match signature {
        CertificateSignature::Rsa(SignatureHash::Sha256) => "sha256WithRSAEncryption",
        CertificateSignature::Rsa(SignatureHash::Sha384) => "sha384WithRSAEncryption",
        CertificateSignature::Rsa(SignatureHash::Sha512) => "sha512WithRSAEncryption",
        CertificateSignature::Ecdsa(SignatureHash::Sha256) => "ecdsa-with-SHA256",
        CertificateSignature::Ecdsa(SignatureHash::Sha384) => "ecdsa-with-SHA384",
        CertificateSignature::Ecdsa(SignatureHash::Sha512) => "ecdsa-with-SHA512",
        CertificateSignature::MlDsa(MlDsaAlgorithm::MlDsa44) => "id-ml-dsa-44",
        CertificateSignature::MlDsa(MlDsaAlgorithm::MlDsa65) => "id-ml-dsa-65",
        CertificateSignature::MlDsa(MlDsaAlgorithm::MlDsa87) => "id-ml-dsa-87",
    }
}

/// Scheme of a certificate's signature in the library.
pub(crate) fn scheme(signature: CertificateSignature) -> Scheme {
    match signature {
        CertificateSignature::Rsa(hash) => Scheme::RsaPkcs1(hash.into()),
        CertificateSignature::Ecdsa(hash) => Scheme::Ecdsa(hash.into()),
        CertificateSignature::MlDsa(set) => Scheme::MlDsa(set.into()),
    }
}

impl From<MlDsaAlgorithm> for MlDsa {
    fn from(set: MlDsaAlgorithm) -> MlDsa {
        match set {
            MlDsaAlgorithm::MlDsa44 => MlDsa::MlDsa44,
            MlDsaAlgorithm::MlDsa65 => MlDsa::MlDsa65,
            MlDsaAlgorithm::MlDsa87 => MlDsa::MlDsa87,
        }
    }
}

impl From<SignatureHash> for Hash {
    fn from(hash: SignatureHash) -> Hash {
        match hash {
            SignatureHash::Sha256 => Hash::Sha256,
            SignatureHash::Sha384 => Hash::Sha384,
            SignatureHash::Sha512 => Hash::Sha512,
        }
    }
}
