//! `hpack-decode`, `hpack-round-trip`: field blocks of HTTP/2.
//!
//! Input of the first: the size of the table in units of 16 bytes, then blocks, each behind its length in one byte. Input of the
//! second: text. A line `name: value` is a field, `!name: value` one that is sensitive, `=N` a setting of the table's size, and an
//! empty line ends a block; names that begin with a colon are pseudo-headers.

use bytes::BytesMut;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use sealway_runtime::http::h2::hpack::{Decoder, Encoder, FIELD_OVERHEAD, Field, Name, Scheme};

/// Size from which on the peer's table does not grow.
const TABLE_MAX: usize = 4096;

/// The fuzz target for blocks of any bytes.
pub fn hpack_decode(data: &[u8]) {
    let Some((size, mut rest)) = data.split_first() else { return };
    let table_max = usize::from(*size) * 16;
    let mut decoder = Decoder::new(table_max);
    // What a peer has sent, decoded by a decoder that has seen the same.
    let mut twin = Decoder::new(table_max);
    while let Some((len, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(*len)));
        rest = behind;
        let (mut fields, mut twins) = (Vec::new(), Vec::new());
        let decoded = decoder.decode(block, &mut |field, size| fields.push((field, size)));
        assert_eq!(twin.decode(block, &mut |field, size| twins.push((field, size))), decoded);
        assert_eq!(fields, twins);
        // Each field takes a byte at least.
        assert!(fields.len() <= block.len());
        for (field, size) in &fields {
            check(field, *size, table_max);
        }
        if decoded.is_err() {
            return;
        }
    }
}

fn check(field: &Field, size: usize, table_max: usize) {
    // A literal is no longer than its block, 8/5 for Huffman's code; a field of a table no longer than the table.
    assert!(size >= FIELD_OVERHEAD && size <= FIELD_OVERHEAD + (255 * 8 / 5 * 2).max(table_max), "{size}");
    let is_line = |bytes: &[u8]| !bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    match field {
        Field::Header(name, value) => {
            assert_eq!(size, name.as_str().len() + value.len() + FIELD_OVERHEAD);
            assert!(!name.as_str().bytes().any(|byte| byte.is_ascii_uppercase() || byte == b':'));
            assert!(is_line(value.as_bytes()));
        }
        Field::Authority(text) | Field::Path(text) | Field::Protocol(text) | Field::Scheme(Scheme::Other(text)) => {
            assert!(text.iter().all(|byte| *byte > b' ' && *byte != 0x7f));
        }
        Field::Malformed(Name::Header(name), _) => assert!(!name.as_str().is_empty()),
        Field::Scheme(_) | Field::Method(_) | Field::Status(_) | Field::Malformed(..) => {}
    }
}

/// The fuzz target for what the encoder writes.
pub fn hpack_round_trip(data: &[u8]) {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(TABLE_MAX));
    let mut fields = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        if line.is_empty() {
            round_trip(&mut encoder, &mut decoder, &fields);
            fields.clear();
        } else if let Some(size) = line.strip_prefix(b"=") {
            // A setting takes effect between blocks.
            let size = std::str::from_utf8(size).ok().and_then(|text| text.parse::<u16>().ok());
            if let (Some(size), true) = (size, fields.is_empty()) {
                encoder.set_peer_table_max(u32::from(size));
                decoder.set_table_max(usize::from(size));
            }
        } else {
            fields.extend(field(line));
        }
    }
    round_trip(&mut encoder, &mut decoder, &fields);
}

fn field(line: &[u8]) -> Option<Field> {
    let (line, is_sensitive) = match line.strip_prefix(b"!") {
        Some(line) => (line, true),
        None => (line, false),
    };
    let at = line.windows(2).position(|pair| pair == b": ")?;
    let (name, value) = (&line[..at], &line[at + 2..]);
    let is_word = value.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    Some(match name {
        b":method" => Field::Method(Method::from_bytes(value).ok()?),
        b":status" => Field::Status(StatusCode::from_bytes(value).ok()?),
        b":scheme" => match value {
            b"http" => Field::Scheme(Scheme::Http),
            b"https" => Field::Scheme(Scheme::Https),
            _ => Field::Scheme(Scheme::Other(is_word.then(|| value.to_vec())?.into())),
        },
        b":authority" => Field::Authority(is_word.then(|| value.to_vec())?.into()),
        b":path" => Field::Path(is_word.then(|| value.to_vec())?.into()),
        b":protocol" => Field::Protocol(is_word.then(|| value.to_vec())?.into()),
        _ => {
            let name = HeaderName::from_lowercase(name).ok()?;
            // A blank at an end of a value is malformed in HTTP/2; http's type allows it.
            let mut value = HeaderValue::from_bytes(value.trim_ascii()).ok()?;
            value.set_sensitive(is_sensitive);
            Field::Header(name, value)
        }
    })
}

fn round_trip(encoder: &mut Encoder, decoder: &mut Decoder, fields: &[Field]) {
    let mut out = BytesMut::new();
    let mut block = encoder.begin(&mut out);
    for field in fields {
        match field {
            Field::Method(method) => block.method(method),
            Field::Scheme(scheme) => block.scheme(scheme),
            Field::Authority(text) => block.authority(text),
            Field::Path(text) => block.path(text),
            Field::Protocol(text) => block.protocol(text),
            Field::Status(status) => block.status(*status),
            Field::Header(name, value) => block.header(name, value),
            Field::Malformed(..) => unreachable!("none is made"),
        }
    }
    let mut decoded = Vec::new();
    decoder.decode(&out, &mut |field, _| decoded.push(field)).expect("what was written is read");
    assert_eq!(decoded, fields);
    for pair in decoded.iter().zip(fields) {
        if let (Field::Header(_, decoded), Field::Header(_, value)) = pair {
            assert!(decoded.is_sensitive() || !value.is_sensitive(), "a sensitive value is not marked any more");
        }
    }
}
