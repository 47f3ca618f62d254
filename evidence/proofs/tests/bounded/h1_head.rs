//! Heads of HTTP/1 messages: `crates/runtime/src/http/h1/head.rs`.

use bytes::BytesMut;
use http::header::{HOST, HeaderMap, HeaderValue};
use http::{Method, StatusCode, Version};
use sealway_runtime::http::h1::{
    Fault, Framing, HeadLimits, encode_request, encode_response, parse_request, parse_response,
};

use crate::{Outcome, ensure};

const LIMITS: HeadLimits = HeadLimits { bytes_max: 512, fields_max: 8 };

/// The name of the harness.
pub(crate) const REQUESTS: &str = "http1-request-head";
/// The name of the harness of responses.
pub(crate) const RESPONSES: &str = "http1-response-head";
/// The property that both check.
pub(crate) const PROPERTY: &str = "No input panics the parser. It takes bytes up to the end of the head alone. Every cut of the input gives \
     the same head. An accepted head has no control character, one framing at most, and encodes to a head that parses to the same.";

/// Symbols of a start line: separators, ends of lines, digits, a sign, letters, a high byte.
pub(crate) const START_SYMBOLS: &[&[u8]] = &[
    b"\r\n",
    b"\r",
    b"\n",
    b" ",
    b"\t",
    b"\0",
    b"GET",
    b"/",
    b"*",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"204",
    b"+",
    b"9",
    b":",
    b"h",
    b"\x80",
];
pub(crate) const FIELD_SYMBOLS: &[&[u8]] = &[
    b"\r\n",
    b"\r",
    b"\n",
    b" ",
    b"\t",
    b"\0",
    b":",
    b",",
    b"+",
    b"-",
    b"0",
    b"5",
    b"a",
    b"Host",
    b"Content-Length",
    b"Transfer-Encoding",
    b"chunked",
    b"Connection",
    b"\x80",
];
/// Symbols of the values of fields that frame a message.
pub(crate) const FRAMING_SYMBOLS: &[&[u8]] = &[
    b"Content-Length:",
    b"Transfer-Encoding:",
    b"transfer-encoding:chunked",
    b"0",
    b"5",
    b"+",
    b" ",
    b"\t",
    b",",
    b"chunked",
    b"gzip",
    b"\r\n",
];

/// A head in the form in which requests and responses are compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    /// Method and target, or the status.
    pub(crate) start: String,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    /// The framing of the body.
    pub(crate) framing: Framing,
    /// Set if the connection may be reused.
    pub(crate) keep_alive: bool,
}

/// A parser under test: takes a head from the front of a buffer.
pub(crate) type Parse<'a> = &'a dyn Fn(&mut BytesMut) -> Result<Option<Head>, Fault>;
pub(crate) type Encode<'a> = &'a dyn Fn(&Head) -> BytesMut;

pub(crate) fn request(buffer: &mut BytesMut) -> Result<Option<Head>, Fault> {
    let head = parse_request(buffer, LIMITS)?;
    Ok(head.map(|head| Head {
        start: format!("{} {}", head.method, head.uri),
        version: head.version,
        headers: head.headers,
        framing: head.framing,
        keep_alive: head.keep_alive,
    }))
}

pub(crate) fn request_bytes(head: &Head) -> BytesMut {
    let mut out = BytesMut::new();
    let (method, target) = head.start.split_once(' ').unwrap_or_default();
    let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
    encode_request(&mut out, &method, target, &head.headers, head.framing);
    out
}

/// Parses a response to a GET.
pub(crate) fn response(buffer: &mut BytesMut) -> Result<Option<Head>, Fault> {
    let head = parse_response(buffer, &Method::GET, LIMITS)?;
    Ok(head.map(|head| Head {
        start: head.status.as_str().to_owned(),
        version: head.version,
        headers: head.headers,
        framing: head.framing,
        keep_alive: head.keep_alive,
    }))
}

pub(crate) fn response_bytes(head: &Head) -> BytesMut {
    let mut out = BytesMut::new();
    let status = StatusCode::from_bytes(head.start.as_bytes()).unwrap_or_default();
    encode_response(&mut out, status, &head.headers, head.framing);
    out
}

/// Checks one input, and all its cuts from `cut_from` on.
pub(crate) fn check(parse: Parse<'_>, encode: Encode<'_>, input: &[u8], cut_from: usize) -> Outcome {
    let shown = input.escape_ascii();
    let mut rest = BytesMut::from(input);
    let parsed = parse(&mut rest);
    ensure!(input.ends_with(&rest), "input {shown}: the rest is no end of the input");
    for cut in cut_from..input.len() {
        let (early, late) = input.split_at(cut);
        let mut buffer = BytesMut::from(early);
        let mut outcome = parse(&mut buffer);
        buffer.extend_from_slice(late);
        if outcome == Ok(None) {
            outcome = parse(&mut buffer);
        }
        match (&parsed, &outcome) {
            (Ok(Some(_)), Ok(Some(_))) => {
                ensure!(parsed == outcome && rest == buffer, "input {shown}: another head if it is cut at {cut}")
            }
            (Ok(None), Ok(None)) | (Err(_), Err(_)) => {}
            _ => ensure!(false, "input {shown}: {parsed:?}, but {outcome:?} if it is cut at {cut}"),
        }
    }
    let Ok(Some(head)) = parsed else { return Ok(1) };
    let taken = input.strip_suffix(&rest[..]).unwrap_or_default();
    is_one_reading(taken, &head)?;
    reads_again(parse, encode, &head, &shown.to_string())?;
    Ok(1)
}

/// Compares an accepted head with the text that it was read from, line by line.
fn is_one_reading(taken: &[u8], head: &Head) -> Result<(), crate::Counterexample> {
    let shown = taken.escape_ascii();
    let text = taken.strip_prefix(b"\r\n").unwrap_or(taken);
    let text = text.strip_suffix(b"\r\n\r\n");
    ensure!(text.is_some(), "head {shown}: it does not end in a blank line");
    let text = text.unwrap_or_default();
    let mut lines = Vec::new();
    let mut left = text;
    while let Some(at) = left.windows(2).position(|two| two == b"\r\n") {
        let (line, after) = left.split_at(at);
        lines.push(line);
        left = after.get(2..).unwrap_or_default();
    }
    lines.push(left);
    ensure!(
        !lines.iter().any(|line| line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0 | 0x7f))),
        "head {shown}: accepted with a control character"
    );
    ensure!(
        !lines.iter().skip(1).any(|line| line.is_empty() || line.starts_with(b" ") || line.starts_with(b"\t")),
        "head {shown}: accepted with a blank or folded line"
    );
    let fields: Vec<(Vec<u8>, &[u8])> = lines
        .iter()
        .skip(1)
        .map(|line| {
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            let (name, value) = line.split_at(colon);
            (name.to_ascii_lowercase(), value.get(1..).unwrap_or_default().trim_ascii())
        })
        .collect();
    let values =
        |name: &[u8]| fields.iter().filter(|(other, _)| other == name).map(|(_, value)| *value).collect::<Vec<_>>();
    let (lengths, codings) = (values(b"content-length"), values(b"transfer-encoding"));
    let digits = |value: &[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let expected = match (&lengths[..], &codings[..]) {
        ([], []) => None,
        ([length], []) if digits(length) => std::str::from_utf8(length).ok().and_then(|length| length.parse().ok()),
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") && head.version == Version::HTTP_11 => Some(u64::MAX),
        _ => {
            ensure!(false, "head {shown}: accepted with an ambiguous framing");
            None
        }
    };
    let is_right = match head.framing {
        Framing::Length(length) => expected == Some(length),
        Framing::Chunked => expected == Some(u64::MAX) && lengths.is_empty(),
        Framing::Close => expected.is_none(),
        // A status may have no body whatever its fields say.
        Framing::None => expected.is_none() || matches!(&head.start[..], "204" | "304") || head.start.starts_with('1'),
    };
    ensure!(is_right, "head {shown}: {:?} is not its framing", head.framing);
    Ok(())
}

/// Encodes a head and parses the result.
fn reads_again(parse: Parse<'_>, encode: Encode<'_>, head: &Head, shown: &str) -> Result<(), crate::Counterexample> {
    let mut head = head.clone();
    // A head is written as HTTP/1.1, which needs a host.
    if head.version == Version::HTTP_10 {
        if head.start.contains(' ') && !head.headers.contains_key(HOST) {
            head.headers.insert(HOST, HeaderValue::from_static("h"));
        }
        head.version = Version::HTTP_11;
    }
    let mut written = encode(&head);
    written.extend_from_slice(b"NEXT");
    let again = parse(&mut written);
    let is_same = again.as_ref().ok().and_then(Option::as_ref).is_some_and(|again| {
        let keeps = again.keep_alive == head.keep_alive || !head.keep_alive;
        (&again.start, &again.headers, again.framing) == (&head.start, &head.headers, head.framing) && keeps
    });
    ensure!(is_same, "input {shown}: {head:?} is written and read as {again:?}");
    ensure!(&written[..] == b"NEXT", "input {shown}: {} bytes are left of what was written", written.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::texts;
    use crate::report::{finds, holds};
    use crate::{bound, is_long};

    /// Enumerates symbols at each place of a message: the whole of it, the start line, its fields.
    fn requests(parse: Parse<'_>, encode: Encode<'_>) -> Outcome {
        let (start, fields, framing) = bound((3, 3, 4), (4, 4, 5));
        let cases = texts(START_SYMBOLS, start, |text| check(parse, encode, text, 0))?
            + around(parse, encode, START_SYMBOLS, start, b"", b"\r\nHost:h\r\n\r\nX")?
            + around(parse, encode, FIELD_SYMBOLS, fields, b"GET / HTTP/1.1\r\nHost:h\r\n", b"\r\n\r\nX")?
            + around(parse, encode, FIELD_SYMBOLS, fields, b"GET / HTTP/1.0\r\n", b"\r\n\r\nX")?
            + around(parse, encode, FRAMING_SYMBOLS, framing, b"POST / HTTP/1.1\r\nHost:h\r\n", b"\r\n\r\nX")?;
        Ok(cases)
    }

    fn responses(parse: Parse<'_>, encode: Encode<'_>) -> Outcome {
        let (start, fields, framing) = bound((3, 3, 4), (4, 4, 5));
        let cases = texts(START_SYMBOLS, start, |text| check(parse, encode, text, 0))?
            + around(parse, encode, START_SYMBOLS, start, b"HTTP/1.1 ", b"\r\n\r\nX")?
            + around(parse, encode, FIELD_SYMBOLS, fields, b"HTTP/1.1 200 OK\r\n", b"\r\n\r\nX")?
            + around(parse, encode, FRAMING_SYMBOLS, framing, b"HTTP/1.1 200\r\n", b"\r\n\r\nX")?;
        Ok(cases)
    }

    fn around(
        parse: Parse<'_>,
        encode: Encode<'_>,
        symbols: &[&[u8]],
        len_max: usize,
        before: &[u8],
        behind: &[u8],
    ) -> Outcome {
        texts(symbols, len_max, |text| check(parse, encode, &[before, text, behind].concat(), before.len()))
    }

    fn bounds(places: usize) -> String {
        let (start, fields, framing) = bound((3, 3, 4), (4, 4, 5));
        format!(
            "{places} places; sequences of up to {start} of {} symbols in the start line, {fields} of {} in fields, {framing} of {} in \
             framing fields; every cut",
            START_SYMBOLS.len(),
            FIELD_SYMBOLS.len(),
            FRAMING_SYMBOLS.len()
        )
    }

    #[test]
    fn request_heads_hold_their_property() {
        holds(REQUESTS, PROPERTY, &bounds(5), || requests(&request, &request_bytes));
    }

    #[test]
    fn response_heads_hold_their_property() {
        holds(RESPONSES, PROPERTY, &bounds(4), || responses(&response, &response_bytes));
    }

    #[test]
    fn a_signed_length_is_found() {
        let lenient = |buffer: &mut BytesMut| {
            let lenient: Vec<u8> = buffer.iter().map(|byte| if *byte == b'+' { b'0' } else { *byte }).collect();
            let mut copy = BytesMut::from(&lenient[..]);
            let parsed = request(&mut copy);
            let _ = buffer.split_to(buffer.len() - copy.len());
            parsed
        };
        finds(REQUESTS, "Content-Length with a sign is read as a number", || requests(&lenient, &request_bytes));
    }

    #[test]
    fn a_parser_that_takes_a_byte_too_many_is_found() {
        let greedy = |buffer: &mut BytesMut| {
            let parsed = response(buffer);
            if matches!(parsed, Ok(Some(_))) && !buffer.is_empty() {
                let _ = buffer.split_to(1);
            }
            parsed
        };
        finds(RESPONSES, "the byte after the head is taken too", || responses(&greedy, &response_bytes));
    }

    #[test]
    fn the_long_form_has_larger_bounds() {
        assert!(is_long() || bound(3, 4) == 3);
    }
}
