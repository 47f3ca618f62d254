//! Parser of the head of an HTTP/1.1 answer.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memchr;

use super::answer::malformed;
use crate::record::Failure;
use crate::target::server_timing;

/// Length of a body as the head gives it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    Chunked,
    /// Body up to the connection's end.
    Rest,
}

/// Fields of a head that the client uses.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) body: Body,
    pub(super) keeps: bool,
    pub(super) server: Option<Duration>,
}

impl Head {
    /// Parses a head without the empty line at its end. As strict as RFC 9112 requires of a client, and stricter where two
    /// parsers might disagree: a length beside a transfer encoding, two different lengths, a space before a colon, a folded
    /// line.
    pub(super) fn parse(bytes: &[u8]) -> Result<Head, Failure> {
        let (line, mut rest) = split_line(bytes)?;
        let (status, is_1_0) = status_line(line)?;
        let mut head = Head { status, body: Body::Rest, keeps: !is_1_0, server: None };
        let (mut length, mut chunked, mut coded) = (None, false, false);
        while !rest.is_empty() {
            let (line, after) = split_line(rest)?;
            rest = after;
            let (name, value) = field(line)?;
            match name.len() {
                14 if name.eq_ignore_ascii_case(b"content-length") => {
                    let len = content_length(value)?;
                    if length.replace(len).is_some_and(|known| known != len) {
                        return Err(malformed("the response has two different Content-Length values"));
                    }
                }
                17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                    coded = true;
                    chunked = last_token(value).eq_ignore_ascii_case(b"chunked");
                }
                10 if name.eq_ignore_ascii_case(b"connection") => connection(value, &mut head.keeps),
                13 if name.eq_ignore_ascii_case(b"server-timing") => {
                    head.server = server_timing::add(head.server, value);
                }
                _ => {}
            }
        }
        head.body = match (coded, length) {
            (true, Some(_)) => return Err(malformed("the response has Content-Length and Transfer-Encoding")),
            (true, None) if is_1_0 => return Err(malformed("an HTTP/1.0 response has Transfer-Encoding")),
            (true, None) if chunked => Body::Chunked,
            (false, Some(len)) => Body::Length(len),
            (_, None) => Body::Rest,
        };
        Ok(head)
    }
}

/// Returns all headers of a head that was parsed before.
pub(super) fn all(bytes: &[u8]) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    let (_, mut rest) = split_line(bytes)?;
    while !rest.is_empty() {
        let (line, after) = split_line(rest)?;
        rest = after;
        let (name, value) = field(line)?;
        let wrong = || malformed(format!("not a header: {}", shown(line)));
        let name = HeaderName::from_bytes(name).map_err(|_| wrong())?;
        headers.append(name, HeaderValue::from_bytes(value).map_err(|_| wrong())?);
    }
    Ok(headers)
}

/// Splits off the first line, without its line end. The last line of a head has no line end here.
fn split_line(bytes: &[u8]) -> Result<(&[u8], &[u8]), Failure> {
    let Some(at) = memchr(b'\n', bytes) else { return Ok((bytes, &[])) };
    match bytes[..at].strip_suffix(b"\r") {
        Some(line) => Ok((line, &bytes[at + 1..])),
        None => Err(malformed("a header line ends without CR")),
    }
}

/// Returns the status, and whether the answer is HTTP/1.0.
fn status_line(line: &[u8]) -> Result<(u16, bool), Failure> {
    let wrong = || malformed(format!("not a status line of HTTP/1.1: {}", shown(line)));
    let rest = line.strip_prefix(b"HTTP/1.").ok_or_else(wrong)?;
    let [minor @ (b'0' | b'1'), b' ', a @ b'1'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] = rest else {
        return Err(wrong());
    };
    if !matches!(rest, [] | [b' ', ..]) {
        return Err(wrong());
    }
    let digit = |byte: &u8| u16::from(byte - b'0');
    Ok((digit(a) * 100 + digit(b) * 10 + digit(c), *minor == b'0'))
}

fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Failure> {
    let wrong = || malformed(format!("not a header: {}", shown(line)));
    let colon = memchr(b':', line).ok_or_else(wrong)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_token = |byte: &u8| byte.is_ascii_graphic() && !br#""(),/:;<=>?@[\]{}"#.contains(byte);
    let is_text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7F);
    if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(is_text) {
        return Err(wrong());
    }
    Ok((name, value))
}

fn content_length(value: &[u8]) -> Result<u64, Failure> {
    let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
    if !digits {
        return Err(malformed(format!("not a Content-Length: {}", shown(value))));
    }
    Ok(value.iter().fold(0, |len, byte| len * 10 + u64::from(byte - b'0')))
}

/// Returns the last element of a comma-separated list.
fn last_token(value: &[u8]) -> &[u8] {
    value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()
}

fn connection(value: &[u8], keeps: &mut bool) {
    for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        if token.eq_ignore_ascii_case(b"close") {
            *keeps = false;
            return;
        }
        *keeps |= token.eq_ignore_ascii_case(b"keep-alive");
    }
}

/// Escapes the first 80 bytes of untrusted input for a message of one line.
fn shown(bytes: &[u8]) -> String {
    bytes.iter().take(80).flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).collect()
}
