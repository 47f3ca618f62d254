//! Sequences of fields: the encoding of everything that is hashed or expanded over more than one part.
// SPEC session-3.md#encodings

use alloc::vec::Vec;

/// Initial capacity of a sequence, in bytes.
const CAPACITY: usize = 256;

/// A sequence of fields. No two different sequences give the same bytes.
///
/// It is for public values: its memory is not wiped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<u8>);

impl Fields {
    /// Creates an empty sequence of fields.
    pub fn new() -> Self {
        // Most input of a call's hashes fits, so that it is not moved as it grows.
        Fields(Vec::with_capacity(CAPACITY))
    }

    /// Appends `field(bytes)`. A field is shorter than 4 GiB: every part has a bound far below.
    #[must_use]
    pub fn field(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        debug_assert!(u32::try_from(bytes.len()).is_ok(), "a field without a bound");
        self.0.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends `number(n)`, 8 bytes big-endian.
    #[must_use]
    pub fn number(self, n: u64) -> Self {
        self.field(n.to_be_bytes())
    }

    /// Appends `list(a, b…)` as one field.
    #[must_use]
    pub fn list<T: AsRef<[u8]>>(self, items: impl IntoIterator<Item = T>) -> Self {
        let inner = items.into_iter().fold(Fields::new(), Fields::field);
        self.field(inner)
    }

    /// Returns the encoded bytes, for hashing.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Fields {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_spec() {
        assert_eq!(Fields::new().field("ab").as_bytes(), b"\0\0\0\x02ab");
        assert_eq!(Fields::new().number(258).as_bytes(), b"\0\0\0\x08\0\0\0\0\0\0\x01\x02");
        assert_eq!(Fields::new().list(["a", ""]).as_bytes(), b"\0\0\0\x09\0\0\0\x01a\0\0\0\0");
        assert_eq!(Fields::new().list::<&str>([]).as_bytes(), b"\0\0\0\0");
        assert_eq!(Fields::new().field("").field("x").as_bytes(), b"\0\0\0\0\0\0\0\x01x");
    }

    #[test]
    fn the_boundaries_of_parts_are_part_of_the_bytes() {
        let sequences = [
            Fields::new().field("ab").field("c"),
            Fields::new().field("a").field("bc"),
            Fields::new().field("abc"),
            Fields::new().list(["ab", "c"]),
            Fields::new().list(["a", "bc"]),
            Fields::new().list(["abc"]),
        ];
        for (index, one) in sequences.iter().enumerate() {
            assert!(!sequences.iter().skip(index + 1).any(|other| other == one), "{one:?}");
        }
    }
}
