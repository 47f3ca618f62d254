//! An HTTP/1.1 client that can send anything: repeated headers, odd case, a wrong length, junk, a byte at a time. It keeps
//! answers as received: headers in order, repeated ones too. Every wait has a bound.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

/// Longest wait of a connection.
const WAIT: Duration = Duration::from_secs(30);
const HEAD_LEN_MAX: usize = 256 * 1024;

/// The framing of a request's body.
#[derive(Clone, Debug)]
enum Framing {
    /// `Content-Length`, unless the test has set one of its own.
    Length,
    /// `Transfer-Encoding: chunked`, in chunks of this number of bytes.
    Chunked(usize),
    /// Only the headers of the test.
    Bare,
}

/// A request as it stands on the wire. Nothing is checked.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    framing: Framing,
}

impl Request {
    /// Creates a request without a body.
    pub fn new(method: &str, target: &str) -> Self {
        Request {
            method: method.into(),
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
            framing: Framing::Length,
        }
    }

    /// Creates a request, `GET target`.
    pub fn get(target: &str) -> Self {
        Request::new("GET", target)
    }

    /// Creates a request, `POST target`, with a body.
    pub fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        Request::new("POST", target).body(body)
    }

    /// Appends a header, even if there is one of the name.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Replaces all headers of a name by one.
    pub fn set(self, name: &str, value: impl Into<String>) -> Self {
        self.without(name).header(name, value)
    }

    /// Removes every header of a name.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Returns the value of the first header of a name.
    pub fn value(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Returns the headers, in order.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Rewrites the names of its headers.
    pub fn rename(mut self, rename: impl Fn(&str) -> String) -> Self {
        for (name, _) in &mut self.headers {
            *name = rename(name);
        }
        self
    }

    /// Replaces the body of the request.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Returns the body as bytes.
    pub fn body_bytes(&self) -> &[u8] {
        &self.body
    }

    /// Replaces the target of the request.
    pub fn target(mut self, target: &str) -> Self {
        self.target = target.into();
        self
    }

    /// Returns the method of the request.
    pub fn method_name(&self) -> &str {
        &self.method
    }

    /// Returns the target of the request.
    pub fn target_name(&self) -> &str {
        &self.target
    }

    /// Replaces the method of the request.
    pub fn method(mut self, method: &str) -> Self {
        self.method = method.into();
        self
    }

    /// Sends the body in chunks of `len` bytes.
    pub fn chunked(mut self, len: usize) -> Self {
        self.framing = Framing::Chunked(len);
        self
    }

    /// Sends no framing header by itself.
    pub fn bare(mut self) -> Self {
        self.framing = Framing::Bare;
        self
    }

    /// Returns the request line and headers, with the blank line.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let mut line = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        if self.value("host").is_none() {
            line("Host", "localhost");
        }
        for (name, value) in &self.headers {
            line(name, value);
        }
        if self.value("connection").is_none() {
            line("Connection", "close");
        }
        match self.framing {
            Framing::Chunked(_) => line("Transfer-Encoding", "chunked"),
            Framing::Length if self.value("content-length").is_none() => {
                if !self.body.is_empty() || self.method != "GET" {
                    line("Content-Length", &self.body.len().to_string());
                }
            }
            Framing::Length | Framing::Bare => {}
        }
        head.push_str("\r\n");
        // Headers are Latin-1 on the wire, so that a test can send any byte.
        head.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
    }

    /// Returns the bytes of the whole request.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes();
        match self.framing {
            Framing::Chunked(len) => {
                for chunk in self.body.chunks(len.max(1)) {
                    bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
            Framing::Length | Framing::Bare => bytes.extend_from_slice(&self.body),
        }
        bytes
    }

    /// Sends it on a connection of its own and reads the answer.
    ///
    /// # Errors
    /// If the connection is refused, reset, or silent, or the answer is not HTTP.
    pub fn send(&self, to: SocketAddr) -> anyhow::Result<Answer> {
        let mut connection = Connection::open(to)?;
        connection.write(&self.bytes())?;
        connection.read_answer(&self.method)
    }
}

/// An answer, as it was received.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status of the answer.
    pub status: u16,
    /// The headers in order, repeated ones too.
    pub headers: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the value of a header that must not be repeated.
    pub fn header(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() < 2, "{name} is repeated: {all:?}");
        all.first().copied()
    }

    /// Returns every value of a name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Asserts a status and exactly this JSON text, with its media type. `what` names the request.
    pub fn assert_json(&self, what: &str, status: u16, body: &str) {
        assert_eq!((self.status, self.text().as_str()), (status, body), "{what}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{what}");
        assert!(self.header("server-timing").is_some(), "{what}: no Server-Timing");
    }

    /// Asserts the answer `{"error": code}`.
    pub fn assert_error(&self, what: &str, status: u16, code: &str) {
        self.assert_json(what, status, &format!(r#"{{"error":"{code}"}}"#));
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A connection, for tests that send or read a part at a time.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Opens a connection to an address.
    ///
    /// # Errors
    /// If the server does not listen.
    pub fn open(to: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, WAIT).with_context(|| format!("cannot connect to {to}"))?;
        Connection::over(stream)
    }

    /// Uses a connection that is open.
    ///
    /// # Errors
    /// If it is already gone.
    pub fn over(stream: TcpStream) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        Ok(Connection { stream, buffer: Vec::new() })
    }

    /// Sets the longest wait from now on.
    ///
    /// # Errors
    /// If the socket is gone.
    pub fn set_wait(&mut self, wait: Duration) -> anyhow::Result<()> {
        self.stream.set_read_timeout(Some(wait))?;
        Ok(self.stream.set_write_timeout(Some(wait))?)
    }

    /// Sends bytes on the connection.
    ///
    /// # Errors
    /// If the other end has closed or reset.
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(bytes).context("the connection did not take what was sent")
    }

    /// Sends one chunk of a chunked body; an empty one ends it.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub fn write_chunk(&mut self, chunk: &[u8]) -> anyhow::Result<()> {
        let mut bytes = format!("{:x}\r\n", chunk.len()).into_bytes();
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        self.write(&bytes)
    }

    /// Reads more; returns false at the end.
    fn fill(&mut self) -> anyhow::Result<bool> {
        let mut chunk = [0; 64 * 1024];
        let len = self.stream.read(&mut chunk).context("nothing more could be read")?;
        self.buffer.extend_from_slice(&chunk[..len]);
        Ok(len > 0)
    }

    /// Reads until the other end closes; returns the bytes.
    ///
    /// # Errors
    /// If it is reset, or open for too long.
    pub fn read_to_end(&mut self) -> anyhow::Result<Vec<u8>> {
        while self.fill()? {}
        Ok(std::mem::take(&mut self.buffer))
    }

    fn line(&mut self) -> anyhow::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.buffer.drain(..end + 2).take(end).map(char::from).collect();
                return Ok(line);
            }
            ensure!(self.buffer.len() < HEAD_LEN_MAX, "a line is too long");
            ensure!(self.fill()?, "closed in the middle of a line: {:?}", String::from_utf8_lossy(&self.buffer));
        }
    }

    /// Reads and returns exactly `len` bytes.
    ///
    /// # Errors
    /// If the connection ends before.
    pub fn read_exactly(&mut self, len: usize) -> anyhow::Result<Vec<u8>> {
        while self.buffer.len() < len {
            ensure!(self.fill()?, "closed after {} of {len} bytes", self.buffer.len());
        }
        Ok(self.buffer.drain(..len).collect())
    }

    /// Reads a head: the first line, and headers in order.
    ///
    /// # Errors
    /// If it breaks off.
    pub fn read_head(&mut self) -> anyhow::Result<(String, Vec<(String, String)>)> {
        Ok((self.line()?, self.read_headers()?))
    }

    fn read_headers(&mut self) -> anyhow::Result<Vec<(String, String)>> {
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(headers);
            }
            let (name, value) = line.split_once(':').with_context(|| format!("no header: {line}"))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    /// Reads one chunk of a chunked body; empty at its end.
    ///
    /// # Errors
    /// If it breaks off or is not chunked.
    pub fn read_chunk(&mut self) -> anyhow::Result<Vec<u8>> {
        let line = self.line()?;
        let len = usize::from_str_radix(line.trim(), 16).with_context(|| format!("no chunk length: {line:?}"))?;
        let chunk = self.read_exactly(len)?;
        ensure!(self.read_exactly(2)? == b"\r\n", "a chunk does not end where it says");
        Ok(chunk)
    }

    /// Reads the body that these headers announce.
    ///
    /// # Errors
    /// If it breaks off, or has trailers.
    pub fn read_body(&mut self, headers: &[(String, String)], until_close: bool) -> anyhow::Result<Vec<u8>> {
        if !is_chunked(headers) && find(headers, "content-length").is_none() && until_close {
            return self.read_to_end();
        }
        let (body, trailers) = self.read_body_and_trailers(headers)?;
        ensure!(trailers.is_empty(), "trailers follow the body: {trailers:?}");
        Ok(body)
    }

    /// Reads the body that the headers of a request announce, and its trailers, in order.
    ///
    /// # Errors
    /// If it breaks off.
    #[expect(clippy::type_complexity, reason = "the body, and headers as everywhere here")]
    pub fn read_body_and_trailers(
        &mut self,
        headers: &[(String, String)],
    ) -> anyhow::Result<(Vec<u8>, Vec<(String, String)>)> {
        let mut body = Vec::new();
        if is_chunked(headers) {
            loop {
                let line = self.line()?;
                let len =
                    usize::from_str_radix(line.trim(), 16).with_context(|| format!("no chunk length: {line:?}"))?;
                if len == 0 {
                    return Ok((body, self.read_headers()?));
                }
                body.extend(self.read_exactly(len)?);
                ensure!(self.read_exactly(2)? == b"\r\n", "a chunk does not end where it says");
            }
        }
        if let Some(len) = find(headers, "content-length") {
            body = self.read_exactly(len.parse().context("Content-Length")?)?;
        }
        Ok((body, Vec::new()))
    }

    /// Reads the answer to a request with `method`.
    ///
    /// # Errors
    /// If it breaks off or is not HTTP.
    pub fn read_answer(&mut self, method: &str) -> anyhow::Result<Answer> {
        loop {
            let (first, headers) = self.read_head()?;
            let mut words = first.splitn(3, ' ');
            let (Some("HTTP/1.1"), Some(status)) = (words.next(), words.next()) else { bail!("no answer: {first:?}") };
            let status: u16 = status.parse().context("status")?;
            if status == 100 {
                continue;
            }
            let bodiless = method == "HEAD" || status == 204 || status == 304 || status < 200;
            let body = if bodiless { Vec::new() } else { self.read_body(&headers, true)? };
            return Ok(Answer { status, headers, body });
        }
    }
}

fn is_chunked(headers: &[(String, String)]) -> bool {
    find(headers, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
}

/// Returns the first value of a name.
pub fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}
