//! Sealed records over a WebSocket, as one byte stream in both directions, below the multiplexed streams.
//!
//! Written bytes are gathered until they are flushed or fill a record; a record is one message. Pings, pongs and key
//! changes are sent at a flush or a read, once the pulse has them due.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::io::{AsyncRead, AsyncWrite};
use futures_util::{Sink, Stream, StreamExt};
use sealway_proto::channel::{CloseReason, Content, Opener, RecordContent, Sealer};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::ends::{Ends, Frames, HEADER_LEN};
use super::error::{Error, Stage};
use super::pulse::{Due, Pulse};
use super::socket::Socket;

/// Byte stream of records. When the multiplexing library drops it, its [`Records`] go back to the task that made it:
/// the peer's close record comes after the last frame of streams.
pub(crate) struct Secure {
    records: Option<Records>,
    back: Option<oneshot::Sender<Records>>,
}

impl Secure {
    pub(crate) fn new(records: Records) -> (Self, oneshot::Receiver<Records>) {
        let (back, taken_back) = oneshot::channel();
        (Secure { records: Some(records), back: Some(back) }, taken_back)
    }

    fn records(&mut self) -> io::Result<&mut Records> {
        self.records.as_mut().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        if let (Some(records), Some(back)) = (self.records.take(), self.back.take()) {
            let _ = back.send(records);
        }
    }
}

/// Both directions of a channel's records, on their socket.
pub(crate) struct Records {
    socket: Socket,
    sealer: Sealer,
    opener: Opener,
    pulse: Arc<Pulse>,
    ends: Arc<Ends>,
    /// Parsers of streams' frames, up to the bytes that the library has read and written.
    frames_in: Frames,
    frames_out: Frames,
    /// Opened plaintext that the library has not read yet.
    unread: Bytes,
    /// Written plaintext that is not sealed yet, at most a record.
    unsealed: Vec<u8>,
    /// A message that the socket had no room for.
    unsent: Option<Message>,
    has_said_last_words: bool,
    is_native: bool,
}

impl Records {
    pub(crate) fn new(socket: Socket, keys: (Sealer, Opener), pulse: Arc<Pulse>, is_native: bool) -> Self {
        let (sealer, opener) = keys;
        Records {
            socket,
            sealer,
            opener,
            pulse,
            ends: Arc::default(),
            frames_in: Frames::default(),
            frames_out: Frames::default(),
            unread: Bytes::new(),
            unsealed: Vec::new(),
            unsent: None,
            has_said_last_words: false,
            is_native,
        }
    }

    /// True for the native profile, false for v1.
    pub(crate) fn is_native(&self) -> bool {
        self.is_native
    }

    /// Ends of streams, as the frames show them.
    pub(crate) fn ends(&self) -> Arc<Ends> {
        self.ends.clone()
    }

    /// Counter of bytes on the connection so far, both directions together.
    pub(crate) fn moved(&self) -> Arc<AtomicU64> {
        self.socket.get_ref().moved()
    }

    /// Records the reason of the channel's end, and returns it as an I/O error for readers and writers.
    fn end(&self, err: Error) -> io::Error {
        self.pulse.ends(err.clone());
        io::Error::other(err)
    }

    fn lost(&self, err: &WsError) -> io::Error {
        let (code, text) = match err {
            WsError::ConnectionClosed | WsError::AlreadyClosed => ("closed", "the connection is closed".to_owned()),
            // Endpoints and relays of v1 end every channel like this.
            WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                ("closed", "the connection was closed without a word".to_owned())
            }
            WsError::Capacity(_) => ("record_too_large", "a message is longer than 1 MiB".to_owned()),
            WsError::Protocol(_) | WsError::Utf8(_) => ("websocket_malformed", format!("no WebSocket message: {err}")),
            _ => ("connection_lost", format!("the connection broke: {err}")),
        };
        self.end(Error::new(Stage::Record, code, text))
    }

    fn seal(&mut self, content: Content) -> io::Result<Message> {
        let plaintext = if matches!(content, Content::Data) { std::mem::take(&mut self.unsealed) } else { Vec::new() };
        let mut out = Vec::with_capacity(plaintext.len() + RECORD_OVERHEAD);
        let sealed = self.sealer.seal(content, &plaintext, &mut out, self.pulse.now_ms());
        sealed.map_err(|err| self.end(Error::of_core(&err)))?;
        if plaintext.capacity() > 0 {
            // The buffer is used again for the next record.
            self.unsealed = plaintext;
            self.unsealed.clear();
        }
        self.pulse.count_out();
        Ok(Message::Binary(out.into()))
    }

    /// Hands the socket the waiting message, a record of the written bytes, and the due messages. Ready once nothing
    /// waits.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.unsent.is_some() {
                ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(|err| self.lost(&err))?;
                if let Some(message) = self.unsent.take() {
                    Pin::new(&mut self.socket).start_send(message).map_err(|err| self.lost(&err))?;
                }
            }
            let next = if !self.unsealed.is_empty() {
                self.seal(Content::Data)?
            } else if let Some(due) = self.pulse.take_due() {
                match (due, self.is_native) {
                    (Due::Ping(id), true) => self.seal(Content::Ping(id))?,
                    // The record resets the relay's idle timer and gets no answer; the WebSocket ping below is answered
                    // by the next hop.
                    (Due::Ping(id), false) => {
                        let record = self.seal(Content::Ping(0))?;
                        self.unsent = Some(record);
                        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(|err| self.lost(&err))?;
                        if let Some(record) = self.unsent.take() {
                            Pin::new(&mut self.socket).start_send(record).map_err(|err| self.lost(&err))?;
                        }
                        Message::Ping(Bytes::copy_from_slice(&id.to_be_bytes()))
                    }
                    (Due::Pong(id), _) => self.seal(Content::Pong(id))?,
                    (Due::Rekey, _) => self.seal(Content::Rekey)?,
                }
            } else {
                return Poll::Ready(Ok(()));
            };
            self.unsent = Some(next);
        }
    }

    /// Handles one message of the peer. `Ok(false)`: the peer ended the channel in order.
    fn take_in(&mut self, message: Message) -> io::Result<bool> {
        self.pulse.heard();
        match message {
            Message::Binary(message) => {
                self.pulse.count_in();
                self.open(message)
            }
            Message::Text(_) => {
                Err(self.end(Error::new(Stage::Record, "unexpected_text_frame", "a text message among records")))
            }
            Message::Pong(data) => {
                if let Ok(id) = <[u8; 8]>::try_from(data.as_ref()) {
                    self.pulse.ponged(u64::from_be_bytes(id));
                }
                Ok(true)
            }
            Message::Close(frame) => {
                let frame = frame.as_ref().map(|frame| (u16::from(frame.code), frame.reason.as_str()));
                self.pulse.ends(Error::closed(Stage::Record, frame));
                Ok(false)
            }
            Message::Ping(_) | Message::Frame(_) => Ok(true),
        }
    }

    fn open(&mut self, message: Bytes) -> io::Result<bool> {
        // The message has no other owner, so it is decrypted in place.
        let mut message = message.try_into_mut().unwrap_or_else(|shared| BytesMut::from(shared.as_ref()));
        let start = message.as_ptr() as usize;
        let opened = match self.opener.open(&mut message) {
            Ok(RecordContent::Data(plaintext)) => {
                let from = plaintext.as_ptr() as usize - start;
                Some(from..from + plaintext.len())
            }
            Ok(RecordContent::Ping(id)) => {
                if self.is_native {
                    self.pulse.send(Due::Pong(id));
                }
                None
            }
            Ok(RecordContent::Pong(id)) => {
                self.pulse.ponged(id);
                None
            }
            Ok(RecordContent::Rekeyed) => None,
            Ok(RecordContent::Closed(CloseReason { code, reason })) => {
                let text = format!("the peer ended the channel with the code {code}: {}", reason.escape_debug());
                self.pulse.ends(Error::new(Stage::Record, "ended", text));
                return Ok(false);
            }
            Err(err) => return Err(self.end(Error::of_core(&err))),
        };
        if let Some(range) = opened {
            self.unread = message.freeze().slice(range);
        }
        Ok(true)
    }
}

/// Bytes of a header and a tag, and of a key change before the record.
const RECORD_OVERHEAD: usize = 128;

impl Records {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        while self.unread.is_empty() {
            let message = match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Ready(Some(Ok(message))) => message,
                Poll::Ready(Some(Err(err))) => return Poll::Ready(Err(self.lost(&err))),
                Poll::Ready(None) => {
                    self.pulse.ends(Error::closed(Stage::Record, None));
                    return Poll::Ready(Ok(0));
                }
                Poll::Pending => {
                    // Messages that reading has made due are sent now, not at the next write.
                    if let Poll::Ready(Err(err)) = self.poll_out(cx) {
                        return Poll::Ready(Err(err));
                    }
                    if let Poll::Ready(Err(err)) = Pin::new(&mut self.socket).poll_flush(cx) {
                        return Poll::Ready(Err(self.lost(&err)));
                    }
                    return Poll::Pending;
                }
            };
            if !self.take_in(message)? {
                return Poll::Ready(Ok(0));
            }
        }
        let len = buf.len().min(self.unread.len());
        buf[..len].copy_from_slice(&self.unread.split_to(len));
        self.frames_in.read(&buf[..len], &self.ends);
        Poll::Ready(Ok(len))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        // A header fits into one record whole: its flags may be rewritten before it is sealed.
        if self.unsealed.len() + HEADER_LEN > self.sealer.plaintext_max() {
            ready!(self.poll_out(cx))?;
        }
        let (start, len) = (self.unsealed.len(), buf.len().min(self.sealer.plaintext_max() - self.unsealed.len()));
        self.unsealed.extend_from_slice(&buf[..len]);
        self.frames_out.write(&mut self.unsealed[start..], &self.ends);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        ready!(Pin::new(&mut self.socket).poll_flush(cx)).map_err(|err| self.lost(&err))?;
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        if !self.has_said_last_words {
            self.has_said_last_words = true;
            let (code, reason) = self.pulse.last_words().unwrap_or_default();
            let is_plain = !self.is_native;
            if !is_plain {
                let close = self.seal(Content::Close(CloseReason { code, reason: reason.clone() }))?;
                Pin::new(&mut self.socket).start_send(close).map_err(|err| self.lost(&err))?;
            }
            // If a record carries the reason, the relay need not see it.
            let reason = if is_plain { reason } else { String::new() };
            let frame = CloseFrame { code: CloseCode::Normal, reason: reason.into() };
            Pin::new(&mut self.socket).start_send(Message::Close(Some(frame))).map_err(|err| self.lost(&err))?;
        }
        // The peer's close frame is not awaited: the records have ended the channel.
        match ready!(Pin::new(&mut self.socket).poll_flush(cx)) {
            Ok(()) | Err(WsError::ConnectionClosed) => Poll::Ready(Ok(())),
            Err(err) => Poll::Ready(Err(self.lost(&err))),
        }
    }

    /// Reads after this side's close until the peer closes too, or is silent for `silent_max`. Messages are discarded.
    pub(crate) async fn hear_out(mut self, silent_max: Duration) {
        while let Ok(Some(Ok(_))) = timeout(silent_max, self.socket.next()).await {}
    }

    /// Reads on after the last frame of streams, up to the peer's close or the end of the connection. The pulse then
    /// holds the reason.
    pub(crate) async fn hear_last_words(mut self) {
        while let Some(Ok(message)) = self.socket.next().await {
            if !matches!(self.take_in(message), Ok(true)) {
                return;
            }
        }
    }
}

impl AsyncRead for Secure {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.records()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Secure {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.records()?.poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.records()?.poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.records()?.poll_close(cx)
    }
}
