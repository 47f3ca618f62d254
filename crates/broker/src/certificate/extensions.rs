//! Extensions of certificates (RFC 5280 section 4.2): those of a profile, those copied from a request, and those of an
//! issuer's certificate.

use super::Flavour;
use super::der::{self, DerError, Reader};
use crate::profile::policy::{CertificatePolicy, KeyUsage, Purpose};

pub(super) const KEY_USAGE: &[u8] = b"\x55\x1d\x0f";
const EXTENDED_KEY_USAGE: &[u8] = b"\x55\x1d\x25";
pub(super) const BASIC_CONSTRAINTS: &[u8] = b"\x55\x1d\x13";
pub(super) const SUBJECT_KEY_ID: &[u8] = b"\x55\x1d\x0e";
pub(super) const AUTHORITY_KEY_ID: &[u8] = b"\x55\x1d\x23";
const SUBJECT_ALT_NAME: &[u8] = b"\x55\x1d\x11";
const CRL_POINTS: &[u8] = b"\x55\x1d\x1f";
/// Extensions that only a profile decides; a request cannot bring them.
const PROFILES_OWN: [&[u8]; 7] =
    [KEY_USAGE, EXTENDED_KEY_USAGE, BASIC_CONSTRAINTS, SUBJECT_KEY_ID, AUTHORITY_KEY_ID, SUBJECT_ALT_NAME, CRL_POINTS];
const COUNT_MAX: usize = 64;

/// One extension of a request or a certificate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extension<'a> {
    pub(super) oid: &'a [u8],
    is_critical: bool,
    /// Contents of the extension's OCTET STRING.
    pub(super) value: &'a [u8],
}

/// Parses the elements of an `Extensions`. A duplicate is an error.
pub(super) fn parse(mut list: Reader<'_>) -> Result<Vec<Extension<'_>>, DerError> {
    let mut extensions: Vec<Extension<'_>> = Vec::new();
    while !list.is_empty() {
        let mut fields = list.inside(der::SEQUENCE)?;
        let oid = fields.oid()?;
        let is_critical = fields.boolean()?.unwrap_or(false);
        let value = fields.element(der::OCTET_STRING)?.value;
        fields.end()?;
        if extensions.len() == COUNT_MAX || extensions.iter().any(|other| other.oid == oid) {
            return Err(DerError("malformed extensions: one is there twice, or there are too many"));
        }
        extensions.push(Extension { oid, is_critical, value });
    }
    Ok(extensions)
}

/// Inputs of a certificate's extensions.
pub(super) struct Facts<'a> {
    pub(super) policy: &'a CertificatePolicy,
    pub(super) wire: Flavour,
    /// Subject key identifier of the issuer, if present.
    pub(super) authority_key_id: Option<&'a [u8]>,
    pub(super) subject_key_id: &'a [u8],
    pub(super) crl_points: &'a [String],
    pub(super) requested: &'a [Extension<'a>],
    pub(super) is_subject_empty: bool,
}

/// Builds the contents of the `Extensions`, in the order of spec/broker.md.
pub(super) fn build(facts: &Facts<'_>) -> Result<Vec<u8>, DerError> {
    let policy = facts.policy;
    let is_critical_basic = policy.is_ca || facts.wire == Flavour::W0;
    let basic = basic_constraints(policy);
    let mut out = Vec::new();
    if policy.key_usage.0 != 0 {
        push(&mut out, KEY_USAGE, true, &key_usage(policy.key_usage));
    }
    if !policy.purposes.is_empty() {
        push(&mut out, EXTENDED_KEY_USAGE, false, &purposes(&policy.purposes));
    }
    if is_critical_basic {
        push(&mut out, BASIC_CONSTRAINTS, true, &basic);
    }
    if let Some(id) = facts.authority_key_id {
        push(&mut out, AUTHORITY_KEY_ID, false, &der::sequence(&[&der::element(0x80, &[id])]));
    }
    if let Some(names) = alternative_names(facts)? {
        // RFC 5280 section 4.2.1.6: critical if the subject is empty.
        push(&mut out, SUBJECT_ALT_NAME, facts.is_subject_empty, names);
    }
    if !facts.crl_points.is_empty() {
        push(&mut out, CRL_POINTS, false, &crl_points(facts.crl_points));
    }
    if !is_critical_basic {
        push(&mut out, BASIC_CONSTRAINTS, false, &basic);
    }
    if facts.wire != Flavour::W0 {
        push(&mut out, SUBJECT_KEY_ID, false, &der::element(der::OCTET_STRING, &[facts.subject_key_id]));
    }
    for dotted in &policy.copies_extensions {
        let Some(oid) = der::oid(dotted).filter(|oid| !PROFILES_OWN.contains(&oid.as_slice())) else { continue };
        if let Some(extension) = facts.requested.iter().find(|extension| extension.oid == oid) {
            push(&mut out, &oid, extension.is_critical, extension.value);
        }
    }
    Ok(out)
}

fn push(out: &mut Vec<u8>, oid: &[u8], is_critical: bool, value: &[u8]) {
    let oid = der::element(der::OID, &[oid]);
    let critical: &[u8] = if is_critical { &[der::BOOLEAN, 1, 0xff] } else { &[] };
    out.extend_from_slice(&der::sequence(&[&oid, critical, &der::element(der::OCTET_STRING, &[value])]));
}

/// Encodes the KeyUsage as a BIT STRING without trailing zeros.
fn key_usage(usage: KeyUsage) -> Vec<u8> {
    let bytes = usage.0.reverse_bits().to_be_bytes();
    let bytes = if bytes[1] == 0 { &bytes[..1] } else { &bytes[..] };
    let unused = bytes[bytes.len() - 1].trailing_zeros() as u8;
    der::element(der::BIT_STRING, &[&[unused], bytes])
}

fn purposes(purposes: &[Purpose]) -> Vec<u8> {
    let mut list = Vec::new();
    for purpose in purposes {
        let last = match purpose {
            Purpose::ServerAuth => 1,
            Purpose::ClientAuth => 2,
            Purpose::CodeSigning => 3,
            Purpose::EmailProtection => 4,
            Purpose::TimeStamping => 8,
            Purpose::OcspSigning => 9,
        };
        list.extend_from_slice(&der::element(der::OID, &[b"\x2b\x06\x01\x05\x05\x07\x03", &[last]]));
    }
    der::sequence(&[&list])
}

fn basic_constraints(policy: &CertificatePolicy) -> Vec<u8> {
    if !policy.is_ca {
        return der::sequence(&[]);
    }
    let length = policy.path_length.map(|length| der::unsigned(&length.to_be_bytes())).unwrap_or_default();
    der::sequence(&[&[der::BOOLEAN, 1, 0xff], &length])
}

fn crl_points(urls: &[String]) -> Vec<u8> {
    let mut list = Vec::new();
    for url in urls {
        let name = der::element(0xa0, &[&der::element(0x86, &[url.as_bytes()])]);
        list.extend_from_slice(&der::sequence(&[&der::element(0xa0, &[&name])]));
    }
    der::sequence(&[&list])
}

/// Returns the request's SubjectAltName if the profile allows it; a malformed one is an error.
fn alternative_names<'a>(facts: &Facts<'a>) -> Result<Option<&'a [u8]>, DerError> {
    let wanted = facts.requested.iter().find(|extension| extension.oid == SUBJECT_ALT_NAME);
    let Some(extension) = wanted.filter(|_| facts.policy.copies_san) else { return Ok(None) };
    check_names(extension.value)?;
    Ok(Some(extension.value))
}

/// Checks that these are GeneralNames (RFC 5280 section 4.2.1.6): at least one, each with valid contents for its kind.
fn check_names(value: &[u8]) -> Result<(), DerError> {
    const WHAT: &str = "malformed subject alternative name";
    let mut whole = Reader::new(value, WHAT);
    let mut names = whole.inside(der::SEQUENCE)?;
    whole.end()?;
    if names.is_empty() {
        return Err(DerError(WHAT));
    }
    while !names.is_empty() {
        let name = names.any()?;
        let is_right = match name.tag {
            // rfc822Name, dNSName, URI
            0x81 | 0x82 | 0x86 => !name.value.is_empty() && name.value.iter().all(u8::is_ascii_graphic),
            // iPAddress
            0x87 => matches!(name.value.len(), 4 | 16),
            // registeredID
            0x88 => !name.value.is_empty(),
            // directoryName
            0xa4 => super::subject::check(name.value).is_ok(),
            // otherName
            0xa0 => {
                let mut fields = Reader::new(name.value, WHAT);
                fields.oid()?;
                let mut content = fields.inside(0xa0)?;
                content.any()?;
                content.end().and_then(|()| fields.end()).is_ok()
            }
            _ => false,
        };
        if !is_right {
            return Err(DerError(WHAT));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternative_names_that_are_copied_are_names() {
        for right in [
            &b"\x30\x03\x82\x01a"[..],
            b"\x30\x06\x87\x04\x01\x02\x03\x04",
            b"\x30\x10\xa4\x0e\x30\x0c\x31\x0a\x30\x08\x06\x03\x55\x04\x0a\x13\x01x",
            b"\x30\x0a\xa0\x08\x06\x01\x2a\xa0\x03\x0c\x01x",
        ] {
            assert_eq!(check_names(right), Ok(()), "{right:?}");
        }
        for wrong in [
            // Empty input, an empty sequence, another tag, and trailing bytes.
            &b""[..],
            b"\x30\x00",
            b"\x31\x03\x82\x01a",
            b"\x30\x03\x82\x01a\x00",
            // An address of three bytes; a name that is empty, has a blank, a zero, or bytes beyond ASCII.
            b"\x30\x05\x87\x03\x01\x02\x03",
            b"\x30\x02\x82\x00",
            b"\x30\x05\x82\x03a b",
            b"\x30\x05\x82\x03a\x00b",
            b"\x30\x04\x86\x02\xc3\xa4",
            // An invalid directoryName, and an otherName without its value.
            b"\x30\x05\xa4\x03\x30\x01\x00",
            b"\x30\x05\xa0\x03\x06\x01\x2a",
            // Tags that GeneralName does not have.
            b"\x30\x03\x8a\x01a",
            b"\x30\x03\x0c\x01a",
        ] {
            assert!(check_names(wrong).is_err(), "{wrong:?}");
        }
    }
}
