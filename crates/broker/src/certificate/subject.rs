//! Names of subjects: the request's own, or the requested replacement.

use std::borrow::Cow;

use super::der::{self, DerError, Reader};
use crate::{Refusal, Result};

/// Attributes of a requested subject, with their object identifiers.
const ATTRIBUTES: [(&str, &[u8]); 6] = [
    ("C", b"\x55\x04\x06"),
    ("ST", b"\x55\x04\x08"),
    ("O", b"\x55\x04\x0a"),
    ("OU", b"\x55\x04\x0b"),
    ("L", b"\x55\x04\x07"),
    ("CN", b"\x55\x04\x03"),
];

/// Subject of the certificate in DER: the requested one, or the request's own byte for byte.
pub(super) fn resolve<'a>(asked: Option<&str>, own: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    let mut names = Vec::new();
    for (index, part) in asked.unwrap_or_default().split(',').map(str::trim).enumerate() {
        if part.is_empty() {
            continue;
        }
        let attribute = attribute(part, index + 1).map_err(|why| {
            Refusal::invalid(format!("error while signing data: error while building subject from string: {why}"))
        })?;
        names.push(attribute);
    }
    if names.is_empty() {
        return Ok(Cow::Borrowed(own));
    }
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    Ok(Cow::Owned(der::sequence(&names)))
}

/// Encodes a RelativeDistinguishedName of one attribute. The value begins after the first "=".
fn attribute(part: &str, number: usize) -> Result<Vec<u8>, String> {
    let (key, value) =
        part.split_once('=').ok_or_else(|| format!("subject component {number} is not of the form key=value"))?;
    let (key, value) = (key.trim(), value.trim());
    let oid = ATTRIBUTES.iter().find(|(name, _)| *name == key).map(|(_, oid)| *oid);
    let oid = oid.ok_or_else(|| format!("unsupported subject attribute: {key:?}"))?;
    let tag = if value.bytes().all(is_printable) { der::PRINTABLE_STRING } else { der::UTF8_STRING };
    let pair = der::sequence(&[&der::element(der::OID, &[oid]), &der::element(tag, &[value.as_bytes()])]);
    Ok(der::element(der::SET, &[&pair]))
}

/// True for characters of a PrintableString (X.680 section 41.4).
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte)
}

/// Checks that a copied name is valid DER: sets of pairs, with strings of their declared kind.
pub(super) fn check(name: &[u8]) -> Result<(), DerError> {
    const WHAT: &str = "malformed subject";
    let mut name = Reader::new(name, WHAT).inside(der::SEQUENCE)?;
    while !name.is_empty() {
        let mut set = name.inside(der::SET)?;
        if set.is_empty() {
            return Err(DerError(WHAT));
        }
        let mut last: &[u8] = &[];
        while !set.is_empty() {
            let pair = set.element(der::SEQUENCE)?;
            // DER requires sorted sets.
            if pair.whole < last {
                return Err(DerError(WHAT));
            }
            last = pair.whole;
            let mut pair = Reader::new(pair.value, WHAT);
            pair.oid()?;
            let value = pair.any()?;
            pair.end()?;
            let is_right = match value.tag {
                der::UTF8_STRING => std::str::from_utf8(value.value).is_ok(),
                // Wider than the standard by two characters that many programs write.
                der::PRINTABLE_STRING => value.value.iter().all(|byte| is_printable(*byte) || b"*&".contains(byte)),
                der::IA5_STRING => value.value.is_ascii(),
                // DER has no constructed strings in names.
                tag => tag & 0x20 == 0,
            };
            if !is_right {
                return Err(DerError(WHAT));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[u8] = &[0x30, 0];

    fn text(asked: &str) -> String {
        resolve(Some(asked), OWN).unwrap_err().text
    }

    #[test]
    fn without_a_requested_subject_the_subject_of_the_csr_is_kept() {
        for asked in [None, Some(""), Some(" , ,")] {
            assert_eq!(resolve(asked, OWN).unwrap(), OWN);
        }
    }

    #[test]
    fn components_keep_their_order_and_repeats_and_blanks_around_them_go() {
        let name = resolve(Some(" CN = a=b , O=x,,O=x"), OWN).unwrap();
        let cn = b"\x31\x0c\x30\x0a\x06\x03\x55\x04\x03\x13\x03a=b";
        let o = b"\x31\x0a\x30\x08\x06\x03\x55\x04\x0a\x13\x01x";
        assert_eq!(&name[..], [&[0x30, 38][..], cn, o, o].concat());
        check(&name).unwrap();
    }

    #[test]
    fn values_outside_printable_string_are_encoded_as_utf_8() {
        for (value, tag) in
            [("a-b.c", 0x13), ("a@b", 0x0c), ("a*", 0x0c), ("a&b", 0x0c), ("Zürich", 0x0c), ("a_b", 0x0c)]
        {
            let name = resolve(Some(&format!("CN={value}")), OWN).unwrap();
            assert_eq!(name[11], tag, "{value}");
            assert_eq!(&name[13..], value.as_bytes());
        }
    }

    #[test]
    fn other_attributes_and_parts_without_a_key_are_refused_by_name() {
        let ends = |asked: &str, end: &str| assert!(text(asked).ends_with(end), "{}", text(asked));
        ends("CN=a,EMAIL=b", "error while building subject from string: unsupported subject attribute: \"EMAIL\"");
        ends("cn=a", "unsupported subject attribute: \"cn\"");
        ends("CN=a,b", "subject component 2 is not of the form key=value");
    }

    #[test]
    fn names_that_are_not_der_are_refused() {
        for name in [
            &[0x30, 2, 0x31, 0][..],
            b"\x30\x0c\x31\x0a\x30\x08\x06\x03\x55\x04\x0a\x0c\x01\xff",
            b"\x30\x0c\x31\x0a\x30\x08\x06\x03\x55\x04\x0a\x13\x01@",
            b"\x30\x0c\x31\x0a\x30\x08\x06\x03\x55\x04\x0a\x30\x01x",
            b"\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x0a\x0c\x81\x01x",
            // Another spelling of 2.5.4.10.
            b"\x30\x0d\x31\x0b\x30\x09\x06\x04\x80\x55\x04\x0a\x13\x01x",
        ] {
            assert!(check(name).is_err(), "{name:?}");
        }
    }
}
