//! Frames about the connection and its streams that carry no message: settings, windows, resets and the end.

use super::connection::{Connection, Role};
use super::error::{ConnectionError, Reason};
use super::frame::{ACK, Head, four_bytes, put_head, put_ping};
use super::receive::violated;
use super::settings::WINDOW_MAX;
use super::stream::{Finish, Progress, StreamError};

impl Connection {
    pub(super) fn reset_by_peer(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let reason = Reason::from(four_bytes(payload)?);
        let id = head.stream;
        if id == 0 || self.is_idle(id) {
            return violated("RST_STREAM on an idle stream");
        }
        let Some(stream) = self.stream(id) else { return Ok(()) };
        let was_closed = stream.is_closed();
        // A response that is whole stays so, whatever happens to the rest of its request (RFC 9113 section 8.1).
        if stream.received == Progress::All && self.role == Role::Client {
            let Some(stream) = self.stream(id) else { return Ok(()) };
            stream.pending.clear();
            stream.pending_len = 0;
            stream.finish = Finish::Sent;
            stream.wake_writer();
        } else if let Some(stream) = self.stream(id) {
            stream.fail(if reason == Reason::RefusedStream {
                StreamError::Unprocessed
            } else {
                StreamError::Reset(reason)
            });
        }
        self.settle(id, was_closed);
        Ok(())
    }

    pub(super) fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return violated("SETTINGS on a stream");
        }
        if head.has(ACK) {
            return match payload {
                [] => Ok(()),
                _ => Err(ConnectionError::new(Reason::FrameSizeError, "an acknowledgement of SETTINGS has a payload")),
            };
        }
        let before = self.peer;
        self.peer.apply(payload, self.role == Role::Client)?;
        if self.peer.header_table_size != before.header_table_size {
            self.encoder.set_peer_table_max(self.peer.header_table_size);
        }
        let grown = i64::from(self.peer.initial_window) - i64::from(before.initial_window);
        if grown != 0 {
            let mut sendable = Vec::new();
            for stream in self.each_stream() {
                stream.send_window += grown;
                if stream.send_window > i64::from(WINDOW_MAX) {
                    let what = "SETTINGS_INITIAL_WINDOW_SIZE overflows a window";
                    return Err(ConnectionError::new(Reason::FlowControlError, what));
                }
                if stream.send_window > 0 && stream.wants_to_send() {
                    sendable.push(stream.id);
                }
            }
            sendable.into_iter().for_each(|id| self.enqueue(id));
        }
        // The first settings end the caution of `poll_can_open`, and the wait of `poll_accepts_connect`.
        self.openers.drain(..).for_each(std::task::Waker::wake);
        put_head(self.output.tail(), 0, 4, ACK, 0);
        Ok(())
    }

    pub(super) fn ping_received(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return violated("PING on a stream");
        }
        let Ok(payload) = <[u8; 8]>::try_from(payload) else {
            return Err(ConnectionError::new(Reason::FrameSizeError, "PING has not 8 bytes"));
        };
        if head.has(ACK) {
            self.ponged()
        } else {
            put_ping(self.output.tail(), payload, true)
        }
        Ok(())
    }

    pub(super) fn go_away_received(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return violated("GOAWAY on a stream");
        }
        let Some(([a, b, c, d, reason @ ..], _)) = payload.split_first_chunk::<8>() else {
            return Err(ConnectionError::new(Reason::FrameSizeError, "GOAWAY has fewer than 8 bytes"));
        };
        let last = u32::from_be_bytes([*a, *b, *c, *d]) & 0x7fff_ffff;
        let reason = Reason::from(u32::from_be_bytes(*reason));
        if self.go_away.is_some_and(|(said, _)| last > said) {
            return violated("GOAWAY names a later stream than before");
        }
        self.go_away = Some((last, reason));
        if self.role == Role::Client {
            let unprocessed: Vec<u32> = self.each_stream().map(|stream| stream.id).filter(|id| *id > last).collect();
            for id in unprocessed {
                let Some(stream) = self.stream(id) else { continue };
                let was_closed = stream.is_closed();
                if !was_closed {
                    stream.fail(StreamError::Unprocessed);
                }
                self.settle(id, was_closed);
            }
            self.openers.drain(..).for_each(std::task::Waker::wake);
        }
        self.wake_driver();
        Ok(())
    }

    pub(super) fn window_update(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let increment = i64::from(four_bytes(payload)? & 0x7fff_ffff);
        let id = head.stream;
        if id == 0 {
            if increment == 0 {
                return violated("WINDOW_UPDATE by nothing");
            }
            self.send_window += increment;
            if self.send_window > i64::from(WINDOW_MAX) {
                return Err(ConnectionError::new(Reason::FlowControlError, "the connection's window overflows"));
            }
            self.queue.extend(self.blocked.drain(..));
            return Ok(());
        }
        if self.is_idle(id) {
            return violated("WINDOW_UPDATE on an idle stream");
        }
        let Some(stream) = self.stream(id).filter(|stream| stream.error.is_none()) else { return Ok(()) };
        if increment == 0 {
            return self.fault(id, Reason::ProtocolError, "WINDOW_UPDATE by nothing");
        }
        stream.send_window += increment;
        if stream.send_window > i64::from(WINDOW_MAX) {
            return self.fault(id, Reason::FlowControlError, "the stream's window overflows");
        }
        if stream.wants_to_send() {
            self.enqueue(id);
        }
        Ok(())
    }

    pub(super) fn priority(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream == 0 {
            return violated("PRIORITY on the connection");
        }
        let Ok([a, b, c, d, _]) = <[u8; 5]>::try_from(payload) else {
            return Err(ConnectionError::new(Reason::FrameSizeError, "PRIORITY has not 5 bytes"));
        };
        // Priorities are ignored (RFC 9113 section 5.3.2), but for this one violation.
        if u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff == head.stream {
            return violated("a stream depends on itself");
        }
        Ok(())
    }
}
