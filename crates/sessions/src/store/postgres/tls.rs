//! TLS for the PostgreSQL client library. The configuration decides which authorities are trusted.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};

/// Makes verified connections, or plain ones without a configuration.
#[derive(Clone)]
pub(super) struct MakeTls(pub(super) Option<Arc<rustls::ClientConfig>>);

/// TLS for the connection to one host.
pub(super) struct Tls {
    config: Option<Arc<rustls::ClientConfig>>,
    name: String,
}

/// A failed handshake. If the server's certificate is at fault, retries fail until an operator acts.
#[derive(Debug)]
pub(super) struct TlsFault {
    text: String,
    /// True if a retry is useless.
    pub(super) is_lasting: bool,
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for TlsFault {}

impl From<io::Error> for TlsFault {
    fn from(err: io::Error) -> Self {
        let is_lasting = err.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
        TlsFault { text: err.to_string(), is_lasting }
    }
}

impl MakeTlsConnect<Socket> for MakeTls {
    type Stream = Stream;
    type TlsConnect = Tls;
    type Error = TlsFault;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Tls, TlsFault> {
        Ok(Tls { config: self.0.clone(), name: domain.to_owned() })
    }
}

impl TlsConnect<Socket> for Tls {
    type Stream = Stream;
    type Error = TlsFault;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, TlsFault>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let lasting = |text: String| TlsFault { text, is_lasting: true };
            let config = self.config.ok_or_else(|| lasting("TLS is not configured".into()))?;
            let name = ServerName::try_from(self.name).map_err(|err| lasting(format!("host name: {err}")))?;
            Ok(Stream(TlsConnector::from(config).connect(name, stream).await?))
        })
    }
}

/// A connection with verified TLS.
pub(super) struct Stream(client::TlsStream<Socket>);

impl TlsStream for Stream {
    // The server's certificate is verified; SCRAM needs no second proof of its identity.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
