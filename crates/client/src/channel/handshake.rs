//! Runs the handshake over a WebSocket, for either role.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use sealway_proto::channel::{Handshake, Opener, Progress, Sealer};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::error::{Error, Stage};
use super::socket::Socket;

/// Time bounds of a handshake.
pub(crate) struct Waits {
    /// Longest wait for the peer's first message.
    pub(crate) peer: Duration,
    /// Longest time from the first message to the end.
    pub(crate) rest: Duration,
    /// Advice for the error of a handshake that times out; may be empty.
    pub(crate) hint: &'static str,
}

/// Runs a handshake to its end. `first` is sent before anything is read. `heard` is called at the peer's first message.
///
/// # Errors
/// Of the stage `attach` if the relay closes the connection before the peer's first message, else of `handshake`.
pub(crate) async fn run(
    socket: &mut Socket,
    mut handshake: Handshake,
    first: Option<Vec<u8>>,
    waits: Waits,
    heard: impl FnOnce(),
) -> Result<(Sealer, Opener), Error> {
    let begun = async {
        if let Some(first) = first {
            send(socket, first).await?;
        }
        next(socket, Stage::Attach).await
    };
    let message = tokio::time::timeout(waits.peer, begun).await;
    let mut message = message.map_err(|_| {
        Error::new(Stage::Handshake, "timeout", format!("the peer did not come within {:?}", waits.peer))
    })??;
    heard();
    let rest = async {
        loop {
            match handshake.read(&message, now_s()).map_err(|err| Error::of_core(&err))? {
                Progress::Wait => {}
                Progress::Send(answer) => send(socket, answer).await?,
                Progress::SendThenDone(answer) => return send(socket, answer).await,
                Progress::Done => return Ok(()),
            }
            message = next(socket, Stage::Handshake).await?;
        }
    };
    tokio::time::timeout(waits.rest, rest).await.map_err(|_| {
        Error::new(
            Stage::Handshake,
            "timeout",
            format!("the handshake was not done within {:?}{}", waits.rest, waits.hint),
        )
    })??;
    handshake.into_records().map_err(|err| Error::of_core(&err))
}

/// Waits for the peer's next message.
async fn next(socket: &mut Socket, stage: Stage) -> Result<Bytes, Error> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Binary(message))) => return Ok(message),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Text(_))) => {
                return Err(Error::new(Stage::Handshake, "unexpected_text_frame", "a text message in the handshake"));
            }
            Some(Ok(Message::Close(frame))) => {
                return Err(Error::closed(
                    stage,
                    frame.as_ref().map(|frame| (frame.code.into(), frame.reason.as_str())),
                ));
            }
            Some(Err(err)) => return Err(broken(stage, &err)),
            None => return Err(Error::closed(stage, None)),
        }
    }
}

async fn send(socket: &mut Socket, message: Vec<u8>) -> Result<(), Error> {
    let sent = socket.send(Message::Binary(Bytes::from(message))).await;
    sent.map_err(|err| broken(Stage::Handshake, &err))
}

fn broken(stage: Stage, err: &WsError) -> Error {
    match err {
        WsError::ConnectionClosed | WsError::AlreadyClosed => Error::closed(stage, None),
        WsError::Capacity(_) => Error::new(stage, "record_too_large", "a message is longer than 1 MiB"),
        // A v1 relay closes connections without a close frame.
        WsError::Protocol(_) => Error::new(stage, "closed", format!("the connection was closed without a word: {err}")),
        _ => Error::new(stage, "connection_lost", format!("the connection broke: {err}")),
    }
}

/// Seconds since 1970, which handshakes carry to detect old ones.
#[expect(clippy::disallowed_methods, reason = "the SDK's own door to the wall clock")]
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default()
}
