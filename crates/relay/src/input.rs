//! The input of one endpoint, frame by frame: the bytes of a message, the ends of messages, and violations of the rules. It
//! forwards nothing itself; it returns the parts to forward, and rewrites the heads of frames in place.

use std::ops::Range;

use sealway_proto::relay::{ATTACH_LEN_MAX, CloseCause, RECORD_HEADER_LEN, looks_like_record};

use crate::ws::{self, Head};

/// Longest frame that is forwarded whole; of longer ones each part as it arrives, as a frame of its own.
pub(crate) const WHOLE_FRAME_MAX: usize = 64 * 1024 + 256;
/// Room that must precede the first byte of a buffer, for a head.
pub(crate) const HEAD_ROOM: usize = 16;
/// First bytes of the first message of the v2 wire.
const V2_MAGIC: [u8; 4] = *b"FSB2";

/// A frame that is longer than those forwarded whole.
#[derive(Clone, Copy, Debug)]
struct Long {
    mask: [u8; 4],
    done: u64,
    left: u64,
    is_final: bool,
}

/// The next element of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A part of the attach message was kept, or a control frame without effect was read.
    Nothing,
    /// The attach message is complete.
    Attach,
    /// A frame to forward, without a mask, at this range of the buffer; `payload` bytes of it are payload.
    Frame {
        /// The range of its head and payload.
        at: Range<usize>,
        /// The length of the payload.
        payload: usize,
        /// It is the last of a message that looks like a record.
        is_record: bool,
    },
    /// The endpoint sent a ping with this payload.
    Ping(Range<usize>),
    /// The endpoint closes, with this payload.
    Close(Range<usize>),
    /// This number of bytes is needed, from the current position.
    Need(usize),
    /// The endpoint violated a rule.
    Broken(CloseCause),
}

/// The state of the input so far.
#[derive(Debug)]
pub(crate) struct Input {
    message_max: u64,
    /// The attach message as far as it has arrived; `None` once it was taken.
    attach: Option<Vec<u8>>,
    long: Option<Long>,
    /// A message has begun and not ended.
    is_open: bool,
    /// No part of the message was forwarded yet.
    is_first: bool,
    /// The message's length so far.
    len: u64,
    /// The first bytes of the message.
    head: [u8; RECORD_HEADER_LEN],
}

impl Input {
    pub(crate) fn new(message_max: usize) -> Self {
        Input {
            message_max: message_max as u64,
            attach: Some(Vec::new()),
            long: None,
            is_open: false,
            is_first: true,
            len: 0,
            head: [0; RECORD_HEADER_LEN],
        }
    }

    /// Creates the state of an endpoint that has attached.
    pub(crate) fn attached(message_max: usize) -> Self {
        Input { attach: None, ..Input::new(message_max) }
    }

    /// Takes the complete attach message.
    pub(crate) fn take_attach(&mut self) -> Vec<u8> {
        self.attach.take().unwrap_or_default()
    }

    /// Reads on at `at`, which is moved past the consumed bytes. At least [`HEAD_ROOM`] bytes of `buf` precede `at`.
    pub(crate) fn next(&mut self, buf: &mut [u8], at: &mut usize) -> Next {
        if self.long.is_some() {
            return self.go_on(buf, at);
        }
        let rest = &buf[*at..];
        let head = match ws::parse_head(rest) {
            Ok(Some(head)) => head,
            Ok(None) => return Next::Need(rest.len() + 1),
            Err(ws::Fault) => return Next::Broken(CloseCause::ProtocolError),
        };
        let Ok(len) = usize::try_from(head.len) else { return Next::Broken(CloseCause::ProtocolError) };
        if self.attach.is_some() && !self.is_open && head.opcode == ws::BINARY && head.len >= V2_MAGIC.len() as u64 {
            let Some(magic) = rest[head.head_len..].first_chunk::<4>() else {
                return Next::Need(head.head_len + V2_MAGIC.len());
            };
            let mut magic = *magic;
            ws::unmask(&mut magic, head.mask, 0);
            if magic == V2_MAGIC {
                return Next::Broken(CloseCause::WireUnsupported);
            }
        }
        if !head.is_control()
            && let Some(cause) = self.refuse(&head)
        {
            return Next::Broken(cause);
        }
        let have = rest.len() - head.head_len;
        if have < len && len <= WHOLE_FRAME_MAX {
            return Next::Need(head.head_len + len);
        }
        let start = *at + head.head_len;
        if have < len {
            self.begin(&head);
            self.long = Some(Long { mask: head.mask, done: 0, left: head.len, is_final: head.is_final });
            *at = start;
            return self.go_on(buf, at);
        }
        let payload = start..start + len;
        *at = payload.end;
        ws::unmask(&mut buf[payload.clone()], head.mask, 0);
        match head.opcode {
            ws::PING => Next::Ping(payload),
            ws::PONG => Next::Nothing,
            ws::CLOSE if ws::is_close_payload(&buf[payload.clone()]) => Next::Close(payload),
            ws::CLOSE => Next::Broken(CloseCause::ProtocolError),
            _ => {
                self.begin(&head);
                self.data(buf, payload, head.is_final)
            }
        }
    }

    /// Returns the violation of a message's frame, by its head.
    fn refuse(&self, head: &Head) -> Option<CloseCause> {
        if self.is_open != (head.opcode == ws::CONTINUATION) {
            return Some(CloseCause::ProtocolError);
        }
        let len = if self.is_open { self.len.saturating_add(head.len) } else { head.len };
        match &self.attach {
            Some(_) if len > ATTACH_LEN_MAX as u64 => Some(CloseCause::AttachTooLarge),
            Some(_) if head.opcode == ws::BINARY => Some(CloseCause::ExpectedAttach),
            Some(_) => None,
            None if head.opcode == ws::TEXT => Some(CloseCause::NonBinaryFrame),
            None => (len > self.message_max).then_some(CloseCause::RecordTooLarge),
        }
    }

    /// Records the beginning of a message's frame.
    fn begin(&mut self, head: &Head) {
        if head.opcode != ws::CONTINUATION {
            (self.is_open, self.is_first, self.len) = (true, true, 0);
        }
    }

    /// Reads a part of a long frame.
    fn go_on(&mut self, buf: &mut [u8], at: &mut usize) -> Next {
        let Some(long) = &mut self.long else { return Next::Nothing };
        let have = buf.len() - *at;
        if have == 0 {
            return Next::Need(1);
        }
        let len = usize::try_from(long.left).map_or(have, |left| left.min(have));
        let payload = *at..*at + len;
        *at = payload.end;
        ws::unmask(&mut buf[payload.clone()], long.mask, long.done);
        long.done += len as u64;
        long.left -= len as u64;
        let is_over = long.left == 0;
        let is_final = is_over && long.is_final;
        if is_over {
            self.long = None;
        }
        self.data(buf, payload, is_final)
    }

    /// Handles a part of a message, without its mask: keeps or forwards it.
    fn data(&mut self, buf: &mut [u8], payload: Range<usize>, is_final: bool) -> Next {
        if let Some(attach) = &mut self.attach {
            attach.extend_from_slice(&buf[payload.clone()]);
            self.len += payload.len() as u64;
            self.is_open = !is_final;
            return if is_final { Next::Attach } else { Next::Nothing };
        }
        let is_record = self.note(&buf[payload.clone()], is_final);
        let opcode = if self.is_first { ws::BINARY } else { ws::CONTINUATION };
        let first = if is_final { ws::FIN | opcode } else { opcode };
        (self.is_open, self.is_first) = (!is_final, false);
        // A client's head is at least four bytes longer than the relay's for the same payload, or there is the room before the
        // first byte.
        let (head, head_len) = ws::encode_head(first, payload.len());
        let begin = payload.start - head_len;
        buf[begin..payload.start].copy_from_slice(&head[..head_len]);
        let len = payload.len();
        Next::Frame { at: begin..payload.end, payload: len, is_record }
    }

    /// Checks the header of a possible record.
    fn note(&mut self, payload: &[u8], is_final: bool) -> bool {
        let known = usize::try_from(self.len).map_or(RECORD_HEADER_LEN, |len| len.min(RECORD_HEADER_LEN));
        for (to, from) in self.head[known..].iter_mut().zip(payload) {
            *to = *from;
        }
        self.len += payload.len() as u64;
        let Ok(len) = usize::try_from(self.len) else { return false };
        is_final && looks_like_record(&self.head[..len.min(RECORD_HEADER_LEN)], len)
    }
}

#[cfg(test)]
mod tests;
