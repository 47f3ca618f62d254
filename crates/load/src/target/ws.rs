//! WebSocket: opening performs the upgrade, a request is one message, and its answer is the next message.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use http::Uri;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::connect::Opener;
use super::observed::{ObservedStream, StreamRecord};
use super::stream::{OpenStream, Stream};
use super::{Sample, classify, keep};
use crate::record::{Class, Failure, GaugeGuard};
use crate::request::CurrentRequest;

/// Maximum size of a message and of a frame, in bytes.
const MESSAGE_LEN_MAX: usize = 64 * 1024 * 1024;
/// Size of a connection's read buffer, in bytes.
const BUFFER_LEN: usize = 4 * 1024;
/// Maximum time of the closing handshake.
const FINISH_MAX: Duration = Duration::from_secs(2);

/// Connection that was upgraded to WebSocket.
pub(crate) struct WebSocket {
    socket: WebSocketStream<ObservedStream<Stream>>,
    seen: Arc<StreamRecord>,
    is_closed: bool,
    _open: GaugeGuard,
}

impl WebSocket {
    /// Opens a connection and upgrades it.
    ///
    /// # Errors
    /// A failure that says why there is no connection; of class `Status` if the server answers without upgrading.
    pub(crate) async fn open(
        opener: &Opener,
        request: http::Request<()>,
        sample: &mut Sample,
    ) -> Result<Self, Failure> {
        let OpenStream { stream, to, open } = opener.stream(sample).await?;
        let seen = StreamRecord::new(to.to_string());
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER_LEN)
            .write_buffer_size(0)
            .max_message_size(Some(MESSAGE_LEN_MAX))
            .max_frame_size(Some(MESSAGE_LEN_MAX));
        let stream = ObservedStream::new(stream, seen.clone());
        let upgraded = tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
        seen.add_bytes(sample);
        match upgraded {
            Ok((socket, _)) => Ok(WebSocket { socket, seen, is_closed: false, _open: open }),
            Err(Error::Http(answer)) => {
                let status = answer.status().as_u16();
                sample.status = status;
                let words = format!("{} does not upgrade to WebSocket: it responds with status {status}", seen.to());
                Err(Failure::new(Class::Status, words))
            }
            Err(err) => Err(failure_of(&err, &seen)),
        }
    }

    /// Returns whether the last exchange succeeded.
    pub(crate) fn keeps(&self) -> bool {
        !self.is_closed
    }

    /// Returns whether another message can be sent. Discards unsolicited messages.
    pub(crate) async fn is_open(&mut self) -> bool {
        if self.is_closed {
            return false;
        }
        let socket = &mut self.socket;
        std::future::poll_fn(|cx| {
            loop {
                match socket.poll_next_unpin(cx) {
                    Poll::Pending => return Poll::Ready(true),
                    Poll::Ready(Some(Ok(message))) if !message.is_close() => {}
                    Poll::Ready(_) => return Poll::Ready(false),
                }
            }
        })
        .await
    }

    /// Sends a message and waits for the next one.
    ///
    /// # Errors
    /// A failure of the transport, or of the answer.
    pub(crate) async fn exchange(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        self.is_closed = true;
        let answered = self.talk(prepared, sample).await;
        self.seen.add_bytes(sample);
        answered?;
        self.is_closed = false;
        prepared.check(0)
    }

    async fn talk(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        let sent = prepared.sent();
        let message = match std::str::from_utf8(&sent) {
            Ok(text) => Message::text(text),
            Err(_) => Message::binary(sent),
        };
        let sending = Instant::now();
        self.socket.send(message).await.map_err(|err| failure_of(&err, &self.seen))?;
        loop {
            let message = match self.socket.next().await {
                Some(Ok(message)) => message,
                Some(Err(err)) => return Err(failure_of(&err, &self.seen)),
                None => return Err(closed(&self.seen)),
            };
            let data = match &message {
                Message::Text(text) => text.as_bytes(),
                Message::Binary(bytes) => bytes,
                Message::Close(frame) => {
                    let why = frame.as_ref().map_or_else(String::new, |frame| format!(": {}", u16::from(frame.code)));
                    return Err(Failure::new(Class::Closed, format!("{} closed the WebSocket{why}", self.seen.to())));
                }
                _ => continue,
            };
            let now = Instant::now();
            sample.first_byte = Some(now - sending);
            sample.ended = Some(now);
            if let Some(kept) = prepared.body() {
                keep(kept, data)?;
            }
            return Ok(());
        }
    }

    /// Closes the connection and waits for the server's close frame.
    pub(crate) async fn finish(mut self) {
        let goodbye = async {
            if self.socket.close(None).await.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        let _ = tokio::time::timeout(FINISH_MAX, goodbye).await;
    }
}

/// Builds the upgrade request with the headers of the plan's request.
pub(super) fn request(url: &Uri, prepared: &CurrentRequest) -> Result<http::Request<()>, Failure> {
    let internal = |err: &dyn std::fmt::Display| Failure::new(Class::Internal, err);
    let mut parts = url.clone().into_parts();
    parts.path_and_query = Some(prepared.path()?);
    let is_secure = matches!(url.scheme_str(), Some("wss" | "https"));
    parts.scheme = Some(if is_secure { "wss" } else { "ws" }.parse().map_err(|err| internal(&err))?);
    let url = Uri::from_parts(parts).map_err(|err| internal(&err))?;
    let mut request = url.into_client_request().map_err(|err| internal(&err))?;
    for (name, value) in prepared.headers()? {
        if let Some(name) = name {
            request.headers_mut().insert(name, value);
        }
    }
    Ok(request)
}

fn closed(seen: &StreamRecord) -> Failure {
    seen.failure().unwrap_or_else(|| Failure::new(Class::Closed, format!("{} closed the connection", seen.to())))
}

fn failure_of(err: &Error, seen: &StreamRecord) -> Failure {
    use tokio_tungstenite::tungstenite::error::ProtocolError;
    match err {
        Error::ConnectionClosed | Error::AlreadyClosed => closed(seen),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake | ProtocolError::HandshakeIncomplete) => {
            closed(seen)
        }
        Error::Io(err) => seen.failure().unwrap_or_else(|| classify::of(err, classify::At::Exchange, seen.to())),
        Error::Capacity(err) => {
            Failure::new(Class::Malformed, format!("a message of {} is too long: {err}", seen.to()))
        }
        err => Failure::new(
            Class::Malformed,
            format!("{} violated the WebSocket protocol: {}", seen.to(), classify::chain(err)),
        ),
    }
}
