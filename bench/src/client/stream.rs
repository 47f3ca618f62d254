//! A connection, plain or with TLS.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::tally::Fault;

/// The address of a server, and the settings of connections to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// The TLS configuration, for the server name `localhost`.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// The client's address. Each address adds 28,000 ports.
    pub(crate) source: Option<Ipv4Addr>,
}

/// One connection, plain or with TLS.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Target {
    /// Connects and performs the handshake. Returns the kind of handshake, if there was one.
    pub(crate) async fn open(&self) -> Result<(Stream, Option<HandshakeKind>), Fault> {
        let tcp = self.connect().await.map_err(|error| Fault::of("connect", &error))?;
        let Some(config) = &self.tls else {
            return Ok((Stream::Plain(tcp), None));
        };
        let name = ServerName::try_from("localhost").map_err(|error| Fault::of("name", &error))?;
        let connector = TlsConnector::from(config.clone());
        let tls = connector.connect(name, tcp).await.map_err(|error| Fault::of("handshake", &error))?;
        let kind = tls.get_ref().1.handshake_kind();
        Ok((Stream::Tls(Box::new(tls)), kind))
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let tcp = match self.source {
            None => TcpStream::connect(self.address).await?,
            Some(source) => {
                let socket = TcpSocket::new_v4()?;
                // Ports of connections that have just ended may be reused.
                socket.set_reuseaddr(true)?;
                socket.bind((source, 0).into())?;
                socket.connect(self.address).await?
            }
        };
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(cx),
        }
    }
}
