//! The issuer's certificate (RFC 5280 section 4.1), parsed as far as issuing needs it.

use std::borrow::Cow;

use sealway_awslc::PublicKey;

use super::algorithm::Algorithm;
use super::der::{self, DerError, Reader};
use super::extensions::{self, Extension};
use super::{pem, time};
use crate::{Refusal, Result};

/// Parsed certificate of an issuer.
pub(super) struct Authority<'a> {
    /// The whole certificate, in DER.
    pub(super) whole: &'a [u8],
    signed: &'a [u8],
    algorithm: Algorithm,
    signature: &'a [u8],
    issuer: &'a [u8],
    /// Subject in DER; issued certificates have it as their issuer, byte for byte.
    pub(super) subject: &'a [u8],
    /// Public key as SubjectPublicKeyInfo in DER.
    spki: &'a [u8],
    /// Begin of the validity, in seconds since 1970.
    pub(super) not_before: i64,
    /// End of the validity, in seconds since 1970.
    pub(super) not_after: i64,
    /// Contents of the subject key identifier, if present.
    pub(super) key_id: Option<&'a [u8]>,
    authority_key_id: Option<&'a [u8]>,
    /// True if BasicConstraints marks a CA.
    pub(super) is_ca: bool,
    /// Most CA certificates below it in a chain, if constrained.
    pub(super) path_length: Option<u32>,
    /// True if KeyUsage permits signing certificates, or is absent.
    pub(super) may_sign: bool,
}

/// Decodes a certificate from PEM, or from DER if that is allowed.
pub(super) fn bytes(certificate: &[u8], may_be_der: bool) -> Result<Cow<'_, [u8]>> {
    if may_be_der && certificate.first() == Some(&der::SEQUENCE) {
        return Ok(Cow::Borrowed(certificate));
    }
    match pem::first(certificate).filter(|block| block.label == "CERTIFICATE") {
        Some(block) => Ok(Cow::Owned(block.der.to_vec())),
        None => Err(refused("failed to decode PEM block containing certificate")),
    }
}

fn refused(why: &str) -> Refusal {
    let text = format!("error parsing request data: could not parse x.509 CA cert from request, err: {why}");
    Refusal::invalid(text)
}

impl<'a> Authority<'a> {
    /// Parses a certificate from its DER.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Authority<'a>> {
        read(bytes).map_err(|malformed| refused(&malformed.to_string()))
    }

    /// Public key in its canonical encoding; `None` if the library does not support it.
    pub(super) fn spki(&self) -> Option<Vec<u8>> {
        PublicKey::from_spki(self.spki).and_then(|key| key.spki()).ok()
    }

    /// True if the certificate claims to be signed with its own key.
    pub(super) fn is_self_signed(&self) -> bool {
        self.issuer == self.subject && (self.authority_key_id.is_none() || self.authority_key_id == self.key_id)
    }

    /// Verifies the certificate's signature with its own key.
    pub(super) fn verify_self(&self) -> Result<(), String> {
        let key = PublicKey::from_spki(self.spki).map_err(|failed| failed.to_string())?;
        self.algorithm.verify(&key, self.signed, self.signature)
    }
}

fn read(bytes: &[u8]) -> Result<Authority<'_>, DerError> {
    const WHAT: &str = "malformed certificate";
    let mut whole = Reader::new(bytes, WHAT);
    let mut certificate = whole.inside(der::SEQUENCE)?;
    whole.end()?;
    let signed = certificate.element(der::SEQUENCE)?;
    let outer = certificate.element(der::SEQUENCE)?;
    let signature = certificate.bits()?;
    certificate.end()?;

    let mut fields = Reader::new(signed.value, WHAT);
    if let Some(version) = fields.optional(0xa0)? {
        let mut version = Reader::new(version.value, WHAT);
        if !(1..=2).contains(&version.small()?) {
            return Err(DerError(WHAT));
        }
        version.end()?;
    }
    fields.element(der::INTEGER)?;
    if fields.element(der::SEQUENCE)?.whole != outer.whole {
        return Err(DerError("malformed certificate: its two signature algorithms differ"));
    }
    let algorithm = Algorithm::parse(&mut Reader::new(outer.value, WHAT))?;
    let issuer = fields.element(der::SEQUENCE)?.whole;
    let mut validity = fields.inside(der::SEQUENCE)?;
    let (not_before, not_after) = (time::parse(validity.any()?)?, time::parse(validity.any()?)?);
    validity.end()?;
    let subject = fields.element(der::SEQUENCE)?.whole;
    super::subject::check(subject)?;
    let spki = fields.element(der::SEQUENCE)?.whole;
    fields.optional(0x81)?;
    fields.optional(0x82)?;
    let mut list = Vec::new();
    if let Some(tagged) = fields.optional(0xa3)? {
        let mut tagged = Reader::new(tagged.value, WHAT);
        list = extensions::parse(tagged.inside(der::SEQUENCE)?)?;
        tagged.end()?;
    }
    fields.end()?;

    let mut authority = Authority {
        whole: bytes,
        signed: signed.whole,
        algorithm,
        signature,
        issuer,
        subject,
        spki,
        not_before,
        not_after,
        key_id: None,
        authority_key_id: None,
        is_ca: false,
        path_length: None,
        may_sign: true,
    };
    for extension in &list {
        authority.learn(extension)?;
    }
    Ok(authority)
}

impl<'a> Authority<'a> {
    fn learn(&mut self, extension: &Extension<'a>) -> Result<(), DerError> {
        let mut value = Reader::new(extension.value, "malformed extension of the certificate");
        match extension.oid {
            extensions::SUBJECT_KEY_ID => self.key_id = Some(value.element(der::OCTET_STRING)?.value),
            extensions::AUTHORITY_KEY_ID => {
                self.authority_key_id = value.inside(der::SEQUENCE)?.optional(0x80)?.map(|id| id.value);
            }
            extensions::BASIC_CONSTRAINTS => {
                let mut fields = value.inside(der::SEQUENCE)?;
                self.is_ca = fields.boolean()?.unwrap_or(false);
                self.path_length = if fields.is_empty() { None } else { Some(fields.small()?) };
                fields.end()?;
            }
            extensions::KEY_USAGE => {
                // Bit 5 is keyCertSign; the first byte is the number of unused bits.
                let bits = value.element(der::BIT_STRING)?.value;
                self.may_sign = bits.get(1).is_some_and(|byte| byte & 0x04 != 0);
            }
            _ => return Ok(()),
        }
        value.end()
    }
}
