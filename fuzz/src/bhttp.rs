//! `bhttp`: any bytes as a message of Binary HTTP. What is read does not depend on how the bytes arrive, and what is read can be
//! written and read again.
//!
//! Input: a byte that chooses the kind of message, then the message.

use sealway_proto::bhttp::{BhttpError, Event, Field, Framing, Head, Reader, SECTION_LEN_MAX, Writer};

/// A message that was read whole.
#[derive(Debug, Default, PartialEq)]
struct Message {
    heads: Vec<Head>,
    content: Vec<u8>,
    trailers: Vec<Field>,
    framing: Option<Framing>,
}

/// The fuzz target for messages in both framings.
pub fn bhttp(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let is_request = choice % 2 == 0;
    let whole = read(bytes, is_request, usize::MAX);
    let piece_len = usize::from(choice / 2).max(1);
    let pieces = read(bytes, is_request, piece_len);
    assert_eq!(whole.as_ref().ok(), pieces.as_ref().ok(), "pieces of {piece_len} are another message");
    let Ok(message) = whole else { return };
    for framing in [Framing::Known, Framing::Indeterminate] {
        let written = write(&message, framing);
        let again = read(&written, is_request, usize::MAX).expect("a written message is read");
        let framing = Some(framing);
        assert_eq!(again, Message { framing, ..clone(&message) }, "writing changed the message");
    }
}

fn clone(message: &Message) -> Message {
    let Message { heads, content, trailers, framing } = message;
    Message { heads: heads.clone(), content: content.clone(), trailers: trailers.clone(), framing: *framing }
}

fn read(bytes: &[u8], is_request: bool, piece_len: usize) -> Result<Message, BhttpError> {
    let mut reader = if is_request { Reader::request(1 << 20) } else { Reader::answer(1 << 20) };
    let mut message = Message::default();
    for mut piece in bytes.chunks(piece_len) {
        while let Some(event) = reader.read(&mut piece)? {
            match event {
                Event::Interim(head) | Event::Head(head) => message.heads.push(head),
                Event::Content(content) => message.content.extend_from_slice(content),
                Event::Trailers(trailers) => message.trailers = trailers,
            }
        }
        assert!(piece.is_empty(), "bytes were left");
    }
    message.heads.extend(reader.end()?);
    message.framing = Some(reader.framing());
    Ok(message)
}

fn write(message: &Message, framing: Framing) -> Vec<u8> {
    let mut writer = match framing {
        Framing::Known => Writer::known(message.content.len() as u64),
        Framing::Indeterminate => Writer::indeterminate(),
    };
    let mut out = Vec::with_capacity(SECTION_LEN_MAX);
    for head in &message.heads {
        writer.head(&mut out, head).expect("a head that was read can be written");
    }
    writer.content(&mut out, &message.content).expect("the content has the length that was given");
    writer.end(&mut out, &message.trailers).expect("trailers that were read can be written");
    out
}
