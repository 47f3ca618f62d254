//! Binary HTTP: the examples of RFC 9292, cuts and pieces, every rule, and another implementation as an oracle.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod examples;
mod oracle;
mod rules;

use sealway_proto::bhttp::{BhttpError, Control, Event, Field, Framing, Head, Reader, Writer};

/// A message that was read whole.
#[derive(Debug, Default, PartialEq)]
struct Message {
    interims: Vec<Head>,
    head: Option<Head>,
    content: Vec<u8>,
    trailers: Vec<Field>,
}

/// Most content in these tests.
const CONTENT_MAX: u64 = 1024;

/// Reads a message that arrives in pieces of this length.
fn read(bytes: &[u8], is_request: bool, piece_len: usize) -> Result<Message, BhttpError> {
    let mut reader = if is_request { Reader::request(CONTENT_MAX) } else { Reader::answer(CONTENT_MAX) };
    let mut message = Message::default();
    for mut piece in bytes.chunks(piece_len) {
        while let Some(event) = reader.read(&mut piece)? {
            match event {
                Event::Interim(head) => message.interims.push(head),
                Event::Head(head) => assert!(message.head.replace(head).is_none(), "two heads"),
                Event::Content(content) => message.content.extend_from_slice(content),
                Event::Trailers(trailers) => message.trailers = trailers,
            }
        }
        assert!(piece.is_empty(), "bytes were left");
    }
    if let Some(head) = reader.end()? {
        assert!(message.head.replace(head).is_none(), "two heads");
    }
    Ok(message)
}

/// Reads a message whole, and in pieces of one byte: the results must be the same.
fn read_both(bytes: &[u8], is_request: bool) -> Result<Message, BhttpError> {
    let whole = read(bytes, is_request, usize::MAX);
    let pieces = read(bytes, is_request, 1);
    match (&whole, &pieces) {
        (Ok(_), _) | (_, Ok(_)) => assert_eq!(whole, pieces),
        // A length past the end of what is there is found in both, the byte at which it is found may differ.
        (Err(_), Err(_)) => {}
    }
    whole
}

fn write(message: &Message, framing: Framing) -> Vec<u8> {
    let mut writer = match framing {
        Framing::Known => Writer::known(message.content.len() as u64),
        Framing::Indeterminate => Writer::indeterminate(),
    };
    let mut out = Vec::new();
    for head in message.interims.iter().chain(&message.head) {
        writer.head(&mut out, head).expect("the head was read");
    }
    writer.content(&mut out, &message.content).expect("the content is of the length that was given");
    writer.end(&mut out, &message.trailers).expect("the trailers were read");
    out
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn fields(pairs: &[(&str, &str)]) -> Vec<Field> {
    pairs.iter().map(|(name, value)| Field::new(name, *value)).collect()
}

fn request(method: &str, scheme: &str, authority: &str, path: &str) -> Control {
    let [method, scheme, authority, path] = [method, scheme, authority, path].map(str::to_owned);
    Control::Request { method, scheme, authority, path }
}
