//! The handshake of a connection whose listener's key is outside this process.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::turns::Busy;
use super::{KeyFault, Lane, signer};
use crate::tls::AcceptError;

/// Bytes that are read at once.
const READ_LEN: usize = 4096;
/// Most bytes that a client may send before the signature: rustls reads messages of up to 64 KiB.
const HELLO_LEN_MAX: usize = 128 * 1024;
/// The alert `internal_error` before any key is agreed (RFC 8446 section 6).
const INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Bytes of a connection before its signature.
#[derive(Default)]
struct Prologue {
    /// Bytes that the client has sent so far.
    read: Vec<u8>,
    /// Bytes that were sent: those of a HelloRetryRequest, or none.
    sent: Vec<u8>,
}

/// Performs the server's part of a handshake.
///
/// Only rustls knows if a step needs a signature: sessions resume without one. Each step is processed here first. If it fails
/// because it needs a signature, the connection is processed again from its first byte in a thread apart, once the lane has a
/// turn. Until then the client got nothing, or a HelloRetryRequest, in which nothing is random.
pub(in crate::tls) async fn handshake<IO>(
    io: &mut IO,
    config: &Arc<ServerConfig>,
    lane: &Lane,
    client: Option<IpAddr>,
) -> Result<ServerConnection, AcceptError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = begin(config)?;
    let mut before = Some(Prologue::default());
    let mut buffer = vec![0; READ_LEN];
    while connection.is_handshaking() {
        let len = io.read(&mut buffer).await.map_err(AcceptError::Io)?;
        let bytes = buffer.get(..len).unwrap_or_default();
        if bytes.is_empty() {
            return Err(AcceptError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        if let Some(before) = &mut before {
            before.read.extend_from_slice(bytes);
            if before.read.len() > HELLO_LEN_MAX {
                return Err(AcceptError::Io(too_long()));
            }
        }
        let (mut processed, needs_key) = signer::without_key(|| process(&mut connection, bytes));
        if needs_key {
            let before = before.take().ok_or_else(|| AcceptError::Protocol("a second signature".into()))?;
            (connection, processed) = sign(io, begin(config)?, lane, client, before).await?;
        }
        if let Err(err) = processed {
            // The alert is worth a try, and no more.
            let _ = send(io, &output(&mut connection)?).await;
            return Err(AcceptError::of(err));
        }
        let bytes = output(&mut connection)?;
        if let Some(before) = &mut before {
            before.sent.extend_from_slice(&bytes);
        }
        send(io, &bytes).await.map_err(AcceptError::Io)?;
    }
    Ok(connection)
}

fn begin(config: &Arc<ServerConfig>) -> Result<ServerConnection, AcceptError> {
    ServerConnection::new(Arc::clone(config)).map_err(|err| AcceptError::Protocol(err.to_string()))
}

fn too_long() -> io::Error {
    io::Error::other("the handshake is too long")
}

/// Processes bytes of the client. An error of TLS is the inner one.
fn process(connection: &mut ServerConnection, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        if connection.read_tls(&mut bytes)? == 0 {
            return Err(too_long());
        }
        connection.process_new_packets().map_err(|err| io::Error::new(io::ErrorKind::InvalidData, err))?;
    }
    Ok(())
}

/// Processes a connection anew in a thread apart, once the lane has a turn, and sends what the client did not get yet.
async fn sign<IO: AsyncWrite + Unpin>(
    io: &mut IO,
    mut connection: ServerConnection,
    lane: &Lane,
    client: Option<IpAddr>,
    before: Prologue,
) -> Result<(ServerConnection, io::Result<()>), AcceptError> {
    let turn = match lane.turns.turn(lane.number, client).await {
        Ok(turn) => turn,
        Err(busy) => return Err(without_key(io, busy.into()).await),
    };
    let processing = tokio::task::spawn_blocking(move || {
        let (processed, fault) = signer::with_key(|| process(&mut connection, &before.read));
        drop(turn);
        (connection, processed, fault, before.sent)
    });
    let processing = processing.await.map_err(|err| AcceptError::Io(io::Error::other(err)))?;
    let (mut connection, processed, fault, sent) = processing;
    if let Some(fault) = fault {
        return Err(without_key(io, fault).await);
    }
    let bytes = output(&mut connection)?;
    let Some(unsent) = bytes.strip_prefix(sent.as_slice()) else {
        return Err(AcceptError::Protocol("the first answer was another one".into()));
    };
    send(io, unsent).await.map_err(AcceptError::Io)?;
    Ok((connection, processed))
}

impl From<Busy> for KeyFault {
    fn from(busy: Busy) -> Self {
        let (reason, text) = match busy {
            Busy::Listener => ("key_busy", "too many handshakes of this listener wait for its key"),
            Busy::Client => ("key_busy_client", "too many handshakes of this client wait for the listener's key"),
        };
        KeyFault { reason, text: text.to_owned(), is_final: false }
    }
}

async fn without_key<IO: AsyncWrite + Unpin>(io: &mut IO, fault: KeyFault) -> AcceptError {
    let _ = io.write_all(&INTERNAL_ERROR).await;
    AcceptError::Key(fault)
}

/// Returns what the connection has to send.
fn output(connection: &mut ServerConnection) -> Result<Vec<u8>, AcceptError> {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes).map_err(AcceptError::Io)?;
    }
    Ok(bytes)
}

async fn send<IO: AsyncWrite + Unpin>(io: &mut IO, bytes: &[u8]) -> io::Result<()> {
    io.write_all(bytes).await?;
    io.flush().await
}
