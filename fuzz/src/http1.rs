//! `http1`: heads and bodies of HTTP/1 as a connection parses them. An accepted message has only one reading.
//!
//! Input: a request or a response, byte for byte, with the bytes after it.

use bytes::BytesMut as Buffer;
use http::{HeaderMap, Method};
use sealway_runtime::http::h1::{
    ChunkStep, Decoder, Fault, Framing, HeadLimits, RequestHead, ResponseHead, encode_request, encode_response,
    parse_request, parse_response,
};

const LIMITS: HeadLimits = HeadLimits { bytes_max: 2048, fields_max: 32 };

/// The fuzz target for HTTP/1 messages.
pub fn http1(data: &[u8]) {
    request(data);
    for method in [Method::GET, Method::HEAD, Method::CONNECT] {
        response(data, &method);
    }
    for framing in [Framing::Chunked, Framing::Length(data.len() as u64 / 2), Framing::Close] {
        body(data, framing);
    }
}

fn request(data: &[u8]) {
    let mut rest = Buffer::from(data);
    let parsed = parse_request(&mut rest, LIMITS);
    // Wherever it is cut in two, the request is the same, or it is rejected with the same error once all of it has arrived.
    for cut in cuts(data) {
        let mut buffer = Buffer::from(&data[..cut]);
        let early = parse_request(&mut buffer, LIMITS);
        let late = match early {
            Ok(None) => {
                buffer.extend_from_slice(&data[cut..]);
                parse_request(&mut buffer, LIMITS)
            }
            Ok(Some(head)) => {
                buffer.extend_from_slice(&data[cut..]);
                Ok(Some(head))
            }
            Err(fault) => Err(fault),
        };
        match (&parsed, &late) {
            (Ok(Some(whole)), Ok(Some(cut))) => {
                assert_eq!(of_request(whole), of_request(cut));
                assert_eq!(rest, buffer);
            }
            (Ok(None), Ok(None)) | (Err(_), Err(_)) => {}
            other => panic!("cut at {cut}: {other:?}"),
        }
    }
    let Ok(Some(head)) = parsed else { return };
    is_plain(&head.headers);
    let lengths = head.headers.get_all("content-length").iter().count();
    let codings = head.headers.get_all("transfer-encoding").iter().count();
    match head.framing {
        Framing::Length(_) => assert_eq!((lengths, codings), (1, 0)),
        Framing::Chunked | Framing::None => assert_eq!((lengths, codings), (0, 0)),
        Framing::Close => panic!("a request until the end of the connection"),
    }
    assert!(head.headers.get_all("host").iter().count() <= 1);
    let mut again = Buffer::new();
    let target = head.uri.to_string();
    encode_request(&mut again, &head.method, &target, &head.headers, head.framing);
    let reread = parse_request(&mut again, HeadLimits { bytes_max: 8192, ..LIMITS });
    // HTTP/1.0 permits a missing Host; the output is always HTTP/1.1.
    if head.headers.contains_key("host") {
        let reread = reread.expect("what was written is taken").expect("all of it");
        assert_eq!((reread.method, reread.uri, reread.framing), (head.method, head.uri, head.framing));
        assert!(again.is_empty());
    }
}

type HeadView<'a> = (&'a Method, String, &'a HeaderMap, Framing, bool, bool);

fn of_request(head: &RequestHead) -> HeadView<'_> {
    let RequestHead { method, uri, headers, framing, keep_alive, expects_continue, .. } = head;
    (method, uri.to_string(), headers, *framing, *keep_alive, *expects_continue)
}

fn response(data: &[u8], method: &Method) {
    let mut rest = Buffer::from(data);
    let Ok(Some(head)) = parse_response(&mut rest, method, LIMITS) else { return };
    is_plain(&head.headers);
    let mut again = Buffer::new();
    encode_response(&mut again, head.status, &head.headers, head.framing);
    let reread = parse_response(&mut again, method, HeadLimits { bytes_max: 8192, ..LIMITS });
    let ResponseHead { status, framing, .. } = reread.expect("what was written is taken").expect("all of it");
    assert_eq!((status, framing), (head.status, head.framing));
    assert!(again.is_empty());
}

/// Checks that no field contains a line break.
fn is_plain(headers: &HeaderMap) {
    for (name, value) in headers {
        assert!(!name.as_str().is_empty());
        assert!(!value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        assert_eq!(value.as_bytes(), value.as_bytes().trim_ascii());
    }
}

fn body(data: &[u8], framing: Framing) {
    let whole = decode(&[data], framing);
    for cut in cuts(data) {
        let parts = decode(&[&data[..cut], &data[cut..]], framing);
        assert_eq!(whole.is_ok(), parts.is_ok(), "cut at {cut}");
        if let (Ok(whole), Ok(parts)) = (&whole, &parts) {
            assert_eq!(whole, parts, "cut at {cut}");
        }
    }
}

/// Returns the body, whether it has ended, and the number of bytes left over.
fn decode(parts: &[&[u8]], framing: Framing) -> Result<(Vec<u8>, bool, usize), Fault> {
    let (mut decoder, mut buffer, mut body) = (Decoder::new(framing), Buffer::new(), Vec::new());
    let mut has_ended = false;
    for part in parts {
        buffer.extend_from_slice(part);
        while !has_ended {
            match decoder.decode(&mut buffer)? {
                ChunkStep::Data(data) => body.extend_from_slice(&data),
                ChunkStep::End(_) => has_ended = true,
                ChunkStep::More => break,
            }
        }
    }
    assert!(body.len() <= parts.iter().map(|part| part.len()).sum());
    assert_eq!(has_ended, decoder.is_done());
    Ok((body, has_ended, buffer.len()))
}

/// Returns all positions of a short input, and some of a long one.
fn cuts(data: &[u8]) -> impl Iterator<Item = usize> {
    (0..=data.len()).step_by((data.len() / 64).max(1))
}
