//! Integers of variable length (RFC 9000 section 16). A reader takes longer forms than the shortest (RFC 9292 section 3).

use alloc::vec::Vec;

/// Largest integer that the format can carry.
pub(crate) const VARINT_MAX: u64 = (1 << 62) - 1;

/// An integer of which a part has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Varint {
    value: u64,
    /// Bytes that are still to come; zero before the first.
    missing: u8,
}

impl Varint {
    /// Returns whether no byte of an integer has arrived.
    pub(crate) fn is_idle(self) -> bool {
        self.missing == 0
    }

    /// Takes one byte, and returns the integer with its last byte.
    pub(crate) fn push(&mut self, byte: u8) -> Option<u64> {
        if self.missing == 0 {
            self.value = u64::from(byte & 0x3f);
            self.missing = (1 << (byte >> 6)) - 1;
        } else {
            self.value = self.value << 8 | u64::from(byte);
            self.missing -= 1;
        }
        (self.missing == 0).then_some(self.value)
    }

    /// Takes bytes from `input` until the integer is whole.
    pub(crate) fn read(&mut self, input: &mut &[u8]) -> Option<u64> {
        while let Some((byte, rest)) = input.split_first() {
            *input = rest;
            if let Some(value) = self.push(*byte) {
                return Some(value);
            }
        }
        None
    }
}

/// Appends an integer in its shortest form. A value above [`VARINT_MAX`] is cut to it.
pub(crate) fn write(out: &mut Vec<u8>, value: u64) {
    let value = value.min(VARINT_MAX);
    let (len, form) = match value {
        0..=0x3f => (1, 0),
        0x40..=0x3fff => (2, 0x40),
        0x4000..=0x3fff_ffff => (4, 0x80),
        _ => (8, 0xc0_u8),
    };
    let bytes = value.to_be_bytes();
    let start = out.len();
    out.extend(bytes.iter().skip(bytes.len() - len));
    if let Some(first) = out.get_mut(start) {
        *first |= form;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_9000_are_read_and_written() {
        let examples: [(u64, &[u8]); 4] = [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ];
        for (value, bytes) in examples {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(Varint::default().read(&mut &*bytes), Some(value));
            let mut partial = Varint::default();
            assert_eq!(partial.read(&mut &bytes[..bytes.len() - 1]), None);
            assert_eq!(partial.is_idle(), bytes.len() == 1);
        }
        assert_eq!(Varint::default().read(&mut &[0x40, 0x25][..]), Some(37), "a longer form");
    }

    #[test]
    fn both_sides_of_each_border_are_read_as_written() {
        for value in [0, 0x3f, 0x40, 0x3fff, 0x4000, 0x3fff_ffff, 0x4000_0000, VARINT_MAX] {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(Varint::default().read(&mut &*out), Some(value));
        }
    }
}
