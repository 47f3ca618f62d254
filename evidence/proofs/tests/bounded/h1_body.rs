//! Bodies of HTTP/1 messages in chunks: `crates/runtime/src/http/h1/chunk.rs`.

use bytes::BytesMut;
use http::HeaderMap;
use sealway_runtime::http::h1::{ChunkStep, Decoder, Fault, Framing, encode_chunk_head, encode_last_chunk};

use crate::{Outcome, ensure};

/// The name of the harness.
pub(crate) const NAME: &str = "http1-chunks";
/// The property that it checks.
pub(crate) const PROPERTY: &str = "No input panics the decoder. It takes bytes up to the end of the body alone. Every cut of the input, and one \
     byte at a time, give the same body. It accepts and rejects as a decoder written from the grammar does, and an accepted body is \
     written to one that reads the same.";

/// Symbols of a body in chunks.
pub(crate) const SYMBOLS: &[&[u8]] = &[
    b"\r\n", b"\r", b"\n", b" ", b"\t", b";", b":", b"+", b"0", b"1", b"2", b"a", b"F", b"g", b"\0", b"\x7f", b"\x80",
];

/// The part of a body that a decoder returned for an input.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BodyRead {
    pub(crate) body: Vec<u8>,
    /// Set if the body has ended.
    pub(crate) is_over: bool,
    pub(crate) trailers: HeaderMap,
    /// Number of bytes that were not taken.
    pub(crate) left: usize,
}

/// A decoder under test: decodes a body that arrives in parts.
pub(crate) type Decode<'a> = &'a dyn Fn(&[&[u8]]) -> Result<BodyRead, Fault>;

/// Decodes a body in chunks.
pub(crate) fn decode(parts: &[&[u8]]) -> Result<BodyRead, Fault> {
    let (mut decoder, mut buffer, mut decoded) = (Decoder::new(Framing::Chunked), BytesMut::new(), BodyRead::default());
    for part in parts {
        buffer.extend_from_slice(part);
        while !decoded.is_over {
            match decoder.decode(&mut buffer)? {
                ChunkStep::Data(data) => decoded.body.extend_from_slice(&data),
                ChunkStep::End(trailers) => {
                    decoded.trailers = trailers.unwrap_or_default();
                    decoded.is_over = true;
                }
                ChunkStep::More => break,
            }
        }
    }
    decoded.left = buffer.len();
    Ok(decoded)
}

pub(crate) fn check(decode: Decode<'_>, input: &[u8]) -> Outcome {
    let shown = input.escape_ascii();
    let whole = decode(&[input]);
    for cut in 1..input.len() {
        let (early, late) = input.split_at(cut);
        let parts = decode(&[early, late]);
        ensure!(
            parts.is_err() == whole.is_err() && parts.ok() == whole.clone().ok(),
            "input {shown}: {whole:?}, but something else if it is cut at {cut}"
        );
    }
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    ensure!(decode(&bytes).ok() == whole.clone().ok(), "input {shown}: {whole:?}, but something else byte by byte");
    match (reference(input), &whole) {
        (Reference::Whole(body, left), Ok(decoded)) => ensure!(
            decoded.is_over && decoded.body == body && decoded.left == left,
            "input {shown}: {decoded:?}; by the grammar the body is {} and {left} bytes follow",
            body.escape_ascii()
        ),
        (Reference::Part, Ok(decoded)) => {
            ensure!(!decoded.is_over, "input {shown}: the body is not over, but the decoder ends it");
        }
        (Reference::Invalid, Err(_)) => {}
        (reference, _) => ensure!(false, "input {shown}: {whole:?}; by the grammar {reference:?}"),
    }
    if let Ok(decoded) = &whole
        && decoded.is_over
    {
        let mut written = BytesMut::new();
        if !decoded.body.is_empty() {
            encode_chunk_head(&mut written, decoded.body.len());
            written.extend_from_slice(&decoded.body);
            written.extend_from_slice(b"\r\n");
        }
        encode_last_chunk(&mut written, Some(&decoded.trailers));
        let again = decode(&[&written]);
        let expected = BodyRead { left: 0, ..decoded.clone() };
        ensure!(again.as_ref() == Ok(&expected), "input {shown}: {expected:?} is written and read as {again:?}");
    }
    Ok(1)
}

/// The verdict of the grammar.
#[derive(Debug)]
enum Reference {
    /// A body, and the number of bytes after it.
    Whole(Vec<u8>, usize),
    /// The beginning of a body.
    Part,
    Invalid,
}

/// Reads a body by RFC 9112 section 7.1, strictly: no blank around a size except before an extension, no bare CR or LF.
fn reference(input: &[u8]) -> Reference {
    let (mut left, mut body) = (input, Vec::new());
    loop {
        let line = match line(left) {
            Line::Part => return Reference::Part,
            Line::Invalid => return Reference::Invalid,
            Line::Whole(line, after) => {
                left = after;
                line
            }
        };
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (size, extension) = line.split_at(digits);
        let size = std::str::from_utf8(size).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let text: Vec<u8> = extension.iter().copied().skip_while(|byte| matches!(byte, b' ' | b'\t')).collect();
        let is_clean = !extension.iter().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127));
        let Some(size) = size.filter(|_| extension.is_empty() || (text.starts_with(b";") && is_clean)) else {
            return Reference::Invalid;
        };
        if size == 0 {
            break;
        }
        let Some((data, after)) = left.split_at_checked(size) else { return Reference::Part };
        body.extend_from_slice(data);
        left = match after {
            [b'\r', b'\n', after @ ..] => after,
            [] | [b'\r'] => return Reference::Part,
            _ => return Reference::Invalid,
        };
    }
    let mut fields = Vec::new();
    loop {
        match line(left) {
            Line::Whole([], after) => {
                // Fields are judged with the blank line after them.
                let is_field = |line: &&[u8]| {
                    let colon = line.iter().position(|byte| *byte == b':').unwrap_or_default();
                    let (name, value) = line.split_at(colon);
                    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'+';
                    colon > 0
                        && name.iter().all(is_name)
                        && !value.iter().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127))
                };
                let is_valid = fields.iter().all(is_field);
                return if is_valid { Reference::Whole(body, after.len()) } else { Reference::Invalid };
            }
            Line::Whole(line, after) => {
                fields.push(line);
                left = after;
            }
            Line::Part => return Reference::Part,
            Line::Invalid => return Reference::Invalid,
        }
    }
}

enum Line<'a> {
    Whole(&'a [u8], &'a [u8]),
    Part,
    Invalid,
}

/// Takes a line that ends in CRLF.
fn line(input: &[u8]) -> Line<'_> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return Line::Part };
    let (line, after) = input.split_at(end);
    match line.strip_suffix(b"\r") {
        Some(line) => Line::Whole(line, after.get(1..).unwrap_or_default()),
        None => Line::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound;
    use crate::cases::texts;
    use crate::report::{finds, holds};

    /// Enumerates symbols at the beginning, after the data of a chunk, in an extension, and in trailers.
    fn bodies(decode: Decode<'_>) -> Outcome {
        let mut cases = 0;
        for before in [&b""[..], b"1\r\na", b"0;", b"2\r\nab\r\n0\r\n", b"0\r\na:b\r\n"] {
            cases += texts(SYMBOLS, bound(3, 4), |text| {
                check(decode, &[before, text].concat())?;
                check(decode, &[before, text, b"\r\n\r\nX"].concat())
            })?;
        }
        Ok(cases)
    }

    #[test]
    fn chunks_hold_their_property() {
        let bounds = format!(
            "5 places; sequences of up to {} of {} symbols, alone and before an end; every cut, and byte by byte",
            bound(3, 4),
            SYMBOLS.len()
        );
        holds(NAME, PROPERTY, &bounds, || bodies(&decode));
    }

    #[test]
    fn a_chunk_that_ends_in_a_bare_lf_is_found() {
        let lenient = |parts: &[&[u8]]| {
            let text = parts.concat();
            let at = text.windows(3).position(|three| three == b"1\r\n").map(|at| at + 4);
            match at.filter(|at| text.get(*at) == Some(&b'\n')) {
                Some(at) => decode(&[&text[..at], b"\r", &text[at..]]),
                None => decode(parts),
            }
        };
        finds(NAME, "the data of a chunk may end in a bare LF", || bodies(&lenient));
    }

    #[test]
    fn a_decoder_that_forgets_at_a_cut_is_found() {
        let forgetful = |parts: &[&[u8]]| match parts {
            [early, late] if early.ends_with(b"\r") => decode(&[&early[..early.len() - 1], late]),
            parts => decode(parts),
        };
        finds(NAME, "a CR at the end of a read is dropped", || bodies(&forgetful));
    }
}
