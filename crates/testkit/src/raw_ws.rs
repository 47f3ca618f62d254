//! A WebSocket client that can send anything and returns its input as received: frames, the code and reason of a close, or an
//! end without one. Every wait has a bound.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Longest wait of a connection.
const WAIT: Duration = Duration::from_secs(30);
const HEAD_LEN_MAX: usize = 64 * 1024;
const MASK: [u8; 4] = [0x5a, 0xc3, 0x0f, 0x96];

trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

/// The next input of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// A frame: its first byte and payload.
    Frame(u8, Vec<u8>),
    /// A close frame, with code and reason.
    Close(u16, String),
    /// The connection ended without a close frame.
    Abrupt,
}

/// A WebSocket connection of a client.
pub struct RawWs {
    stream: Box<dyn Both>,
    tcp: TcpStream,
    read: Vec<u8>,
    /// Answers pings, and leaves pings and pongs out of the input.
    pub answers: bool,
}

impl std::fmt::Debug for RawWs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawWs").field("unread", &self.read.len()).finish_non_exhaustive()
    }
}

/// Encodes the frame of a client.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..=125 => bytes.push(0x80 | len as u8),
        len @ 126..=0xffff => {
            bytes.push(0xfe);
            bytes.extend((len as u16).to_be_bytes());
        }
        len => {
            bytes.push(0xff);
            bytes.extend((len as u64).to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.into_iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

impl RawWs {
    /// Sends an upgrade request. The inner error is the status of a rejection.
    ///
    /// # Errors
    /// If the server does not answer in time, or not in HTTP.
    pub fn connect(
        address: SocketAddr,
        ca: Option<&Path>,
        path: &str,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Result<RawWs, u16>> {
        let tcp = TcpStream::connect_timeout(&address, WAIT)?;
        tcp.set_read_timeout(Some(WAIT))?;
        tcp.set_write_timeout(Some(WAIT))?;
        tcp.set_nodelay(true)?;
        let stream: Box<dyn Both> = match ca {
            None => Box::new(tcp.try_clone()?),
            Some(ca) => Box::new(StreamOwned::new(client(ca)?, tcp.try_clone()?)),
        };
        let mut ws = RawWs { stream, tcp, read: Vec::new(), answers: true };
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n");
        let usual = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let is_given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let usual = usual.iter().filter(|(name, _)| !is_given(name));
        for (name, value) in usual.chain(headers).filter(|(_, value)| !value.is_empty()) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        ws.send_raw(request.as_bytes())?;
        let end = loop {
            if let Some(end) = ws.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            anyhow::ensure!(ws.fill()? > 0 && ws.read.len() < HEAD_LEN_MAX, "no answer to an upgrade");
        };
        let head = String::from_utf8_lossy(&ws.read[..end]).into_owned();
        ws.read.drain(..end + 4);
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
        if status != 101 {
            return Ok(Err(status));
        }
        anyhow::ensure!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "a wrong Sec-WebSocket-Accept:\n{head}");
        Ok(Ok(ws))
    }

    /// Sends bytes as they are given.
    ///
    /// # Errors
    /// If they are not taken in time.
    pub fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends a frame with this first byte.
    ///
    /// # Errors
    /// As [`RawWs::send_raw`].
    pub fn send(&mut self, first: u8, payload: &[u8]) -> std::io::Result<()> {
        self.send_raw(&frame(first, payload))
    }

    /// Sends a text message in one frame.
    pub fn text(&mut self, text: &str) {
        // A failure to send shows in the input.
        let _ = self.send(0x81, text.as_bytes());
    }

    /// Sends a binary message in one frame.
    pub fn binary(&mut self, payload: &[u8]) {
        let _ = self.send(0x82, payload);
    }

    /// Returns the other handle of the socket: to shut it down, or to configure it.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    fn fill(&mut self) -> std::io::Result<usize> {
        let mut piece = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(len) => {
                    self.read.extend(&piece[..len]);
                    return Ok(len);
                }
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
    }

    /// Returns the next frame, or the end.
    ///
    /// # Panics
    /// If nothing comes in time, or what comes is no frame of a server: the test fails.
    pub fn got(&mut self) -> Got {
        loop {
            match self.try_next(WAIT) {
                Ok(Some(Got::Frame(0x89, payload))) if self.answers => {
                    let _ = self.send(0x8a, &payload);
                }
                Ok(Some(Got::Frame(0x8a, _))) if self.answers => {}
                Ok(Some(got)) => return got,
                Ok(None) => panic!("nothing came in {WAIT:?}"),
                Err(err) => panic!("{err:#}"),
            }
        }
    }

    /// Returns the next frame or end within a time; `None` if there was none.
    ///
    /// # Errors
    /// If what came is no frame of a server.
    pub fn try_next(&mut self, within: Duration) -> anyhow::Result<Option<Got>> {
        self.tcp.set_read_timeout(Some(within))?;
        let got = loop {
            if let Some((first, payload)) = self.parse()? {
                break match (first, payload.as_slice()) {
                    (0x88, []) => Some(Got::Close(1005, String::new())),
                    (0x88, [high, low, reason @ ..]) => {
                        let reason = String::from_utf8(reason.to_vec()).context("a reason that is no text")?;
                        Some(Got::Close(u16::from_be_bytes([*high, *low]), reason))
                    }
                    _ => Some(Got::Frame(first, payload)),
                };
            }
            match self.fill() {
                Ok(0) => break Some(Got::Abrupt),
                Ok(_) => {}
                Err(err) if matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break None,
                Err(_) => break Some(Got::Abrupt),
            }
        };
        self.tcp.set_read_timeout(Some(WAIT))?;
        Ok(got)
    }

    fn parse(&mut self) -> anyhow::Result<Option<(u8, Vec<u8>)>> {
        let [first, second, rest @ ..] = self.read.as_slice() else { return Ok(None) };
        let (len, wide) = match *second {
            126 => match rest.first_chunk::<2>() {
                Some(len) => (usize::from(u16::from_be_bytes(*len)), 2),
                None => return Ok(None),
            },
            127 => match rest.first_chunk::<8>() {
                Some(len) => (usize::try_from(u64::from_be_bytes(*len))?, 8),
                None => return Ok(None),
            },
            short if short & 0x80 == 0 => (usize::from(short), 0),
            _ => bail!("a server's frame has a mask"),
        };
        let (first, begin) = (*first, 2 + wide);
        if self.read.len() < begin + len {
            return Ok(None);
        }
        let payload = self.read[begin..begin + len].to_vec();
        self.read.drain(..begin + len);
        Ok(Some((first, payload)))
    }

    /// Returns the next message, joined from its frames; or the end.
    ///
    /// # Errors
    /// What came instead.
    pub fn message(&mut self) -> Result<Vec<u8>, Got> {
        let mut message = Vec::new();
        let mut wants = 0x02;
        loop {
            match self.got() {
                Got::Frame(first, payload) if first & 0x7f == wants => {
                    message.extend(payload);
                    if first & 0x80 != 0 {
                        return Ok(message);
                    }
                    wants = 0;
                }
                other => return Err(other),
            }
        }
    }

    /// Returns the end of the connection: messages before it are ignored.
    pub fn end(&mut self) -> Got {
        loop {
            match self.got() {
                Got::Frame(..) => {}
                end => return end,
            }
        }
    }
}

fn client(ca: &Path) -> anyhow::Result<ClientConnection> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?)
}
