//! Messages of the peer as their readers take them: heads, bodies, trailers, and readers that leave.

use std::task::{Context, Poll};

use http::StatusCode;

use super::connection::{Connection, Piece, Role};
use super::error::Reason;
use super::message::ResponseHead;
use super::stream::{Finish, Progress, StreamError};

impl Connection {
    /// Polls the next part of the message that the peer sends on a stream: its body, then its trailers. `None` is its end, which
    /// the peer has sent.
    ///
    /// # Errors
    /// The message ended early.
    pub fn poll_piece(&mut self, id: u32, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, StreamError>>> {
        let gone = self.error.unwrap_or(StreamError::Closed);
        let now = self.now;
        let Some(stream) = self.stream(id) else { return Poll::Ready(Some(Err(gone))) };
        if let Some(data) = stream.data.pop_front() {
            stream.read_at = now;
            self.give_back(id, data.len(), true);
            return Poll::Ready(Some(Ok(Piece::data(data))));
        }
        if let Some(trailers) = stream.trailers.take() {
            return Poll::Ready(Some(Ok(Piece::trailers(trailers))));
        }
        if stream.received == Progress::All {
            return Poll::Ready(None);
        }
        if let Some(error) = stream.error {
            return Poll::Ready(Some(Err(error)));
        }
        register(&mut stream.reader, cx);
        if std::mem::take(&mut stream.awaits_continue) {
            self.interim(id, StatusCode::CONTINUE, &http::HeaderMap::new());
        }
        Poll::Pending
    }

    /// Polls the next response on a stream: interim ones, then the final one.
    ///
    /// # Errors
    /// There is no response.
    pub fn poll_response(&mut self, id: u32, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, StreamError>> {
        let gone = self.error.unwrap_or(StreamError::Closed);
        let Some(stream) = self.stream(id) else { return Poll::Ready(Err(gone)) };
        if let Some(head) = stream.heads.pop_front() {
            return Poll::Ready(Ok(head));
        }
        if let Some(error) = stream.error {
            return Poll::Ready(Err(error));
        }
        register(&mut stream.reader, cx);
        Poll::Pending
    }

    /// Returns whether the whole message of the peer was received and read.
    pub fn is_read(&mut self, id: u32) -> bool {
        self.stream(id).is_none_or(|stream| {
            stream.received == Progress::All && stream.data.is_empty() && stream.trailers.is_none()
        })
    }

    /// Returns the length of the data of a message that has arrived whole, and was not read yet. `None` while more is to come.
    pub fn whole_len(&mut self, id: u32) -> Option<usize> {
        let stream = self.stream(id).filter(|stream| stream.received == Progress::All)?;
        Some(stream.data.iter().map(bytes::Bytes::len).sum())
    }

    /// Drops the data of the peer's message as it arrives: only its end and its trailers are read.
    pub fn skip_data(&mut self, id: u32) {
        let Some(stream) = self.stream(id) else { return };
        stream.skips_data = true;
        let unread: usize = stream.data.drain(..).map(|data| data.len()).sum();
        if unread > 0 {
            self.give_back(id, unread, true);
        }
    }

    /// Notes that nobody reads the rest of the peer's message.
    pub fn drop_reader(&mut self, id: u32) {
        let role = self.role;
        let Some(stream) = self.stream(id) else { return };
        let was_closed = stream.is_closed();
        stream.has_reader = false;
        stream.reader = None;
        stream.trailers = None;
        let unread: usize = stream.data.drain(..).map(|data| data.len()).sum();
        let is_incomplete = stream.received != Progress::All && !was_closed;
        // A response that is not wanted is stopped. A request's rest is stopped once it is answered.
        let is_answered = matches!(stream.finish, Finish::Sent);
        if unread > 0 {
            self.give_back(id, unread, false);
        }
        if is_incomplete && (role == Role::Client || is_answered) {
            let reason = if is_answered && role == Role::Server { Reason::NoError } else { Reason::Cancel };
            self.end_stream(id, reason, StreamError::GivenUp(reason));
        } else {
            self.settle(id, was_closed);
        }
    }
}

/// Registers a task, which replaces one that waited before.
pub(super) fn register(slot: &mut Option<std::task::Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}
