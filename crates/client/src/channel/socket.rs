//! The connection below a channel: TCP, TLS for `wss`, and the upgrade to WebSocket (RFC 6455), from either side.
//!
//! The module does not know the content of messages.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::header::{HeaderValue, ORIGIN};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::Error as WsError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::error::{Error, Stage};
use crate::trust;

/// Longest message that is read, in bytes: the longest record.
const MESSAGE_LEN_MAX: usize = 1 << 20;
/// Read buffer of a connection, in bytes.
const READ_BUFFER_LEN: usize = 16 * 1024;

/// Byte stream below a channel: TCP, TLS, or a test's substitute.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// WebSocket on a byte stream with counters.
pub(crate) type Socket = WebSocketStream<CountingStream>;

/// A byte stream that counts the bytes read and written.
pub(crate) struct CountingStream {
    io: Box<dyn Io>,
    moved: Arc<AtomicU64>,
}

impl CountingStream {
    fn new(io: Box<dyn Io>) -> Self {
        CountingStream { io, moved: Arc::default() }
    }

    /// Counter of bytes so far, both directions together.
    pub(crate) fn moved(&self) -> Arc<AtomicU64> {
        self.moved.clone()
    }

    fn count(&self, len: usize) {
        self.moved.fetch_add(len as u64, Ordering::Relaxed);
    }
}

impl AsyncRead for CountingStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        self.count(buf.filled().len() - before);
        polled
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, bytes);
        if let Poll::Ready(Ok(len)) = polled {
            self.count(len);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Options of the connection to a relay, or to a listening peer.
#[derive(Clone)]
pub struct Connecting {
    /// Longest time from resolving the host name to the upgraded WebSocket. Default 10 s.
    pub timeout: Duration,
    /// TLS configuration for `wss`: trusted authorities and client certificate. Default: this machine's authorities, no
    /// certificate.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Value of the header `Origin`, as browsers send it. Default: none.
    pub origin: Option<String>,
}

impl Default for Connecting {
    fn default() -> Self {
        Connecting { timeout: Duration::from_secs(10), tls: None, origin: None }
    }
}

impl std::fmt::Debug for Connecting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connecting(timeout {:?}, tls {}, origin {:?})", self.timeout, self.tls.is_some(), self.origin)
    }
}

fn limits() -> WebSocketConfig {
    // tungstenite buffers no writes: one record is one message and one write.
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_LEN)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * MESSAGE_LEN_MAX)
        .max_message_size(Some(MESSAGE_LEN_MAX))
        .max_frame_size(Some(MESSAGE_LEN_MAX))
}

/// Opens a connection to `url` (`ws://` or `wss://`) and upgrades it to WebSocket.
pub(crate) async fn connect(url: &str, how: &Connecting) -> Result<Socket, Error> {
    let opened = async {
        let target = Target::parse(url)?;
        let stream = TcpStream::connect((target.host.as_str(), target.port))
            .await
            .map_err(|err| Error::new(Stage::Connect, connect_code(&err), format!("{}: {err}", target.place())))?;
        let _ = stream.set_nodelay(true);
        let io: Box<dyn Io> = if target.is_tls { Box::new(tls(&target, stream, how).await?) } else { Box::new(stream) };
        upgrade(io, url, how).await
    };
    tokio::time::timeout(how.timeout, opened).await.map_err(|_| late(how))?
}

fn late(how: &Connecting) -> Error {
    Error::new(Stage::Connect, "timeout", format!("no connection within {:?}", how.timeout))
}

/// Upgrades an open connection to WebSocket, as the client.
pub(crate) async fn upgrade(io: Box<dyn Io>, url: &str, how: &Connecting) -> Result<Socket, Error> {
    let invalid = |text: String| Error::new(Stage::Connect, "address_invalid", text);
    let mut request = url.into_client_request().map_err(|err| invalid(format!("\"{url}\": {err}")))?;
    if let Some(origin) = &how.origin {
        let origin = HeaderValue::from_str(origin).map_err(|_| invalid("the origin is no header value".into()))?;
        request.headers_mut().insert(ORIGIN, origin);
    }
    let upgraded = tokio_tungstenite::client_async_with_config(request, CountingStream::new(io), Some(limits()));
    match tokio::time::timeout(how.timeout, upgraded).await.map_err(|_| late(how))? {
        Ok((socket, _)) => Ok(socket),
        Err(WsError::Http(answer)) => {
            let status = answer.status().as_u16();
            let code = match status {
                401 => "unauthorized",
                403 => "forbidden",
                429 | 500.. => "upgrade_unavailable",
                _ => "upgrade_refused",
            };
            Err(Error::new(
                Stage::Connect,
                code,
                format!("the server does not upgrade: it answers with the status {status}"),
            ))
        }
        Err(err) => Err(Error::new(Stage::Connect, "upgrade_failed", format!("the upgrade failed: {err}"))),
    }
}

/// Upgrades a connection that a peer opened, on any path.
pub(crate) async fn accept(io: Box<dyn Io>, timeout: Duration) -> Result<Socket, Error> {
    match tokio::time::timeout(
        timeout,
        tokio_tungstenite::accept_async_with_config(CountingStream::new(io), Some(limits())),
    )
    .await
    {
        Ok(Ok(socket)) => Ok(socket),
        Ok(Err(err)) => Err(Error::new(Stage::Connect, "upgrade_failed", format!("the upgrade failed: {err}"))),
        Err(_) => Err(Error::new(Stage::Connect, "timeout", format!("no upgrade within {timeout:?}"))),
    }
}

/// Host, port and scheme of an address.
struct Target {
    host: String,
    port: u16,
    is_tls: bool,
}

impl Target {
    fn parse(url: &str) -> Result<Self, Error> {
        let invalid = |why: &str| Error::new(Stage::Connect, "address_invalid", format!("\"{url}\" {why}"));
        let uri: Uri = url.parse().map_err(|_| invalid("is no address"))?;
        let is_tls = match uri.scheme_str() {
            Some("wss") => true,
            Some("ws") => false,
            _ => return Err(invalid("does not begin with ws:// or wss://")),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| invalid("names no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Target { host, port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }), is_tls })
    }

    fn place(&self) -> String {
        match self.host.parse::<std::net::Ipv6Addr>() {
            Ok(address) => SocketAddr::from((address, self.port)).to_string(),
            Err(_) => format!("{}:{}", self.host, self.port),
        }
    }
}

async fn tls(target: &Target, stream: TcpStream, how: &Connecting) -> Result<impl Io + use<>, Error> {
    let fault = |code, text: String| Error::new(Stage::Connect, code, format!("{}: {text}", target.place()));
    let config = match &how.tls {
        Some(config) => config.clone(),
        None => Arc::new(trust::system().map_err(|text| fault("tls_unset", text))?),
    };
    let name = ServerName::try_from(target.host.clone()).map_err(|err| fault("address_invalid", err.to_string()))?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|err| {
        let is_untrusted = err.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let is_untrusted = is_untrusted.is_some_and(|inner| matches!(inner, rustls::Error::InvalidCertificate(_)));
        fault(if is_untrusted { "tls_untrusted" } else { "tls_failed" }, err.to_string())
    })
}

fn connect_code(err: &io::Error) -> &'static str {
    match err.kind() {
        io::ErrorKind::ConnectionRefused => "connection_refused",
        io::ErrorKind::TimedOut => "timeout",
        io::ErrorKind::AddrNotAvailable => "no_local_port",
        // Names that do not resolve give `Uncategorized`, which code cannot match.
        _ => "unreachable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_or_named() {
        let target = Target::parse("wss://relay.example/ws").unwrap();
        assert_eq!((target.place().as_str(), target.is_tls), ("relay.example:443", true));
        assert_eq!(Target::parse("ws://[::1]:7000/ws").unwrap().place(), "[::1]:7000");
        for bad in ["", "http://a/", "ws://", "relay.example", "ws:///ws"] {
            let err = Target::parse(bad).map(|_| ()).unwrap_err();
            assert_eq!((err.stage, err.code.as_ref()), (Stage::Connect, "address_invalid"), "{bad}");
        }
    }
}
