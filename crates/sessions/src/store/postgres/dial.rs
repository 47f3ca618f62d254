//! Opening of connections: over the system's network, or over streams of a given dialer.

use sealway_runtime::dial::{ByteStream, Dialer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls};

use super::fault::Fault;
use super::tls::MakeTls;

/// Opens a connection to a server, and passes the payload of each notification to `heard`; returns its client and the task
/// that drives it. The streams of a dialer are plain.
pub(super) async fn open(
    server: &tokio_postgres::Config,
    tls: MakeTls,
    dialer: Option<&Dialer>,
    heard: impl Fn(&str) + Send + 'static,
) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
    match dialer {
        None => {
            let (client, connection) = server.connect(tls).await?;
            Ok((client, tokio::spawn(drive(connection, heard))))
        }
        Some(dialer) => {
            let (client, connection) = server.connect_raw(dial(dialer, server).await, NoTls).await?;
            Ok((client, tokio::spawn(drive(connection, heard))))
        }
    }
}

/// Opens a stream to the first host that can be reached; without one, a stream that is at its end.
async fn dial(dialer: &Dialer, server: &tokio_postgres::Config) -> Box<dyn ByteStream> {
    let ports = server.get_ports();
    for (index, host) in server.get_hosts().iter().enumerate() {
        let Host::Tcp(host) = host else { continue };
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        if let Ok(stream) = dialer.0.dial(host, port).await {
            return stream;
        }
    }
    Box::new(tokio::io::join(tokio::io::empty(), tokio::io::sink()))
}

async fn drive<S, T>(mut connection: Connection<S, T>, heard: impl Fn(&str))
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notification(note)) => heard(note.payload()),
            Ok(_) => {}
            Err(err) => {
                tracing::debug!(err = %Fault::from(err), "a connection to PostgreSQL ended");
                return;
            }
        }
    }
}
