//! A minimal HTTP/1.1 client: it writes prepared bytes, parses status and framing, and counts and discards the body.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::stream::Stream;
use super::tally::Fault;

/// The default length of the buffer, and so the longest head of an answer, in bytes.
const BUFFER: usize = 4 * 1024;

/// A connection that sends one request at a time.
pub(crate) struct H1 {
    pub(crate) stream: Stream,
    buffer: Vec<u8>,
}

/// The framing of an answer's body.
#[derive(Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
}

/// The remainder of a chunked body: the bytes of the current chunk, or a position in the line between chunks.
#[derive(Debug, PartialEq, Eq)]
enum Chunks {
    Size(u64, bool),
    Data(u64),
    Trailer(usize),
    Done,
}

impl H1 {
    pub(crate) fn new(stream: Stream) -> Self {
        Self::with_buffer(stream, BUFFER)
    }

    /// Creates a connection with a buffer of this length.
    pub(crate) fn with_buffer(stream: Stream, len: usize) -> Self {
        H1 { stream, buffer: vec![0; len] }
    }

    /// Sends these bytes and reads the answer to its end. Returns the length of the body.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<u64, Fault> {
        self.stream.write_all(request).await.map_err(|error| Fault::of("write", &error))?;
        self.stream.flush().await.map_err(|error| Fault::of("write", &error))?;
        self.answer().await
    }

    /// Reads an answer to its end, and returns the length of its body.
    pub(crate) async fn answer(&mut self) -> Result<u64, Fault> {
        let mut filled = 0;
        let (head_len, framing) = loop {
            filled += self.read(filled).await?;
            if let Some(end) = find_end(&self.buffer[..filled]) {
                break (end, head(&self.buffer[..end])?);
            }
            if filled == self.buffer.len() {
                return Err(Fault::of("malformed", &"a head without an end"));
            }
        };
        match framing {
            Framing::Length(len) => self.skip(len, (filled - head_len) as u64).await,
            Framing::Chunked => self.skip_chunks(head_len, filled).await,
        }
    }

    async fn skip(&mut self, len: u64, mut seen: u64) -> Result<u64, Fault> {
        while seen < len {
            seen += self.read(0).await? as u64;
        }
        if seen > len {
            return Err(Fault::of("malformed", &"bytes after the answer"));
        }
        Ok(len)
    }

    async fn skip_chunks(&mut self, start: usize, end: usize) -> Result<u64, Fault> {
        let mut chunks = Chunks::Size(0, true);
        let mut body_len = chunks.feed(&self.buffer[start..end])?;
        while chunks != Chunks::Done {
            let read = self.read(0).await?;
            body_len += chunks.feed(&self.buffer[..read])?;
        }
        Ok(body_len)
    }

    async fn read(&mut self, at: usize) -> Result<usize, Fault> {
        match self.stream.read(&mut self.buffer[at..]).await {
            Ok(0) => Err(Fault::of("closed", &"the connection ended before the answer did")),
            Ok(read) => Ok(read),
            Err(error) => Err(Fault::of("read", &error)),
        }
    }

    /// Waits for the server to close the connection, and closes it.
    pub(crate) async fn finish(mut self) {
        while let Ok(1..) = self.stream.read(&mut self.buffer).await {}
        let _ = self.stream.shutdown().await;
    }
}

/// Returns the position after the head, if the bytes contain all of it.
fn find_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Parses the head and returns the framing of the body. Any status but 200 is a fault.
fn head(bytes: &[u8]) -> Result<Framing, Fault> {
    let malformed = |what: &str| Fault::of("malformed", &format!("{what}: {}", String::from_utf8_lossy(bytes)));
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let status = lines.next().and_then(|line| line.get(9..12)).ok_or_else(|| malformed("no status"))?;
    if status != b"200" {
        let kind = if status[0] == b'5' { "status 5xx" } else { "status" };
        return Err(Fault::of(kind, &String::from_utf8_lossy(bytes)));
    }
    let mut framing = None;
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let len = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            framing = Some(Framing::Length(len.ok_or_else(|| malformed("a length that is none"))?));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            framing = Some(Framing::Chunked);
        }
    }
    framing.ok_or_else(|| malformed("a body without an end"))
}

impl Chunks {
    /// Parses these bytes. Returns how many of them belong to the body.
    fn feed(&mut self, mut bytes: &[u8]) -> Result<u64, Fault> {
        let mut body_len = 0;
        while let Some(&byte) = bytes.first() {
            let mut taken = 1;
            *self = match *self {
                // The parser ignores the rest of the line after the size: an extension or CR.
                Chunks::Size(size, counting) => match (byte, char::from(byte).to_digit(16)) {
                    (b'\n', _) if size > 0 => Chunks::Data(size + 2),
                    (b'\n', _) => Chunks::Trailer(0),
                    (_, Some(digit)) if counting && size >> 32 == 0 => Chunks::Size(size * 16 + u64::from(digit), true),
                    (_, Some(_)) if counting => return Err(Fault::of("malformed", &"a chunk too long")),
                    _ => Chunks::Size(size, false),
                },
                // Includes the line end after the data.
                Chunks::Data(left) => {
                    taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    let after = left - taken as u64;
                    body_len += left.saturating_sub(2) - after.saturating_sub(2);
                    if after == 0 { Chunks::Size(0, true) } else { Chunks::Data(after) }
                }
                Chunks::Trailer(0) if byte == b'\n' => Chunks::Done,
                Chunks::Trailer(_) if byte == b'\n' => Chunks::Trailer(0),
                Chunks::Trailer(len) => Chunks::Trailer(len + usize::from(byte != b'\r')),
                Chunks::Done => return Err(Fault::of("malformed", &"bytes after the answer")),
            };
            bytes = &bytes[taken..];
        }
        Ok(body_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_counted_however_it_is_cut() {
        let body = b"5;x=a\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nX-Sum: 1\r\n\r\n";
        for cut in 0..body.len() {
            let mut chunks = Chunks::Size(0, true);
            let len = chunks.feed(&body[..cut]).unwrap() + chunks.feed(&body[cut..]).unwrap();
            assert_eq!((len, chunks), (21, Chunks::Done), "cut at {cut}");
        }
    }

    #[test]
    fn bytes_after_a_response_are_a_failure() {
        let mut chunks = Chunks::Size(0, true);
        assert!(chunks.feed(b"0\r\n\r\nHTTP/1.1 200 OK").is_err());
    }

    #[test]
    fn a_response_head_decides_the_framing_and_only_status_200_passes() {
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH: 7\r\n\r\n").unwrap(), Framing::Length(7));
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap(), Framing::Chunked);
        assert_eq!(head(b"HTTP/1.1 502 Bad\r\ncontent-length: 0\r\n\r\n").unwrap_err().kind, "status 5xx");
        assert_eq!(head(b"HTTP/1.1 404 No\r\n\r\n").unwrap_err().kind, "status");
        assert_eq!(head(b"HTTP/1.1 200 OK\r\n\r\n").unwrap_err().kind, "malformed");
    }
}
