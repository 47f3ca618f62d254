//! Certification requests (PKCS#10, RFC 2986).

use std::borrow::Cow;

use super::algorithm::Algorithm;
use super::der::{self, DerError, Reader};
use super::extensions::{self, Extension};
use super::key::SubjectKey;
use super::{pem, subject};
use crate::{Refusal, Result};

/// OID of id-pkcs9-at-extensionRequest (RFC 2985).
const EXTENSION_REQUEST: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x0e";
const ATTRIBUTES_MAX: usize = 64;

/// Parsed request; [`Csr::verify`] checks its signature.
pub(super) struct Csr<'a> {
    signed: &'a [u8],
    /// Subject of the request, in DER.
    pub(super) subject: &'a [u8],
    /// Public key as SubjectPublicKeyInfo in DER.
    pub(super) spki: &'a [u8],
    pub(super) key: SubjectKey,
    /// Requested extensions, each at most once.
    pub(super) extensions: Vec<Extension<'a>>,
    algorithm: Algorithm,
    signature: &'a [u8],
}

/// Decodes a request from PEM, or from DER if that is allowed.
pub(super) fn bytes(csr: &[u8], may_be_der: bool) -> Result<Cow<'_, [u8]>> {
    if may_be_der && csr.first() == Some(&der::SEQUENCE) {
        return Ok(Cow::Borrowed(csr));
    }
    let block = pem::first(csr)
        .ok_or_else(|| Refusal::invalid("error parsing request data: could not decode CSR as PEM file"))?;
    Ok(Cow::Owned(block.der.to_vec()))
}

impl<'a> Csr<'a> {
    /// Parses a request from its DER.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Csr<'a>> {
        read(bytes).map_err(|malformed| {
            let text = format!("error parsing request data: could not parse certificate request, err: {malformed}");
            Refusal::invalid(text)
        })
    }

    /// Verifies the request's signature with its own key. Keys of unsupported kinds are not verified: no profile allows
    /// them, and every wire rejects them by their kind.
    pub(super) fn verify(&self) -> Result<()> {
        let verified = match &self.key {
            SubjectKey::Sized { key, .. } => self.algorithm.verify(key, self.signed, self.signature),
            SubjectKey::Unsupported(_) => Ok(()),
        };
        verified.map_err(|why| {
            Refusal::invalid(format!("error while signing data: invalid certificate request signature, err: {why}"))
        })
    }
}

fn read(bytes: &[u8]) -> Result<Csr<'_>, DerError> {
    const WHAT: &str = "malformed certificate request";
    let mut whole = Reader::new(bytes, WHAT);
    let mut request = whole.inside(der::SEQUENCE)?;
    whole.end()?;
    let signed = request.element(der::SEQUENCE)?;
    let algorithm = Algorithm::parse(&mut request.inside(der::SEQUENCE)?)?;
    let signature = request.bits()?;
    request.end()?;

    let mut info = Reader::new(signed.value, WHAT);
    // Version 0 is correct; some programs write 1 or 2, as in certificates.
    if info.small()? > 2 {
        return Err(DerError(WHAT));
    }
    let subject = info.element(der::SEQUENCE)?.whole;
    subject::check(subject)?;
    let spki = info.element(der::SEQUENCE)?.whole;
    let key = SubjectKey::parse(spki)?;
    let attributes = info.optional(0xa0)?;
    info.end()?;
    let extensions = match attributes {
        Some(attributes) => {
            requested(Reader::new(attributes.value, "malformed attributes of the certificate request"))?
        }
        None => Vec::new(),
    };
    Ok(Csr { signed: signed.whole, subject, spki, key, extensions, algorithm, signature })
}

/// Parses the requested extensions of the attributes: at most one such attribute, with one value.
fn requested(mut attributes: Reader<'_>) -> Result<Vec<Extension<'_>>, DerError> {
    const WHAT: &str = "malformed extensions of the certificate request";
    let mut found = None;
    let mut count = 0;
    while !attributes.is_empty() {
        count += 1;
        if count > ATTRIBUTES_MAX {
            return Err(DerError(WHAT));
        }
        let mut attribute = attributes.inside(der::SEQUENCE)?;
        let oid = attribute.element(der::OID)?.value;
        let mut values = attribute.inside(der::SET)?;
        attribute.end()?;
        if oid == EXTENSION_REQUEST {
            let list = values.element(der::SEQUENCE)?.value;
            values.end()?;
            if found.replace(extensions::parse(Reader::new(list, WHAT))?).is_some() {
                return Err(DerError(WHAT));
            }
        }
    }
    Ok(found.unwrap_or_default())
}
