//! Heads and padding of HTTP/2 frames: `crates/runtime/src/http/h2/frame.rs`.

use bytes::BytesMut;

use self::error::ConnectionError;
use self::frame::{Head, Kind, PADDED, four_bytes, put_head, without_padding};
use crate::{Outcome, ensure};

#[path = "../../../../crates/runtime/src/http/h2/error.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of the product's file")]
mod error;
#[path = "../../../../crates/runtime/src/http/h2/frame.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of the product's file")]
mod frame;

/// The name of the harness.
const NAME: &str = "http2-frame-heads";
/// The property that it checks.
const PROPERTY: &str = "A head of nine bytes parses to the length, type, flags and stream that were written, without the reserved \
     bit; a shorter one is waited for. Padding is removed if and only if it fits into its frame, and no byte of it is left.";

/// The types of RFC 9113 section 6, in order.
const KINDS: [&str; 10] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
];

/// Checks heads that `parse` reads: all types and flags, and the numbers around each bit.
fn check_heads(parse: &dyn Fn(&[u8]) -> Option<Head>) -> Outcome {
    let mut cases = 0;
    let around = |bits: u32| (0..bits).flat_map(|bit| [(1_u32 << bit) - 1, 1 << bit, (1 << bit) + 1]);
    let lens: Vec<u32> = around(24).chain([0x00ff_ffff]).filter(|len| *len < 1 << 24).collect();
    let streams: Vec<u32> = around(32).chain([0x7fff_ffff, 0x8000_0001, u32::MAX]).collect();
    for (kind, flags) in (0..=u8::MAX).flat_map(|kind| (0..=u8::MAX).map(move |flags| (kind, flags))) {
        // One length and one stream for each pair, so that all of them come often.
        let pair = usize::from(kind) * 256 + usize::from(flags);
        let (len, stream) = (lens.get(pair % lens.len()), streams.get(pair % streams.len()));
        cases += check_head(parse, *len.unwrap_or(&0), kind, flags, *stream.unwrap_or(&0))?;
    }
    for len in &lens {
        for stream in &streams {
            for (kind, flags) in [(0, 0x1), (1, 0x2d), (8, 0), (255, 0xff)] {
                cases += check_head(parse, *len, kind, flags, *stream)?;
            }
        }
    }
    Ok(cases)
}

fn check_head(parse: &dyn Fn(&[u8]) -> Option<Head>, len: u32, kind: u8, flags: u8, stream: u32) -> Outcome {
    let mut out = BytesMut::new();
    put_head(&mut out, len as usize, kind, flags, stream);
    for short in 0..out.len() {
        let part = out.get(..short).unwrap_or_default();
        ensure!(parse(part).is_none(), "{} of a head parse", short);
    }
    out.extend_from_slice(b"payload");
    let head = parse(&out);
    let name = KINDS.get(usize::from(kind)).copied().unwrap_or("unknown");
    let is_same = head.is_some_and(|head| {
        let fields = (head.len, head.kind.name(), head.flags, head.stream);
        let ends = matches!(kind, 0 | 1) && flags & 1 == 1;
        fields == (len as usize, name, flags, stream & 0x7fff_ffff) && head.ends_stream() == ends
    });
    ensure!(is_same, "length {len}, type {kind}, flags {flags:#x}, stream {stream:#x} parse to {head:?}");
    Ok(1)
}

/// Removes the padding of a payload.
type Unpad<'a> = &'a dyn for<'m> Fn(Head, &'m [u8]) -> Result<&'m [u8], ConnectionError>;

/// Checks every length of padding in every payload of up to `len_max` bytes, with and without the flag.
fn check_padding(unpad: Unpad<'_>, len_max: u8) -> Outcome {
    let mut cases = 0;
    for (len, padding, flags) in (0..=len_max)
        .flat_map(|len| (0..=len_max + 2).flat_map(move |padding| [0, PADDED, 0xff].map(|flags| (len, padding, flags))))
    {
        let payload: Vec<u8> = [padding].into_iter().chain(1..=len_max).take(usize::from(len)).collect();
        let head = Head { len: payload.len(), kind: Kind::Data, flags, stream: 1 };
        let expected = if flags & PADDED == 0 {
            Some(&payload[..])
        } else {
            let data = payload.get(1..);
            data.and_then(|data| data.len().checked_sub(usize::from(padding)).and_then(|len| data.get(..len)))
        };
        let found = unpad(head, &payload).ok();
        ensure!(found == expected, "{payload:?} with flags {flags:#x}: {found:?}, expected {expected:?}");
        ensure!(four_bytes(&payload).is_ok() == (payload.len() == 4), "{payload:?} as a number");
        cases += 1;
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{finds, holds};

    fn all(parse: &dyn Fn(&[u8]) -> Option<Head>, unpad: Unpad<'_>) -> Outcome {
        Ok(check_heads(parse)? + check_padding(unpad, 40)?)
    }

    #[test]
    fn http2_frames_hold_their_property() {
        let bounds = "all types with all flags; all pairs of lengths and streams around each bit; every cut; payloads of up to 40 bytes \
             with every length of padding";
        holds(NAME, PROPERTY, bounds, || all(&Head::parse, &without_padding));
    }

    #[test]
    fn a_reserved_bit_that_is_not_ignored_is_found() {
        let whole = |bytes: &[u8]| {
            let mut head = Head::parse(bytes)?;
            head.stream |= u32::from(bytes.get(5)? >> 7) << 31;
            Some(head)
        };
        finds(NAME, "the reserved bit is part of the stream's identifier", || all(&whole, &without_padding));
    }

    #[test]
    fn padding_that_is_as_long_as_its_frame_is_found() {
        fn lenient(head: Head, payload: &[u8]) -> Result<&[u8], ConnectionError> {
            match payload.first() {
                Some(padding) if head.has(PADDED) && usize::from(*padding) == payload.len() => Ok(&[]),
                _ => without_padding(head, payload),
            }
        }
        finds(NAME, "padding may take the place of its own length", || all(&Head::parse, &lenient));
    }
}
