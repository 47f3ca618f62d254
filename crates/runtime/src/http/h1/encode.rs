//! Heads as they are written: a start line and header fields (RFC 9112 sections 3 to 5).

use std::cell::RefCell;

use bytes::BytesMut;
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode};

use super::Framing;

thread_local! {
    /// The buffer in which a head is put together. Its many small pieces cost less there than in a `BytesMut`.
    static HEAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Appends to `out` what `write` appends to an empty buffer.
pub(super) fn assemble(out: &mut BytesMut, write: impl FnOnce(&mut Vec<u8>)) {
    HEAD.with_borrow_mut(|head| {
        head.clear();
        write(head);
        out.extend_from_slice(head);
    });
}

/// Writes a request's head. Framing fields are written as `framing` says, in place of the map's own; `Connection` and `Host`
/// are the map's.
pub fn encode_request(out: &mut BytesMut, method: &Method, target: &str, headers: &HeaderMap, framing: Framing) {
    assemble(out, |head| {
        head.extend_from_slice(method.as_str().as_bytes());
        head.push(b' ');
        head.extend_from_slice(target.as_bytes());
        head.extend_from_slice(b" HTTP/1.1\r\n");
        encode_fields(head, headers, framing);
    });
}

/// Writes a response's head, as [`encode_request`] does. With [`Framing::None`] a `Content-Length` of the map stays: it states
/// the length of the body that a HEAD does not get.
pub fn encode_response(out: &mut BytesMut, status: StatusCode, headers: &HeaderMap, framing: Framing) {
    assemble(out, |head| {
        head.extend_from_slice(b"HTTP/1.1 ");
        head.extend_from_slice(status.as_str().as_bytes());
        head.push(b' ');
        head.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
        head.extend_from_slice(b"\r\n");
        encode_fields(head, headers, framing);
    });
}

fn encode_fields(head: &mut Vec<u8>, headers: &HeaderMap, framing: Framing) {
    for (name, value) in headers {
        let is_framing =
            name == header::TRANSFER_ENCODING || (name == header::CONTENT_LENGTH && framing != Framing::None);
        if !is_framing {
            encode_field(head, name, value.as_bytes());
        }
    }
    match framing {
        Framing::None | Framing::Close => {}
        Framing::Length(len) => encode_field(head, &header::CONTENT_LENGTH, len.to_string().as_bytes()),
        Framing::Chunked => encode_field(head, &header::TRANSFER_ENCODING, b"chunked"),
    }
    head.extend_from_slice(b"\r\n");
}

/// Appends a field line, with its CRLF.
pub(super) fn encode_field(head: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    head.extend_from_slice(name.as_str().as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}
