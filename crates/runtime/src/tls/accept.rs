//! The handshake of a listener's connections.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::external::{self, KeyFault};
use super::peer::PeerCertificate;
use super::server::{Server, ServerMaterial};
use super::{unix_time, verify};

/// Longest time, and most bytes, for which a rejected client is read. Closing with unread bytes makes the system send a reset,
/// which may overtake the alert that names the cause.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: u64 = 64 * 1024;

/// The cause for which a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The client presented no certificate although it must.
    #[error("the client showed no certificate")]
    NoCertificate,
    /// Its certificate was rejected; the sentence names the cause.
    #[error("{0}")]
    Certificate(String),
    /// The client does not use TLS, or no common parameters exist.
    #[error("no TLS could be agreed on: {0}")]
    Protocol(String),
    /// The client aborted the handshake: it may not trust the server's certificate.
    #[error("the client ended the handshake: {0}")]
    Client(String),
    /// The listener's key, which is on a token, does not sign.
    #[error("the listener's key does not sign: {0}")]
    Key(KeyFault),
    /// The connection failed during the handshake.
    #[error("the connection broke during the handshake: {0}")]
    Io(io::Error),
}

impl AcceptError {
    /// Returns a short name for a metric's label.
    pub fn class(&self) -> &'static str {
        match self {
            AcceptError::NoCertificate => "no_certificate",
            AcceptError::Certificate(_) => "certificate",
            AcceptError::Protocol(_) => "protocol",
            AcceptError::Client(_) => "client",
            AcceptError::Key(fault) => fault.reason,
            AcceptError::Io(_) => "io",
        }
    }

    pub(super) fn of(err: io::Error) -> Self {
        let Some(inner) = err.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
            return AcceptError::Io(err);
        };
        match inner {
            rustls::Error::NoCertificatesPresented => AcceptError::NoCertificate,
            rustls::Error::InvalidCertificate(_) => AcceptError::Certificate(verify::explain(inner)),
            rustls::Error::AlertReceived(alert) => AcceptError::Client(format!("{alert:?}")),
            other => AcceptError::Protocol(other.to_string()),
        }
    }
}

impl Server {
    /// Performs the server's part of a handshake. It verifies the client on a resumed one too: a ticket proves only that the
    /// client was accepted when it got the ticket. The caller sets a deadline; this has none.
    ///
    /// A rejected client gets an alert; one that resumed sees the end of the connection. With a key outside this process the
    /// signature is computed in another thread, for which the connection waits. `client` is the network of the client's address,
    /// which has a share of the handshakes that wait so.
    ///
    /// # Errors
    /// [`AcceptError`].
    pub async fn accept<IO>(
        &self,
        mut io: IO,
        client: Option<IpAddr>,
    ) -> Result<(TlsStream<IO>, Option<Arc<PeerCertificate>>), AcceptError>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let loaded = self.loaded.load_full();
        let acceptor = TlsAcceptor::from(Arc::clone(&loaded.config));
        let accepting = match &self.lane {
            None => acceptor.accept(io),
            Some(lane) => match external::handshake(&mut io, &loaded.config, lane, client).await {
                Ok(done) => acceptor.accept_with(io, |connection| *connection = done),
                Err(err) => {
                    linger(&mut io).await;
                    return Err(err);
                }
            },
        };
        match accepting.into_fallible().await {
            Err((err, mut io)) => {
                linger(&mut io).await;
                Err(AcceptError::of(err))
            }
            Ok(mut stream) => match self.peer(&loaded, &stream) {
                Ok(peer) => Ok((stream, peer)),
                Err(err) => {
                    let _ = stream.shutdown().await;
                    linger(stream.get_mut().0).await;
                    Err(err)
                }
            },
        }
    }

    /// Returns the client's certificate, verified under the rules that are loaded now.
    fn peer<IO>(
        &self,
        loaded: &ServerMaterial,
        stream: &TlsStream<IO>,
    ) -> Result<Option<Arc<PeerCertificate>>, AcceptError> {
        use rustls::server::danger::ClientCertVerifier;
        let Some(verifier) = &loaded.verifier else { return Ok(None) };
        let connection = stream.get_ref().1;
        let Some(chain) = connection.peer_certificates() else {
            return if verifier.client_auth_mandatory() { Err(AcceptError::NoCertificate) } else { Ok(None) };
        };
        let chain: Vec<CertificateDer<'static>> = chain.iter().map(|der| der.clone().into_owned()).collect();
        let peer = PeerCertificate::parse(chain).map_err(AcceptError::Certificate)?;
        // A full handshake has just verified it, and stored its verdict.
        let holds = verifier.verify(&peer.chain, unix_time(self.clock.now_ms()));
        let holds = holds.map_err(|err| AcceptError::Certificate(verify::explain(&err)))?;
        peer.verified(loaded.rules, holds.from_ms, holds.until_ms);
        // Other material may have been loaded meanwhile.
        self.still_valid(&peer).map_err(AcceptError::Certificate)?;
        Ok(Some(Arc::new(peer)))
    }
}

/// Shuts down the sending side, and waits until the other side does so too.
async fn linger<IO: AsyncRead + AsyncWrite + Unpin>(io: &mut IO) {
    let rest = async {
        io.shutdown().await?;
        let mut rest = io.take(LINGER_BYTES_MAX);
        let mut buffer = [0; 1024];
        while rest.read(&mut buffer).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(LINGER, rest).await;
}
