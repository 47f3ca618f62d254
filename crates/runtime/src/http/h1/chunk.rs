//! Bodies: a known number of bytes, chunks with trailers (RFC 9112 section 7.1), or all bytes until the end.

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName};

use super::encode::{assemble, encode_field};
use super::head::{Fault, Framing, parse_field};

/// Longest line of a chunk's size with its extensions, which are ignored.
const SIZE_LINE_MAX: usize = 256;
/// Longest chunk extensions of a body together: they cost their reader time and have no use.
const EXTENSIONS_MAX: usize = 16 * 1024;
/// Longest trailer section, in bytes.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Most trailer fields of a body.
const TRAILERS_MAX: usize = 64;

/// The result of one decoding step.
#[derive(Debug)]
pub enum ChunkStep {
    /// A part of the body.
    Data(Bytes),
    /// More input is needed to continue.
    More,
    /// The body is complete; its trailers, if there were any.
    End(Option<HeaderMap>),
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The remaining bytes of a body of known length.
    Length(u64),
    /// The line of a chunk's size is next.
    Size,
    /// The remaining bytes of a chunk.
    Chunk(u64),
    /// The CRLF after a chunk's data is next.
    ChunkEnd,
    Trailers,
    UntilClose,
    Done,
}

/// Decodes a body from the bytes of a connection.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// Bytes of chunk extensions so far.
    extensions: usize,
}

impl Decoder {
    /// Creates the decoder for a framing.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(len) => State::Length(len),
            Framing::Chunked => State::Size,
            Framing::Close => State::UntilClose,
        };
        Decoder { state, extensions: 0 }
    }

    /// Returns whether the body is complete.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Returns the number of remaining bytes, if it is known.
    pub fn left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Takes as much as it can from the front of `buffer`. After [`ChunkStep::End`] it takes no more.
    ///
    /// # Errors
    /// [`Fault`]; no byte after it can be trusted.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<ChunkStep, Fault> {
        loop {
            match self.state {
                State::Done => return Ok(ChunkStep::End(None)),
                _ if buffer.is_empty() => return Ok(ChunkStep::More),
                State::UntilClose => return Ok(ChunkStep::Data(buffer.split().freeze())),
                State::Length(left) => {
                    let (data, left) = take(buffer, left);
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    return Ok(ChunkStep::Data(data));
                }
                State::Chunk(left) => {
                    let (data, left) = take(buffer, left);
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    return Ok(ChunkStep::Data(data));
                }
                State::ChunkEnd => match buffer.as_ref() {
                    [b'\r', b'\n', ..] => {
                        let _ = buffer.split_to(2);
                        self.state = State::Size;
                    }
                    [b'\r'] => return Ok(ChunkStep::More),
                    _ => return Err(Fault::Malformed("a chunk does not end in CRLF")),
                },
                State::Size => match take_line(buffer, SIZE_LINE_MAX)? {
                    None => return Ok(ChunkStep::More),
                    Some(line) => {
                        let (len, extension) = parse_size(&line)?;
                        self.extensions += extension;
                        if self.extensions > EXTENSIONS_MAX {
                            return Err(Fault::TooLarge);
                        }
                        self.state = if len == 0 { State::Trailers } else { State::Chunk(len) };
                    }
                },
                State::Trailers => {
                    let Some(trailers) = take_trailers(buffer)? else { return Ok(ChunkStep::More) };
                    self.state = State::Done;
                    return Ok(ChunkStep::End(trailers));
                }
            }
        }
    }

    /// Returns whether a body is complete if the connection ends here.
    pub fn may_end_here(&self) -> bool {
        matches!(self.state, State::Done | State::UntilClose)
    }
}

fn take(buffer: &mut BytesMut, left: u64) -> (Bytes, u64) {
    let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
    (buffer.split_to(len).freeze(), left - len as u64)
}

/// Takes the next line without its CRLF, if all of it has arrived.
fn take_line(buffer: &mut BytesMut, len_max: usize) -> Result<Option<Bytes>, Fault> {
    match memchr::memchr(b'\n', buffer) {
        Some(end) if end > len_max => Err(Fault::TooLarge),
        Some(end) if end == 0 || buffer[end - 1] != b'\r' => Err(Fault::Malformed("a line ends in a bare LF")),
        Some(end) => {
            let mut line = buffer.split_to(end + 1).freeze();
            line.truncate(end - 1);
            Ok(Some(line))
        }
        None if buffer.len() > len_max => Err(Fault::TooLarge),
        None => Ok(None),
    }
}

/// Parses `1*HEXDIG [ chunk-ext ]`, and returns the size and the length of the extension. Extensions are ignored; anything else
/// is rejected.
fn parse_size(line: &[u8]) -> Result<(u64, usize), Fault> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, extension) = line.split_at(digits);
    let is_extension = matches!(extension.trim_ascii_start().first(), None | Some(b';'));
    let is_clean = extension.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f));
    // Blanks are allowed only before an extension.
    let is_blank = !extension.is_empty() && extension.trim_ascii_start().is_empty();
    if digits == 0 || digits > 15 || !is_extension || !is_clean || is_blank {
        return Err(Fault::Malformed("a chunk's size is no hexadecimal number"));
    }
    let size = std::str::from_utf8(size).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
    let size = size.ok_or(Fault::Malformed("a chunk's size is no hexadecimal number"))?;
    Ok((size, extension.len()))
}

/// Fields that are forbidden in trailers (RFC 9110 section 6.5.1): those that frame, route, authenticate or describe a message.
/// A reader that merges trailers into headers would take them for checked ones.
static BARRED: [HeaderName; 24] = [
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::EXPECT,
    header::FORWARDED,
    header::HOST,
    HeaderName::from_static("keep-alive"),
    header::LOCATION,
    header::MAX_FORWARDS,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::RANGE,
    header::SET_COOKIE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::WWW_AUTHENTICATE,
];

/// Returns whether a field is forbidden in trailers, also for the fields that gateways set.
fn is_barred(name: &HeaderName) -> bool {
    let starts = |prefix| name.as_str().starts_with(prefix);
    BARRED.contains(name) || starts("x-forwarded-") || starts("x-client-") || starts("client-cert")
}

/// Removes from trailers of HTTP/2 the fields that [`Decoder`] removes.
pub(in crate::http) fn without_barred(trailers: HeaderMap) -> HeaderMap {
    if !trailers.keys().any(is_barred) {
        return trailers;
    }
    let mut kept = HeaderMap::with_capacity(trailers.len());
    for name in trailers.keys().filter(|name| !is_barred(name)) {
        for value in trailers.get_all(name) {
            kept.append(name, value.clone());
        }
    }
    kept
}

/// Takes the trailer section with the blank line after it, if all of it has arrived. Forbidden fields are left out.
fn take_trailers(buffer: &mut BytesMut) -> Result<Option<Option<HeaderMap>>, Fault> {
    let mut end = 0;
    loop {
        let Some(len) = memchr::memchr(b'\n', &buffer[end..]) else {
            return if buffer.len() > TRAILER_BYTES_MAX { Err(Fault::TooLarge) } else { Ok(None) };
        };
        if len == 0 || buffer[end + len - 1] != b'\r' {
            return Err(Fault::Malformed("a line ends in a bare LF"));
        }
        end += len + 1;
        if end > TRAILER_BYTES_MAX {
            return Err(Fault::TooLarge);
        }
        if len == 1 {
            break;
        }
    }
    let mut section = buffer.split_to(end);
    let mut trailers = HeaderMap::new();
    let mut count = 0;
    while let Some(line) = take_line(&mut section, TRAILER_BYTES_MAX)?.filter(|line| !line.is_empty()) {
        count += 1;
        if count > TRAILERS_MAX {
            return Err(Fault::TooLarge);
        }
        let (name, value) = parse_field(&line, &line)?;
        if !is_barred(&name) {
            trailers.try_append(name, value).map_err(|_| Fault::TooLarge)?;
        }
    }
    Ok(Some((!trailers.is_empty()).then_some(trailers)))
}

/// Writes the line before a chunk's data; CRLF follows the data.
pub fn encode_chunk_head(out: &mut BytesMut, len: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0_u8; 16];
    let mut at = digits.len();
    let mut rest = len;
    loop {
        at -= 1;
        digits[at] = DIGITS[rest & 0xf];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// Writes the last chunk, trailers and the end.
pub fn encode_last_chunk(out: &mut BytesMut, trailers: Option<&HeaderMap>) {
    out.extend_from_slice(b"0\r\n");
    if let Some(trailers) = trailers {
        assemble(out, |section| {
            trailers.iter().for_each(|(name, value)| encode_field(section, name, value.as_bytes()))
        });
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `text` at every cut in two.
    fn decode(framing: Framing, text: &[u8]) -> Vec<Result<(Vec<u8>, usize), Fault>> {
        let cuts = (0..=text.len()).map(|cut| {
            let mut decoder = Decoder::new(framing);
            let mut buffer = BytesMut::from(&text[..cut]);
            let mut rest = Some(&text[cut..]);
            let mut body = Vec::new();
            loop {
                match decoder.decode(&mut buffer)? {
                    ChunkStep::Data(data) => body.extend_from_slice(&data),
                    ChunkStep::End(trailers) => {
                        buffer.extend_from_slice(rest.unwrap_or_default());
                        assert_eq!(&buffer[..], b"NEXT");
                        return Ok((body, trailers.map_or(0, |trailers| trailers.len())));
                    }
                    ChunkStep::More => buffer.extend_from_slice(rest.take().expect("a body that never ends")),
                }
            }
        });
        cuts.collect()
    }

    #[test]
    fn bodies_are_read_to_their_end_and_no_byte_further_wherever_they_are_cut() {
        for (framing, text, body, trailers) in [
            (Framing::None, "NEXT", "", 0),
            (Framing::Length(3), "abcNEXT", "abc", 0),
            (Framing::Chunked, "3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\n\r\nNEXT", "abc0123456789", 0),
            (Framing::Chunked, "0\r\nX-A: 1\r\nContent-Length: 9\r\n\r\nNEXT", "", 1),
        ] {
            for decoded in decode(framing, text.as_bytes()) {
                assert_eq!(decoded.unwrap(), (body.as_bytes().to_vec(), trailers), "{text}");
            }
        }
    }

    #[test]
    fn chunks_that_can_be_read_in_two_ways_are_refused() {
        for text in [
            "+3\r\nabc\r\n",
            "3\nabc\r\n",
            "0x3\r\nabc\r\n",
            "3 \r\nabc\r\n",
            " 3\r\nabc\r\n",
            "3\r\nabcd\r\n",
            "\r\n",
            "ffffffffffffffff1\r\n",
            "0\r\nX: 1\n\r\n",
            "3;\0\r\nabc\r\n",
            "3;a\rb\r\nabc\r\n",
        ] {
            let mut decoder = Decoder::new(Framing::Chunked);
            let mut buffer = BytesMut::from(text);
            let refused = loop {
                match decoder.decode(&mut buffer) {
                    Ok(ChunkStep::Data(_)) => {}
                    Ok(_) => break false,
                    Err(_) => break true,
                }
            };
            assert!(refused, "{text:?}");
        }
    }
}
