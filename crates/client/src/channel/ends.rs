//! Ends of streams: those that the peer has sent, and those that this side has not. SPEC rpc.md#streams
//!
//! The library that multiplexes streams reports the loss of a channel, a reset and an orderly end alike, as the end of
//! the stream. It also finishes in order a stream that this side drops after the peer has finished. A reader must be
//! able to tell the difference: a stream has ended if a frame said so, and any other end breaks it off. So this module
//! inspects the frames in both directions.

use std::collections::HashMap;
use std::sync::Mutex;

/// Length of a frame's header in bytes: version, type, flags (2), stream (4), length (4).
pub(super) const HEADER_LEN: usize = 12;
const TYPE_DATA: u8 = 0;
const TYPE_WINDOW: u8 = 1;
const FLAG_SYN: u8 = 1;
const FLAG_FIN: u8 = 4;
const FLAG_RST: u8 = 8;
/// Offset of the flags' lower byte in a header.
const FLAGS_AT: usize = 3;

/// State of a stream that both directions share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StreamState {
    /// The peer has sent its last byte.
    peer_finished: bool,
    /// This side dropped the stream without an end: the library's next end frame must become a reset.
    abandoned: bool,
}

/// Streams of a channel, shared by the task that carries their frames and their handles. As many as the library holds.
#[derive(Debug, Default)]
pub(super) struct Ends(Mutex<HashMap<u32, StreamState>>);

impl Ends {
    /// Records a stream, if its first frame did not.
    pub(super) fn opened(&self, id: u32) {
        self.lock().entry(id).or_default();
    }

    /// True if the peer has ended its direction of a stream.
    pub(super) fn peer_finished(&self, id: u32) -> bool {
        self.lock().get(&id).is_some_and(|known| known.peer_finished)
    }

    /// Forgets a stream whose handle is dropped after its end.
    pub(super) fn forget(&self, id: u32) {
        self.lock().remove(&id);
    }

    /// Marks a stream whose handle is dropped before this side has finished: the library may still send an end for it.
    pub(super) fn abandon(&self, id: u32) {
        if let Some(known) = self.lock().get_mut(&id) {
            known.abandoned = true;
        }
    }

    /// Records a frame of the peer that the library has read completely.
    fn came(&self, head: [u8; HEADER_LEN]) {
        let (flags, id) = (head[FLAGS_AT], stream_of(head));
        if head[1] > TYPE_WINDOW || flags & (FLAG_SYN | FLAG_FIN | FLAG_RST) == 0 {
            return;
        }
        let mut streams = self.lock();
        // The library does not open a stream whose first frame resets it, so this entry would never be removed.
        if flags & FLAG_SYN != 0 && flags & FLAG_RST == 0 {
            streams.entry(id).or_default();
        }
        if let Some(known) = streams.get_mut(&id) {
            // A reset after an end does not undo the end: the library has all bytes before it.
            known.peer_finished |= flags & FLAG_FIN != 0 && flags & FLAG_RST == 0;
            if known.abandoned && flags & FLAG_RST != 0 {
                streams.remove(&id);
            }
        }
    }

    /// Returns the flags for an outgoing frame: the end of an abandoned stream becomes a reset.
    fn goes(&self, head: [u8; HEADER_LEN]) -> u8 {
        let (flags, id) = (head[FLAGS_AT], stream_of(head));
        if head[1] > TYPE_WINDOW || flags & (FLAG_FIN | FLAG_RST) == 0 {
            return flags;
        }
        let mut streams = self.lock();
        if streams.get(&id).is_some_and(|known| known.abandoned) {
            streams.remove(&id);
            return flags & !FLAG_FIN | FLAG_RST;
        }
        flags
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, StreamState>> {
        // A panic while the lock was held leaves no partial change.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn stream_of(head: [u8; HEADER_LEN]) -> u32 {
    u32::from_be_bytes([head[4], head[5], head[6], head[7]])
}

/// Parser of one direction's frames, fed with pieces of any length.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEADER_LEN],
    head_len: usize,
    body_left: usize,
}

impl Frames {
    /// Parses bytes that the library has read.
    pub(super) fn read(&mut self, mut bytes: &[u8], ends: &Ends) {
        while !bytes.is_empty() {
            if self.head_len < HEADER_LEN {
                let len = bytes.len().min(HEADER_LEN - self.head_len);
                self.head[self.head_len..self.head_len + len].copy_from_slice(&bytes[..len]);
                self.head_len += len;
                bytes = &bytes[len..];
                if self.head_len < HEADER_LEN {
                    return;
                }
                self.body_left = body_len(self.head);
            } else {
                let len = bytes.len().min(self.body_left);
                self.body_left -= len;
                bytes = &bytes[len..];
            }
            // A frame counts once it is complete.
            if self.body_left == 0 {
                self.head_len = 0;
                ends.came(self.head);
            }
        }
    }

    /// Rewrites bytes that the library has written: whole headers, and bodies in pieces.
    pub(super) fn write(&mut self, mut bytes: &mut [u8], ends: &Ends) {
        while !bytes.is_empty() {
            if self.body_left == 0 {
                let Some((head, rest)) = bytes.split_first_chunk_mut::<HEADER_LEN>() else { return };
                head[FLAGS_AT] = ends.goes(*head);
                self.body_left = body_len(*head);
                bytes = rest;
            } else {
                let len = bytes.len().min(self.body_left);
                self.body_left -= len;
                bytes = &mut bytes[len..];
            }
        }
    }
}

/// Length of a frame's body; only data frames have one.
fn body_len(head: [u8; HEADER_LEN]) -> usize {
    if head[1] == TYPE_DATA { u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, id: u32, body: &[u8]) -> Vec<u8> {
        let mut out = vec![0, kind, 0, flags];
        out.extend(id.to_be_bytes());
        out.extend((body.len() as u32).to_be_bytes());
        out.extend(body);
        out
    }

    #[test]
    fn the_end_of_a_stream_counts_only_after_its_whole_frame_was_read() {
        let bytes = [
            frame(TYPE_DATA, FLAG_SYN, 1, &[FLAG_FIN; 30]),
            frame(TYPE_WINDOW, 0, 1, &[]),
            frame(3, FLAG_FIN, 1, &[]),
            frame(TYPE_DATA, FLAG_FIN, 9, &[]),
            frame(TYPE_DATA, FLAG_FIN, 1, &[7; 20]),
        ]
        .concat();
        for piece in [1, 5, 12, 13, bytes.len()] {
            let (ends, mut frames) = (Ends::default(), Frames::default());
            let (all_but_one, last) = bytes.split_at(bytes.len() - 1);
            all_but_one.chunks(piece).for_each(|piece| frames.read(piece, &ends));
            assert!(!ends.peer_finished(1), "pieces of {piece}: before its last byte");
            frames.read(last, &ends);
            assert!(ends.peer_finished(1) && !ends.peer_finished(9), "pieces of {piece}: no stream 9 was opened");
            frames.read(&frame(TYPE_WINDOW, FLAG_SYN | FLAG_RST, 3, &[]), &ends);
            assert!(!ends.peer_finished(3), "a reset is no end");
        }
    }

    #[test]
    fn a_stream_that_was_abandoned_is_reset_and_every_other_frame_goes_as_it_is() {
        let (ends, mut frames) = (Ends::default(), Frames::default());
        [1, 2].into_iter().for_each(|id| ends.opened(id));
        ends.abandon(1);
        let said = [
            frame(TYPE_DATA, 0, 1, &[FLAG_FIN; 30]),
            frame(TYPE_DATA, FLAG_FIN, 2, b"x"),
            frame(TYPE_DATA, FLAG_FIN, 1, &[]),
            frame(2, FLAG_SYN, 0, &[]),
        ];
        let mut bytes = said.concat();
        let (first, second) = bytes.split_at_mut(20);
        frames.write(first, &ends);
        frames.write(second, &ends);
        let expected = [said[0].clone(), said[1].clone(), frame(TYPE_DATA, FLAG_RST, 1, &[]), said[3].clone()].concat();
        assert_eq!(bytes, expected);
        assert_eq!(ends.lock().len(), 1, "what was reset is forgotten");
    }
}
