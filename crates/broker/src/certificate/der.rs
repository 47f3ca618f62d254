//! DER (X.690 section 10), the part that certificates need: a strict reader of slices, and writers. Data copied from a
//! request into a certificate has passed this reader, so that only DER is signed.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const PRINTABLE_STRING: u8 = 0x13;
pub(crate) const IA5_STRING: u8 = 0x16;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Input that is not DER, or not the expected element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("x509: {0}")]
pub(crate) struct DerError(pub(crate) &'static str);

/// One element with tag and contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    /// Contents without tag and length.
    pub(crate) value: &'a [u8],
    /// The element with tag and length.
    pub(crate) whole: &'a [u8],
}

/// Reader of consecutive elements; `what` names them in an error.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Reader<'a> {
        Reader { rest: bytes, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next element. Tags have one byte, lengths are definite and minimal.
    pub(crate) fn any(&mut self) -> Result<Element<'a>, DerError> {
        let wrong = DerError(self.what);
        let (&tag, after) = self.rest.split_first().ok_or(wrong)?;
        let (&first, mut after) = after.split_first().ok_or(wrong)?;
        if tag & 0x1f == 0x1f {
            return Err(wrong);
        }
        let mut len = usize::from(first);
        if first >= 0x80 {
            let count = usize::from(first & 0x7f);
            if count == 0 || count > 3 || after.len() < count || after[0] == 0 {
                return Err(wrong);
            }
            let (bytes, rest) = after.split_at(count);
            len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
            after = rest;
            if len < 0x80 {
                return Err(wrong);
            }
        }
        if after.len() < len {
            return Err(wrong);
        }
        let (value, rest) = after.split_at(len);
        let whole = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        Ok(Element { tag, value, whole })
    }

    /// Reads the next element, which must have this tag.
    pub(crate) fn element(&mut self, tag: u8) -> Result<Element<'a>, DerError> {
        let element = self.any()?;
        if element.tag == tag { Ok(element) } else { Err(DerError(self.what)) }
    }

    /// Reads the next element if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, DerError> {
        if self.rest.first() == Some(&tag) { self.any().map(Some) } else { Ok(None) }
    }

    /// Returns a reader of the next element's contents, which must have this tag.
    pub(crate) fn inside(&mut self, tag: u8) -> Result<Reader<'a>, DerError> {
        Ok(Reader { rest: self.element(tag)?.value, what: self.what })
    }

    /// Checks that no element follows.
    pub(crate) fn end(&self) -> Result<(), DerError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DerError(self.what)) }
    }

    /// Reads an optional BOOLEAN in one of DER's two encodings.
    pub(crate) fn boolean(&mut self) -> Result<Option<bool>, DerError> {
        match self.optional(BOOLEAN)?.map(|element| element.value) {
            None => Ok(None),
            Some([0x00]) => Ok(Some(false)),
            Some([0xff]) => Ok(Some(true)),
            Some(_) => Err(DerError(self.what)),
        }
    }

    /// Reads a non-negative INTEGER that fits into 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32, DerError> {
        let value = self.element(INTEGER)?.value;
        let is_minimal = !matches!(value, [] | [0, 0..=0x7f, ..]) && value[0] < 0x80;
        let digits = value.strip_prefix(&[0]).unwrap_or(value);
        if !is_minimal || digits.len() > 4 {
            return Err(DerError(self.what));
        }
        Ok(digits.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Reads the contents of an OBJECT IDENTIFIER, with minimal and complete numbers. Some readers of certificates
    /// would accept another spelling of a known OID and others not.
    pub(crate) fn oid(&mut self) -> Result<&'a [u8], DerError> {
        let value = self.element(OID)?.value;
        let begins = |at: usize| at == 0 || value[at - 1] < 0x80;
        let is_padded = (0..value.len()).any(|at| value[at] == 0x80 && begins(at));
        let is_whole = value.last().is_some_and(|last| *last < 0x80);
        if is_whole && !is_padded { Ok(value) } else { Err(DerError(self.what)) }
    }

    /// Reads the bytes of a BIT STRING without unused bits.
    pub(crate) fn bits(&mut self) -> Result<&'a [u8], DerError> {
        match self.element(BIT_STRING)?.value {
            [0, bytes @ ..] => Ok(bytes),
            _ => Err(DerError(self.what)),
        }
    }
}

/// Encodes an element of this tag.
pub(crate) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(len + 5);
    out.push(tag);
    if len < 0x80 {
        out.push(len as u8);
    } else {
        let bytes = len.to_be_bytes();
        let skipped = bytes.iter().take_while(|byte| **byte == 0).count();
        out.push(0x80 | (bytes.len() - skipped) as u8);
        out.extend_from_slice(&bytes[skipped..]);
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

/// Encodes a SEQUENCE of these elements.
pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, parts)
}

/// Encodes unsigned bytes of any length as an INTEGER.
pub(crate) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let digits = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    match digits.first() {
        None => element(INTEGER, &[&[0]]),
        Some(first) if *first >= 0x80 => element(INTEGER, &[&[0], digits]),
        Some(_) => element(INTEGER, &[digits]),
    }
}

/// Encodes whole bytes as a BIT STRING.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes])
}

/// Encodes an object identifier from its dotted form; `None` for an invalid one.
pub(crate) fn oid(dotted: &str) -> Option<Vec<u8>> {
    let arcs: Vec<u32> = dotted.split('.').map(|arc| arc.parse().ok()).collect::<Option<_>>()?;
    let [first, second, rest @ ..] = arcs.as_slice() else { return None };
    if *first > 2 || *first < 2 && *second > 39 || *second > 0xffff {
        return None;
    }
    let mut out = Vec::new();
    for arc in std::iter::once(first * 40 + second).chain(rest.iter().copied()) {
        let groups = (32 - arc.leading_zeros()).div_ceil(7).max(1);
        for group in (0..groups).rev() {
            let more = if group == 0 { 0 } else { 0x80 };
            out.push(more | (arc >> (group * 7)) as u8 & 0x7f);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_every_length_round_trip() {
        for len in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000] {
            let bytes = vec![7; len];
            let written = element(OCTET_STRING, &[&bytes]);
            let mut reader = Reader::new(&written, "test");
            let element = reader.element(OCTET_STRING).unwrap();
            assert_eq!((element.value, element.whole), (&bytes[..], &written[..]));
            reader.end().unwrap();
        }
    }

    #[test]
    fn ber_that_is_not_der_is_rejected() {
        let long = [&[0x04, 0x82, 0x00, 0x80][..], &[0; 128]].concat();
        for bytes in
            [&[0x04, 0x80, 0, 0][..], &[0x04, 0x81, 0x01, 0], &long, &[0x1f, 0x01, 0], &[0x04], &[0x04, 2, 0], &[]]
        {
            assert!(Reader::new(bytes, "test").any().is_err(), "{bytes:?}");
        }
        for value in [&[1, 1, 1][..], &[1, 0], &[1, 2, 0, 0]] {
            assert!(Reader::new(value, "test").boolean().is_err(), "{value:?}");
        }
        for number in [&[2, 0][..], &[2, 2, 0, 1], &[2, 1, 0x80], &[2, 5, 1, 0, 0, 0, 0]] {
            assert!(Reader::new(number, "test").small().is_err(), "{number:?}");
        }
        assert_eq!(Reader::new(&[2, 5, 0, 0xff, 0, 0, 0], "test").small(), Ok(0xff00_0000));
        assert_eq!(Reader::new(&[2, 1, 0], "test").small(), Ok(0));
    }

    #[test]
    fn object_identifiers_have_one_spelling() {
        // The last one has a zero inside a number.
        for right in [&[6, 3, 0x55, 4, 3][..], &[6, 2, 0x88, 0x37], &[6, 1, 0], &[6, 4, 0x55, 0x81, 0x80, 3]] {
            assert_eq!(Reader::new(right, "test").oid(), Ok(&right[2..]));
        }
        for wrong in [&[6, 0][..], &[6, 4, 0x80, 0x55, 4, 3], &[6, 4, 0x55, 0x80, 4, 3], &[6, 3, 0x55, 4, 0x83]] {
            assert!(Reader::new(wrong, "test").oid().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn integers_have_no_more_zeros_than_their_sign_needs() {
        assert_eq!(unsigned(&[0, 0, 1]), [2, 1, 1]);
        assert_eq!(unsigned(&[0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(unsigned(&[0]), [2, 1, 0]);
    }

    #[test]
    fn object_identifiers_are_encoded_as_published() {
        assert_eq!(oid("1.2.840.113549.1.1.11").unwrap(), [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 0x0b]);
        assert_eq!(oid("2.5.29.17").unwrap(), [0x55, 0x1d, 0x11]);
        assert_eq!(oid("2.999.0").unwrap(), [0x88, 0x37, 0]);
        for wrong in ["", "1", "3.1", "1.40", "1.2.x", "1..2", "1.2.99999999999"] {
            assert_eq!(oid(wrong), None, "{wrong}");
        }
    }
}
