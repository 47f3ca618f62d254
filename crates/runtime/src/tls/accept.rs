//! The handshake of a listener's connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::peer::PeerCertificate;
use super::server::{Loaded, Server};
use super::{unix_time, verify};

/// How long, and for how many bytes, a refused client is listened to. Closing on bytes that were not read makes the
/// system send a reset, which may overtake the alert that says why.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: u64 = 64 * 1024;

/// Why a handshake did not come to an end.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The client showed no certificate and had to.
    #[error("the client showed no certificate")]
    NoCertificate,
    /// Its certificate was refused; the sentence says why.
    #[error("{0}")]
    Certificate(String),
    /// It speaks no TLS, or none that can be agreed on.
    #[error("no TLS could be agreed on: {0}")]
    Protocol(String),
    /// It said that it does not go on: it does not trust our certificate, perhaps.
    #[error("the client ended the handshake: {0}")]
    Client(String),
    /// The connection broke.
    #[error("the connection broke during the handshake: {0}")]
    Io(io::Error),
}

impl AcceptError {
    /// A short name for a metric's label.
    pub fn class(&self) -> &'static str {
        match self {
            AcceptError::NoCertificate => "no_certificate",
            AcceptError::Certificate(_) => "certificate",
            AcceptError::Protocol(_) => "protocol",
            AcceptError::Client(_) => "client",
            AcceptError::Io(_) => "io",
        }
    }

    fn of(err: io::Error) -> Self {
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
    /// Does the server's part of a handshake. The client is verified on a resumed one too: a ticket proves only that it
    /// was let in when it got the ticket. Who calls puts a deadline on it, for it has none.
    ///
    /// A refused client is told by an alert; one that resumed is told by the end of the connection.
    ///
    /// # Errors
    /// [`AcceptError`].
    pub async fn accept<IO>(&self, io: IO) -> Result<(TlsStream<IO>, Option<Arc<PeerCertificate>>), AcceptError>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let loaded = self.loaded.load_full();
        match TlsAcceptor::from(Arc::clone(&loaded.config)).accept(io).into_fallible().await {
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

    /// Who is at the other end, verified under what is loaded now.
    fn peer<IO>(&self, loaded: &Loaded, stream: &TlsStream<IO>) -> Result<Option<Arc<PeerCertificate>>, AcceptError> {
        use rustls::server::danger::ClientCertVerifier;
        let Some(verifier) = &loaded.verifier else { return Ok(None) };
        let connection = stream.get_ref().1;
        let Some(chain) = connection.peer_certificates() else {
            return if verifier.client_auth_mandatory() { Err(AcceptError::NoCertificate) } else { Ok(None) };
        };
        let chain: Vec<CertificateDer<'static>> = chain.iter().map(|der| der.clone().into_owned()).collect();
        let peer = PeerCertificate::parse(chain).map_err(AcceptError::Certificate)?;
        // A full handshake has just verified it, and left its verdict.
        let holds = verifier.verify(&peer.chain, unix_time(self.clock.now_ms()));
        let holds = holds.map_err(|err| AcceptError::Certificate(verify::explain(&err)))?;
        peer.verified(loaded.rules, holds.from_ms, holds.until_ms);
        // Other material may have come into force meanwhile.
        self.still_valid(&peer).map_err(AcceptError::Certificate)?;
        Ok(Some(Arc::new(peer)))
    }
}

/// Says that nothing more comes, and waits for the other side to say so too.
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
