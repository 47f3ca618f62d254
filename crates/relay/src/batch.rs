//! Batches of frames: those of one endpoint that are written to the other endpoint together.

use std::ops::Range;

/// Most frames that are written at once.
pub(crate) const BATCH: usize = 32;

/// Frames to be written together.
#[derive(Default)]
pub(crate) struct Batch {
    frames: [Range<usize>; BATCH],
    len: usize,
    payload: usize,
    has_record: bool,
}

impl Batch {
    pub(crate) fn add(&mut self, frame: Range<usize>, payload: usize, is_record: bool) {
        if let Some(slot) = self.frames.get_mut(self.len) {
            *slot = frame;
            self.len += 1;
            self.payload += payload;
            self.has_record |= is_record;
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Returns the frames, the sum of their payloads, and whether a record is among them; the batch is empty afterwards.
    pub(crate) fn drain(&mut self) -> (impl Iterator<Item = Range<usize>>, usize, bool) {
        let Batch { frames, len, payload, has_record } = std::mem::take(self);
        (frames.into_iter().take(len), payload, has_record)
    }
}
