//! Connections to a server: names, addresses, sockets and TLS, all within one deadline.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::io::Io;

/// Idle time before TCP keepalive probes; the kernel detects a vanished peer after about two minutes.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_RETRIES: u32 = 3;

/// Network address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// TLS settings for a server.
#[derive(Clone, Debug)]
pub(super) struct TlsSetup {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

/// Reason for a missing connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// The connection failed, with the reason.
    #[error("{0}")]
    Failed(String),
    /// The connection was not made in time.
    #[error("no connection in time")]
    TimedOut,
    /// All permitted connections are in use.
    #[error("all connections are in use")]
    Overloaded,
}

/// Connects within `time`. Returns true in the second part if HTTP/2 was negotiated.
pub(super) async fn connect(place: &Place, tls: Option<TlsSetup>, time: Duration) -> Result<(Io, bool), ConnectError> {
    let until = Instant::now() + time;
    let connecting = async {
        let stream = match place {
            Place::Unix(path) => return UnixStream::connect(path).await.map(|stream| (Io::Unix(stream), false)),
            Place::Tcp { host, port } => connect_tcp(host, *port, until).await?,
        };
        let Some(tls) = tls else { return Ok((Io::Tcp(stream), false)) };
        let stream = TlsConnector::from(tls.config).connect(tls.name, stream).await?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Io::Tls(Box::new(stream)), is_h2))
    };
    match timeout_at(until, connecting).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(err)) if err.kind() == io::ErrorKind::TimedOut => Err(ConnectError::TimedOut),
        Ok(Err(err)) => Err(ConnectError::Failed(err.to_string())),
        Err(_) => Err(ConnectError::TimedOut),
    }
}

/// Tries each address of a name in turn, each with its share of the remaining time.
async fn connect_tcp(host: &str, port: u16, until: Instant) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (index, address) in addresses.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                let keepalive = TcpKeepalive::new()
                    .with_time(KEEPALIVE)
                    .with_interval(KEEPALIVE_INTERVAL)
                    .with_retries(KEEPALIVE_RETRIES);
                let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
                return Ok(stream);
            }
            Ok(Err(err)) => last = err,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}
