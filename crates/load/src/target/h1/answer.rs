//! Incremental parser of an HTTP/1.1 answer: its head, its framing and the end of its body.

use http::HeaderMap;
use memchr::memmem;

use super::chunks::Chunks;
use super::head::{self, Body, Head};
use crate::record::{Class, Failure};

/// Maximum size of a head that arrives in pieces, interim or final, in bytes.
const HEAD_LEN_MAX: usize = 256 * 1024;

/// Progress of one answer. Holds no memory unless a head arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    part: Part,
    /// Bytes of an incomplete head.
    partial: Vec<u8>,
    /// True if the request was a HEAD, whose answer has no body.
    bodiless: bool,
    /// Status; 0 until the head is complete.
    pub(crate) status: u16,
    /// True if the connection may be used again after this answer.
    pub(crate) keeps: bool,
    /// Processing time that the server reports.
    pub(crate) server: Option<std::time::Duration>,
    /// All headers, if the caller wants them.
    pub(crate) headers: Option<HeaderMap>,
}

#[derive(Debug, Default)]
enum Part {
    #[default]
    Head,
    Length(u64),
    Chunked(Chunks),
    /// Body up to the connection's end.
    Rest,
    Whole,
}

impl Answer {
    /// Creates the parser of an answer; `is_head` tells whether the request is a HEAD.
    pub(crate) fn of(is_head: bool) -> Self {
        Answer { bodiless: is_head, ..Answer::default() }
    }

    /// Returns whether no byte of the answer has arrived.
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self.part, Part::Head) && self.partial.is_empty() && self.status == 0
    }

    /// Parses the next bytes, and appends body bytes to `body` if it is given. Returns whether the answer is complete.
    ///
    /// # Errors
    ///
    /// A failure of class `Malformed` for a protocol violation, including bytes after the answer's end; of class `Assertion`
    /// if a kept body exceeds 64 MiB.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut body: Option<&mut Vec<u8>>) -> Result<bool, Failure> {
        while !bytes.is_empty() {
            bytes = match &mut self.part {
                Part::Head => self.feed_head(bytes)?,
                Part::Length(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    keep(&mut body, &bytes[..taken])?;
                    *left -= taken as u64;
                    if *left == 0 {
                        self.part = Part::Whole;
                    }
                    &bytes[taken..]
                }
                Part::Chunked(chunks) => {
                    let rest = chunks.feed(bytes, &mut |data| keep(&mut body, data))?;
                    if chunks.is_whole() {
                        self.part = Part::Whole;
                    }
                    rest
                }
                Part::Rest => {
                    keep(&mut body, bytes)?;
                    &[]
                }
                Part::Whole => return Err(malformed("unexpected bytes after the response")),
            };
        }
        Ok(matches!(self.part, Part::Whole))
    }

    /// Handles the end of the connection.
    ///
    /// # Errors
    ///
    /// A failure of class `Closed` if the answer is not complete by that.
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        match self.part {
            Part::Rest | Part::Whole => Ok(()),
            Part::Head if self.is_untouched() => {
                Err(Failure::new(Class::Closed, "the server closed the connection without a response"))
            }
            Part::Head => Err(Failure::new(Class::Closed, "the server closed the connection within a response head")),
            Part::Length(left) => Err(Failure::new(
                Class::Closed,
                format!("the server closed the connection {left} bytes before the end of the body"),
            )),
            Part::Chunked(_) => Err(Failure::new(Class::Closed, "the server closed the connection within a body")),
        }
    }

    /// Parses a head or a piece of one, and returns the bytes after it.
    fn feed_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Failure> {
        if self.partial.is_empty() {
            if let Some(end) = memmem::find(bytes, b"\r\n\r\n") {
                self.begin(&bytes[..end])?;
                return Ok(&bytes[end + 4..]);
            }
            // Rejects bytes that are not HTTP/1.x at once, before a buffer fills with them.
            if !bytes.starts_with(&b"HTTP/1."[..bytes.len().min(7)]) {
                return Err(malformed("the response does not begin with HTTP/1"));
            }
        }
        let known = self.partial.len();
        self.partial.extend_from_slice(bytes);
        let from = known.saturating_sub(3);
        let Some(end) = memmem::find(&self.partial[from..], b"\r\n\r\n").map(|at| from + at) else {
            if self.partial.len() > HEAD_LEN_MAX {
                return Err(malformed("the response head is longer than 256 KiB"));
            }
            return Ok(&[]);
        };
        let partial = std::mem::take(&mut self.partial);
        self.begin(&partial[..end])?;
        Ok(&bytes[end + 4 - known..])
    }

    /// Parses a complete head, without the empty line at its end.
    fn begin(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let head = Head::parse(bytes)?;
        // Status 101 would end HTTP on this connection, and no request asked for it.
        if head.status == 101 {
            return Err(malformed("the server switched protocols without being asked (101)"));
        }
        // Interim answers (1xx): the final answer follows.
        if head.status < 200 {
            return Ok(());
        }
        if let Some(headers) = &mut self.headers {
            *headers = head::all(bytes)?;
        }
        self.status = head.status;
        self.keeps = head.keeps;
        self.server = head.server;
        self.part = match head.body {
            _ if self.bodiless || matches!(head.status, 204 | 304) => Part::Whole,
            Body::Length(0) => Part::Whole,
            Body::Length(len) => Part::Length(len),
            Body::Chunked => Part::Chunked(Chunks::default()),
            Body::Rest => {
                self.keeps = false;
                Part::Rest
            }
        };
        Ok(())
    }
}

/// Appends a piece of the body if the caller keeps it.
fn keep(body: &mut Option<&mut Vec<u8>>, bytes: &[u8]) -> Result<(), Failure> {
    body.as_mut().map_or(Ok(()), |body| crate::target::keep(body, bytes))
}

pub(super) fn malformed(what: impl std::fmt::Display) -> Failure {
    Failure::new(Class::Malformed, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a whole answer: whether it is complete, its status, whether the connection stays, and its body.
    fn read(wire: &[u8], cut: usize, is_head: bool) -> Result<(bool, u16, bool, Vec<u8>), Failure> {
        let (mut answer, mut body) = (Answer::of(is_head), Vec::new());
        let mut is_whole = answer.feed(&wire[..cut], Some(&mut body))?;
        if cut < wire.len() {
            is_whole = answer.feed(&wire[cut..], Some(&mut body))?;
        }
        Ok((is_whole, answer.status, answer.keeps, body))
    }

    #[test]
    fn an_answer_is_the_same_however_it_is_cut() {
        let wires = [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..],
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            b"HTTP/1.1 200\r\ntransfer-encoding: gzip, Chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n",
            b"HTTP/1.0 200 OK\r\nConnection: x, Keep-Alive\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        ];
        for wire in wires {
            for cut in 1..=wire.len() {
                let shown = read(wire, cut, false).unwrap_or_else(|failure| panic!("{cut}: {failure}"));
                assert_eq!(shown, (true, 200, true, b"hello".to_vec()), "{} cut at {cut}", wire.escape_ascii());
            }
        }
    }

    #[test]
    fn answers_without_a_body_end_with_their_head() {
        for status in ["204 No", "304 Same"] {
            let wire = format!("HTTP/1.1 {status}\r\nContent-Length: 7\r\n\r\n");
            assert!(read(wire.as_bytes(), wire.len(), false).unwrap().0, "{status}");
        }
        let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
        assert!(read(wire, wire.len(), true).unwrap().0);
        assert!(!read(wire, wire.len(), false).unwrap().0);
    }

    #[test]
    fn an_answer_without_a_length_ends_with_its_connection_and_no_other_does() {
        let mut answer = Answer::of(false);
        assert!(!answer.feed(b"HTTP/1.1 200 OK\r\n\r\nhello", None).unwrap());
        assert!(answer.end().is_ok() && !answer.keeps);
        for wire in
            [&b""[..], b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", b"HTTP/1.1 100 C\r\n\r\n"]
        {
            let mut answer = Answer::of(false);
            answer.feed(wire, None).unwrap();
            assert_eq!(answer.end().unwrap_err().class, Class::Closed, "{}", wire.escape_ascii());
        }
    }

    #[test]
    fn responses_that_violate_the_protocol_are_malformed() {
        let heads = [
            "HTTP/2 200 OK\r\n",
            "HTTP/1.1 99 Low\r\n",
            "HTTP/1.1 600 High\r\n",
            "HTTP/1.1 2000 Long\r\n",
            "HTTP/1.1 101 Switch\r\n",
            "HTTP/1.1 200 OK\r\nNo colon\r\n",
            "HTTP/1.1 200 OK\r\nSpace : a\r\n",
            "HTTP/1.1 200 OK\r\n: none\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n",
            "HTTP/1.1 200 OK\r\nA: b\nB: c\r\n",
            "HTTP/1.1 200 OK\r\nA: b\rc\r\n",
            "HTTP/1.1 200 OK\r\nA: \0\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1234567890123456789\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n",
            "hello",
        ];
        for head in heads {
            let wire = format!("{head}\r\n");
            let failure = read(wire.as_bytes(), wire.len(), false).expect_err(head);
            assert_eq!(failure.class, Class::Malformed, "{head}");
            assert!(!failure.detail.contains(['\r', '\n', '\0']), "{}", failure.detail);
        }
        let after = b"HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
        assert_eq!(read(after, after.len(), false).unwrap_err().class, Class::Malformed);
        let endless = [b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &vec![b'a'; HEAD_LEN_MAX]].concat();
        assert_eq!(read(&endless, 9, false).unwrap_err().class, Class::Malformed);
    }

    #[test]
    fn a_connection_that_the_server_will_close_is_not_kept() {
        for head in ["HTTP/1.1 204 No\r\nConnection: a, Close\r\n", "HTTP/1.0 204 No\r\n"] {
            assert!(!read(format!("{head}\r\n").as_bytes(), 3, false).unwrap().2, "{head}");
        }
    }
}
