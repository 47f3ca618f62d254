//! The little DER (X.690) that objects need: parts of a public key and of a certificate, and signatures of ECDSA.

/// Tags of the elements that are read here.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// Explicit tag of a certificate's version.
const VERSION: u8 = 0xa0;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// A public key, as attributes need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Public {
    /// Modulus and exponent, big-endian without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// DER of the curve's OID, and the uncompressed point.
    Ec { curve: Vec<u8>, point: Vec<u8> },
    /// DER of the algorithm's OID, and the 32 bytes of the key.
    Ed25519 { curve: Vec<u8>, point: Vec<u8> },
}

/// Parts of a certificate, each with its tag and length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) serial: Vec<u8>,
    pub(crate) issuer: Vec<u8>,
    pub(crate) subject: Vec<u8>,
    pub(crate) spki: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Element<'a> {
    tag: u8,
    whole: &'a [u8],
    value: &'a [u8],
}

/// Splits the first element off.
fn next<'a>(input: &mut &'a [u8]) -> Option<Element<'a>> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().try_fold(0_usize, |len, &byte| len.checked_mul(256)?.checked_add(byte.into()))?, rest)
        }
        _ => return None,
    };
    let (value, after) = rest.split_at_checked(len)?;
    let whole = &input[..input.len() - after.len()];
    *input = after;
    Some(Element { tag, whole, value })
}

fn expect<'a>(input: &mut &'a [u8], tag: u8) -> Option<Element<'a>> {
    next(input).filter(|element| element.tag == tag)
}

/// Reads the one element that is the whole input.
fn only(mut input: &[u8], tag: u8) -> Option<&[u8]> {
    let element = expect(&mut input, tag)?;
    input.is_empty().then_some(element.value)
}

fn unsigned(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    number[zeros..].to_vec()
}

/// Reads a SubjectPublicKeyInfo; `None` for an algorithm without an object of this module.
pub(crate) fn public(spki: &[u8]) -> Option<Public> {
    let mut spki = only(spki, SEQUENCE)?;
    let mut algorithm = expect(&mut spki, SEQUENCE)?.value;
    let oid = expect(&mut algorithm, OID)?;
    let (&unused, key) = expect(&mut spki, BIT_STRING)?.value.split_first()?;
    if unused != 0 {
        return None;
    }
    match oid.value {
        RSA => {
            let mut key = only(key, SEQUENCE)?;
            let modulus = unsigned(expect(&mut key, INTEGER)?.value);
            Some(Public::Rsa { modulus, exponent: unsigned(expect(&mut key, INTEGER)?.value) })
        }
        EC => Some(Public::Ec { curve: expect(&mut algorithm, OID)?.whole.to_vec(), point: key.to_vec() }),
        ED25519 => Some(Public::Ed25519 { curve: oid.whole.to_vec(), point: key.to_vec() }),
        _ => None,
    }
}

/// Reads the parts of a certificate (RFC 5280 section 4.1).
pub(crate) fn certificate(der: &[u8]) -> Option<Certificate> {
    let mut certificate = only(der, SEQUENCE)?;
    let mut body = expect(&mut certificate, SEQUENCE)?.value;
    let mut serial = next(&mut body)?;
    if serial.tag == VERSION {
        serial = next(&mut body)?;
    }
    let _signature = expect(&mut body, SEQUENCE)?;
    let issuer = expect(&mut body, SEQUENCE)?.whole.to_vec();
    let _validity = expect(&mut body, SEQUENCE)?;
    let subject = expect(&mut body, SEQUENCE)?.whole.to_vec();
    let spki = expect(&mut body, SEQUENCE)?.whole.to_vec();
    (serial.tag == INTEGER).then(|| Certificate { serial: serial.whole.to_vec(), issuer, subject, spki })
}

fn element(tag: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(value.len()) {
        Ok(len) if len < 0x80 => out.push(len),
        Ok(len) => out.extend([0x81, len]),
        // Nothing that is written here is longer than 65 535 bytes.
        Err(_) => out.extend([0x82, (value.len() >> 8) as u8, value.len() as u8]),
    }
    out.extend_from_slice(value);
    out
}

/// Encodes bytes as an OCTET STRING.
pub(crate) fn octets(value: &[u8]) -> Vec<u8> {
    element(OCTET_STRING, value)
}

/// Converts an ECDSA signature of RFC 3279 to the form of PKCS#11: two numbers of `field_len` bytes each.
pub(crate) fn fixed_signature(der: &[u8], field_len: usize) -> Option<Vec<u8>> {
    let mut pair = only(der, SEQUENCE)?;
    let mut fixed = vec![0; 2 * field_len];
    for place in fixed.chunks_exact_mut(field_len) {
        let number = unsigned(expect(&mut pair, INTEGER)?.value);
        place[field_len.checked_sub(number.len())?..].copy_from_slice(&number);
    }
    pair.is_empty().then_some(fixed)
}

/// Converts an ECDSA signature of PKCS#11 to that of RFC 3279; `None` for another length.
pub(crate) fn der_signature(fixed: &[u8], field_len: usize) -> Option<Vec<u8>> {
    if fixed.len() != 2 * field_len {
        return None;
    }
    let integer = |number: &[u8]| {
        let mut value = unsigned(number);
        if value.first().is_none_or(|&byte| byte >= 0x80) {
            value.insert(0, 0);
        }
        element(INTEGER, &value)
    };
    let (r, s) = fixed.split_at(field_len);
    Some(element(SEQUENCE, &[integer(r), integer(s)].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_round_trips_with_short_and_high_numbers() {
        for (r, s) in [(1_u8, 0x80_u8), (0, 0xff), (0x7f, 0)] {
            let mut fixed = vec![0; 64];
            (fixed[31], fixed[32]) = (r, s);
            let der = der_signature(&fixed, 32).unwrap();
            assert_eq!(fixed_signature(&der, 32).unwrap(), fixed);
        }
        assert_eq!(der_signature(&[1; 63], 32), None);
    }

    #[test]
    fn truncated_input_is_rejected_at_every_length() {
        let key = [&[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00][..], &[7; 32]].concat();
        assert!(matches!(public(&key), Some(Public::Ed25519 { point, .. }) if point == [7; 32]));
        for len in 0..key.len() {
            assert_eq!(public(&key[..len]), None, "{len}");
            assert_eq!(certificate(&key[..len]), None, "{len}");
            assert_eq!(fixed_signature(&key[..len], 32), None, "{len}");
        }
        // Lengths beyond the input, and beyond a number.
        for head in [&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff][..], &[0x30, 0x85, 1, 1, 1, 1, 1], &[0x30, 0x80]] {
            assert_eq!(public(head), None);
        }
    }
}
