//! Integers of HPACK and of Binary HTTP: `crates/runtime/src/http/h2/hpack/decoder.rs`, `crates/proto/src/bhttp/varint.rs`.

use sealway_runtime::http::h2::hpack::{Decoder, Error};

use crate::cases::sequences;
use crate::production::varint::{VARINT_MAX, Varint};
use crate::{Outcome, bound, ensure};

/// The name of the harness of HPACK's integers.
pub(crate) const HPACK: &str = "hpack-integers";
/// The property that it checks.
pub(crate) const HPACK_PROPERTY: &str = "A table size of any encoding is read as its number, or is rejected as too large or as truncated: the \
     decoder accepts it if and only if the number is at most the table's bound.";
/// The name of the harness of Binary HTTP's integers.
pub(crate) const BHTTP: &str = "bhttp-integers";
/// The property that it checks.
pub(crate) const BHTTP_PROPERTY: &str =
    "An integer of one, two, four or eight bytes is read as its number with its last byte and no sooner.";

/// Decodes a header block with a bound on the table.
pub(crate) type Decode<'a> = &'a dyn Fn(usize, &[u8]) -> Result<(), Error>;

/// Decodes a header block without a field.
pub(crate) fn hpack(table_max: usize, block: &[u8]) -> Result<(), Error> {
    Decoder::new(table_max).decode(block, &mut |_, _| {})
}

/// Checks every size of a table that is encoded in the prefix and up to `octets_max` octets of a set.
pub(crate) fn check_hpack(decode: Decode<'_>, octets: &[u8], octets_max: usize) -> Outcome {
    let mut cases = 0;
    for prefix in 0..31_u8 {
        cases += check_size(decode, prefix, &[])?;
    }
    let behind = sequences(octets, octets_max, |sequence| {
        let octets: Vec<u8> = sequence.iter().map(|octet| **octet).collect();
        check_size(decode, 31, &octets)
    });
    Ok(cases + behind?)
}

fn check_size(decode: Decode<'_>, prefix: u8, octets: &[u8]) -> Outcome {
    let block = [&[0x20 | prefix], octets].concat();
    let mut value = u128::from(prefix);
    let mut len = 0;
    if prefix == 31 {
        let ends = octets.iter().position(|octet| *octet < 0x80);
        len = ends.map_or(octets.len(), |at| at + 1);
        for (index, octet) in octets.iter().take(len).enumerate() {
            value += u128::from(octet & 0x7f) << (7 * index);
        }
        if len > 4 || (ends.is_some() && value >= 1 << 28) || (ends.is_none() && octets.len() >= 4) {
            let found = decode(1 << 29, &block);
            ensure!(
                found == Err(Error::IntegerOverflow),
                "block {block:02x?}: {found:?}, but it has more than 28 bits"
            );
            return Ok(1);
        }
        if ends.is_none() {
            let found = decode(1 << 29, &block);
            ensure!(found == Err(Error::Truncated), "block {block:02x?}: {found:?}, but it has no end");
            return Ok(1);
        }
    }
    // What follows an integer is not part of it.
    let block = block.get(..=len).unwrap_or_default();
    let value = usize::try_from(value).unwrap_or(usize::MAX);
    for (table_max, expected) in [(Some(value), Ok(())), (value.checked_sub(1), Err(Error::TableSizeAboveLimit))] {
        let Some(table_max) = table_max else { continue };
        let found = decode(table_max, block);
        ensure!(found == expected, "block {block:02x?} is {value}; with a table of {table_max}: {found:?}");
    }
    Ok(1)
}

/// Reads an integer, and returns it with the number of bytes that it took.
pub(crate) type ReadVarint<'a> = &'a dyn Fn(&[u8]) -> Option<(u64, usize)>;

/// Reads an integer of Binary HTTP byte by byte.
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut varint = Varint::default();
    bytes.iter().enumerate().find_map(|(at, byte)| varint.push(*byte).map(|value| (value, at + 1)))
}

/// Checks all sequences of up to eight bytes of a set, and all sequences of two bytes.
pub(crate) fn check_varints(read: ReadVarint<'_>, bytes: &[u8], len_max: usize) -> Outcome {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let check = |sequence: &[&u8]| {
        let bytes: Vec<u8> = sequence.iter().map(|byte| **byte).collect();
        check_varint(read, &bytes)
    };
    Ok(sequences(&all, 2, check)? + sequences(bytes, len_max, check)?)
}

fn check_varint(read: ReadVarint<'_>, bytes: &[u8]) -> Outcome {
    let len = bytes.first().map_or(usize::MAX, |first| 1 << (first >> 6));
    let expected = bytes.get(..len).map(|taken| {
        let number = taken.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
        (number % (1_u128 << (8 * len - 2)), len)
    });
    let found = read(bytes);
    let found_wide = found.map(|(value, len)| (u128::from(value), len));
    ensure!(found_wide == expected, "bytes {bytes:02x?}: {found:?}, expected {expected:?}");
    ensure!(found.is_none_or(|(value, _)| value <= VARINT_MAX), "bytes {bytes:02x?}: over the largest number");
    Ok(1)
}

/// Octets around the bounds of seven bits.
pub(crate) const OCTETS: &[u8] = &[0, 1, 0x0f, 0x7e, 0x7f, 0x80, 0x81, 0x8f, 0xfe, 0xff];

/// Bytes around the bounds of the first byte and of a byte.
pub(crate) const BYTES: &[u8] = &[0, 0x3f, 0x40, 0x80, 0xc0, 0xff];

/// Returns the number of octets behind the prefix that the running form checks.
pub(crate) fn octets_max() -> usize {
    bound(4, 5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{finds, holds};

    #[test]
    fn hpack_integers_hold_their_property() {
        let bounds = format!("all prefixes of five bits, up to {} of {} octets behind", octets_max(), OCTETS.len());
        holds(HPACK, HPACK_PROPERTY, &bounds, || check_hpack(&hpack, OCTETS, octets_max()));
    }

    #[test]
    fn an_integer_that_loses_a_bit_is_found() {
        let lossy = |table_max: usize, block: &[u8]| {
            let lossy: Vec<u8> = block.iter().map(|octet| if *octet == 0x8f { 0x87 } else { *octet }).collect();
            hpack(table_max, &lossy)
        };
        finds(HPACK, "a bit of an octet is lost", || check_hpack(&lossy, OCTETS, 4));
    }

    #[test]
    fn bhttp_integers_hold_their_property() {
        let len_max = bound(6, 8);
        let bounds = format!("all sequences of two bytes, and up to {len_max} of {} bytes", BYTES.len());
        holds(BHTTP, BHTTP_PROPERTY, &bounds, || check_varints(&varint, BYTES, len_max));
    }

    #[test]
    fn an_integer_that_ends_early_is_found() {
        let early = |bytes: &[u8]| varint(bytes).or_else(|| (bytes.len() == 3).then_some((0, 3)));
        finds(BHTTP, "an integer of four bytes ends after three", || check_varints(&early, BYTES, 4));
    }
}
