//! The handshake of a connection whose listener's key is outside this process.

use std::io;
use std::sync::Arc;

use rustls::{HandshakeKind, ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::signer::within_step;
use super::{KeyFault, Lane};
use crate::tls::AcceptError;

/// Bytes that are read at once.
const READ_LEN: usize = 4096;
/// The alert `internal_error` before any key is agreed (RFC 8446 section 6).
const INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Performs the server's part of a handshake. The steps in which rustls may sign run in threads apart, in turns; those
/// behind the signature, and those of a resumed session, run here.
pub(in crate::tls) async fn handshake<IO>(
    io: &mut IO,
    config: &Arc<ServerConfig>,
    lane: &Lane,
) -> Result<ServerConnection, AcceptError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let unusable = |err: rustls::Error| AcceptError::Protocol(err.to_string());
    let mut connection = ServerConnection::new(Arc::clone(config)).map_err(unusable)?;
    let mut may_sign = true;
    let mut buffer = vec![0; READ_LEN];
    while connection.is_handshaking() {
        let len = io.read(&mut buffer).await.map_err(AcceptError::Io)?;
        let mut rest = buffer.get(..len).unwrap_or_default();
        if rest.is_empty() {
            return Err(AcceptError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        while !rest.is_empty() {
            if connection.read_tls(&mut rest).map_err(AcceptError::Io)? == 0 {
                return Err(AcceptError::Io(io::Error::other("the handshake is too long")));
            }
            let processed = if may_sign {
                let outcome;
                (connection, outcome) = step(io, connection, lane).await?;
                may_sign = !outcome.has_signed && connection.handshake_kind() != Some(HandshakeKind::Resumed);
                outcome.processed
            } else {
                connection.process_new_packets().map(drop)
            };
            if let Err(err) = processed {
                // The alert is worth a try, and no more.
                let _ = flush(io, &mut connection).await;
                return Err(AcceptError::of(io::Error::new(io::ErrorKind::InvalidData, err)));
            }
        }
        flush(io, &mut connection).await.map_err(AcceptError::Io)?;
    }
    Ok(connection)
}

/// Result of a step in a thread apart.
struct StepOutcome {
    processed: Result<(), rustls::Error>,
    has_signed: bool,
}

/// Processes what was read in a thread apart, once the lane has a turn.
async fn step<IO: AsyncWrite + Unpin>(
    io: &mut IO,
    mut connection: ServerConnection,
    lane: &Lane,
) -> Result<(ServerConnection, StepOutcome), AcceptError> {
    let Some(turn) = lane.turns.turn(lane.number).await else {
        let text = "too many handshakes of this listener wait for its key".to_owned();
        return Err(without_key(io, KeyFault { reason: "key_busy", text, is_final: false }).await);
    };
    let processing = tokio::task::spawn_blocking(move || {
        let (processed, step) = within_step(|| connection.process_new_packets().map(drop));
        drop(turn);
        (connection, processed, step)
    });
    let (connection, processed, step) = processing.await.map_err(|err| AcceptError::Io(io::Error::other(err)))?;
    match step.fault {
        // Nothing of this step was sent.
        Some(fault) => Err(without_key(io, fault).await),
        None => Ok((connection, StepOutcome { processed, has_signed: step.has_signed })),
    }
}

async fn without_key<IO: AsyncWrite + Unpin>(io: &mut IO, fault: KeyFault) -> AcceptError {
    let _ = io.write_all(&INTERNAL_ERROR).await;
    AcceptError::Key(fault)
}

/// Sends what the connection has to send.
async fn flush<IO: AsyncWrite + Unpin>(io: &mut IO, connection: &mut ServerConnection) -> io::Result<()> {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes)?;
    }
    io.write_all(&bytes).await?;
    io.flush().await
}
