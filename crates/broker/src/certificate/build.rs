//! Builds certificates and has them signed.

use aws_lc_rs::{digest, rand};

use super::authority::Authority;
use super::csr::Csr;
use super::der::{self, Reader};
use super::extensions::{self, Facts};
use super::key::SigningKey;
use super::validity::Validity;
use super::{IssuedCertificate, Request, algorithm, time};
use crate::profile::policy::{CertificatePolicy, SkiHash};
use crate::{Code, Refusal, Result};

/// Checked parts of a certificate.
pub(super) struct Parts<'a> {
    pub(super) csr: &'a Csr<'a>,
    pub(super) ca: &'a Authority<'a>,
    pub(super) issuer: &'a SigningKey<'a>,
    pub(super) subject: &'a [u8],
    pub(super) validity: Validity,
}

/// Checks that the issuer's key is of the profile's kind, and belongs to its certificate.
pub(super) fn check_key(policy: &CertificatePolicy, issuer: &SigningKey<'_>, ca: &Authority<'_>) -> Result<()> {
    let refused = |why: &str| Err(Refusal::invalid(format!("error while signing data: {why}")));
    if !issuer.size().is_ok_and(|(kind, size)| policy.signature.fits(kind, size)) {
        return refused("x509: requested SignatureAlgorithm does not match private key type");
    }
    if ca.spki().as_deref() != Some(&*issuer.spki()?) {
        return refused("x509: provided PrivateKey doesn't match parent's PublicKey");
    }
    Ok(())
}

/// Builds a certificate and signs it.
pub(super) fn build(policy: &CertificatePolicy, request: &Request<'_>, parts: &Parts<'_>) -> Result<IssuedCertificate> {
    let key_id = key_id(policy.ski, parts.csr.spki)?;
    let facts = Facts {
        policy,
        wire: request.wire,
        authority_key_id: parts.ca.key_id,
        subject_key_id: &key_id,
        crl_points: request.crl_points,
        requested: &parts.csr.extensions,
        is_subject_empty: parts.subject == [der::SEQUENCE, 0],
    };
    let extensions = extensions::build(&facts)
        .map_err(|malformed| Refusal::invalid(format!("error while signing data: {malformed}")))?;
    let identifier = algorithm::identifier(policy.signature);
    let ends = [parts.validity.not_before, parts.validity.not_after].map(time::encode);
    let [Some(not_before), Some(not_after)] = ends else {
        return Err(Refusal::invalid(
            "error while signing data: certificate validity lies outside the years 1 to 9999",
        ));
    };
    let signed = der::sequence(&[
        &[0xa0, 3, der::INTEGER, 1, 2],
        &serial()?,
        &identifier,
        parts.ca.subject,
        &der::sequence(&[&not_before, &not_after]),
        parts.subject,
        parts.csr.spki,
        &der::element(0xa3, &[&der::sequence(&[&extensions])]),
    ]);
    let signature = parts.issuer.sign(policy.signature, &signed)?;
    Ok(IssuedCertificate {
        der: der::sequence(&[&signed, &identifier, &der::bit_string(&signature)]),
        issuer_size: parts.issuer.size().map_or(0, |(_, size)| size),
        subject_key: parts.csr.key.size(),
        algorithm: algorithm::name(policy.signature).to_owned(),
    })
}

/// Draws a positive INTEGER of 159 random bits: at most 20 bytes (RFC 5280 section 4.1.2.2).
fn serial() -> Result<Vec<u8>> {
    let no_randomness = |_| Refusal::new(Code::Internal, "error while signing data: no randomness");
    let mut bytes = [0; 20];
    loop {
        rand::fill(&mut bytes).map_err(no_randomness)?;
        bytes[0] &= 0x7f;
        if bytes != [0; 20] {
            return Ok(der::unsigned(&bytes));
        }
    }
}

/// Key identifier: the leftmost 160 bits of the digest of the key's bits (RFC 5280 section 4.2.1.2, RFC 7093 section
/// 2).
fn key_id(hash: SkiHash, spki: &[u8]) -> Result<[u8; 20]> {
    let digest = match hash {
        SkiHash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        SkiHash::Sha256 => &digest::SHA256,
        SkiHash::Sha384 => &digest::SHA384,
        SkiHash::Sha512 => &digest::SHA512,
        SkiHash::Sha3_256 => &digest::SHA3_256,
        SkiHash::Sha3_384 => &digest::SHA3_384,
        SkiHash::Sha3_512 => &digest::SHA3_512,
    };
    let read = || {
        let mut fields = Reader::new(spki, "malformed public key").inside(der::SEQUENCE)?;
        fields.element(der::SEQUENCE)?;
        fields.bits()
    };
    let bits = read().map_err(|malformed: der::DerError| Refusal::invalid(malformed.to_string()))?;
    let digest = digest::digest(digest, bits);
    let mut id = [0; 20];
    id.copy_from_slice(&digest.as_ref()[..20]);
    Ok(id)
}
