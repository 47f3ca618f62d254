//! Sealed streams: a commitment to the key, then frames. `spec/session-3.md#sealed-requests`.
//!
//! Neither side holds more than one frame, and neither allocates for one beyond the caller's buffer.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use subtle::Choice;

use super::schedule::{COMMIT_LEN, MessageKeys};
use crate::crypto::{AeadKey, equality};
use crate::error::Error;
use crate::limits::{FRAME_LEN_MAX, IV_LEN, TAG_LEN};

/// The head before each frame's ciphertext, in bytes.
const HEAD_LEN: usize = 4;
/// The bit of a frame's head that marks the last frame.
const LAST: u32 = 1 << 31;
/// Most frames of a stream.
const FRAMES_MAX: u64 = 1 << 32;
/// Memory beyond the arrived bytes of a first frame, in bytes: its sender may be a stranger.
const FIRST_AHEAD: usize = 4096;

/// Returns the nonce of a frame: no two of a stream are equal, and a frame that is not the last cannot pass for it.
fn nonce(iv: &[u8; IV_LEN], number: u64, is_last: bool) -> [u8; IV_LEN] {
    let mut nonce = *iv;
    let (flag, count) = (u32::from(is_last).to_be_bytes(), number.to_be_bytes());
    for (byte, with) in nonce.iter_mut().zip(flag.iter().chain(&count)) {
        *byte ^= with;
    }
    nonce
}

/// Writes a stream, frame by frame.
pub struct FrameSealer {
    aead: Box<dyn AeadKey>,
    iv: [u8; IV_LEN],
    context: [u8; 32],
    commit: [u8; COMMIT_LEN],
    number: u64,
    is_done: bool,
}

/// The position in a buffer of a frame that was begun.
#[derive(Debug)]
#[must_use = "a frame that was begun is to be sealed"]
pub struct FrameStart {
    at: usize,
}

impl FrameSealer {
    pub(crate) fn new(keys: MessageKeys, context: [u8; 32]) -> Self {
        let MessageKeys { aead, iv, commit } = keys;
        FrameSealer { aead, iv, context, commit, number: 0, is_done: false }
    }

    /// Returns the length of a stream for this much plaintext, inner headers included, if every frame but the last is full.
    pub fn stream_len(plaintext_len: u64) -> u64 {
        let frames = plaintext_len.div_ceil(FRAME_LEN_MAX as u64).max(1);
        plaintext_len + COMMIT_LEN as u64 + frames * (HEAD_LEN + TAG_LEN) as u64
    }

    /// Begins a frame at the end of `out`: the caller appends up to [`FRAME_LEN_MAX`] bytes of plaintext, and
    /// [`FrameSealer::seal`] turns it into a frame in place.
    pub fn begin(&self, out: &mut Vec<u8>) -> FrameStart {
        let at = out.len();
        if self.number == 0 {
            out.extend_from_slice(&self.commit);
        }
        out.extend_from_slice(&[0; HEAD_LEN]);
        FrameStart { at }
    }

    /// Ends a frame that was begun in `out`. Only the last one may be empty, and none may follow it.
    ///
    /// # Errors
    /// [`Error::FrameInvalid`] for a forbidden frame, [`Error::Provider`]; `out` is then as it was before the frame.
    pub fn seal(&mut self, out: &mut Vec<u8>, begun: FrameStart, is_last: bool) -> Result<(), Error> {
        let sealed = self.seal_at(out, begun.at, is_last);
        if sealed.is_err() {
            out.truncate(begun.at);
        }
        sealed
    }

    fn seal_at(&mut self, out: &mut Vec<u8>, at: usize, is_last: bool) -> Result<(), Error> {
        let before = if self.number == 0 { COMMIT_LEN } else { 0 };
        let frame = out.get_mut(at + before..).ok_or(Error::FrameInvalid)?;
        let (head, plaintext) = frame.split_first_chunk_mut::<HEAD_LEN>().ok_or(Error::FrameInvalid)?;
        let len = plaintext.len();
        if self.is_done || len > FRAME_LEN_MAX || (len == 0 && !is_last) || self.number >= FRAMES_MAX {
            return Err(Error::FrameInvalid);
        }
        let tag = self.aead.seal_in_place(&nonce(&self.iv, self.number, is_last), &self.context, plaintext)?;
        // A frame is far shorter than the flag.
        *head = ((len + TAG_LEN) as u32 | if is_last { LAST } else { 0 }).to_be_bytes();
        out.extend_from_slice(&tag);
        self.number += 1;
        self.is_done = is_last;
        Ok(())
    }
}

/// The result of reading a part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The input is used up; the frame is incomplete.
    More,
    /// A frame was opened; another one follows.
    Frame,
    /// The last frame was opened.
    Last,
}

/// Reads a stream that arrives in pieces of any length.
pub struct FrameOpener {
    aead: Box<dyn AeadKey>,
    iv: [u8; IV_LEN],
    context: [u8; 32],
    commit: [u8; COMMIT_LEN],
    /// The bytes of the commitment and the next head that have arrived.
    head: [u8; COMMIT_LEN + HEAD_LEN],
    head_len: usize,
    /// Of the frame that is being read: the number of missing bytes, and whether it is the last.
    frame: Option<(usize, bool)>,
    is_committed: Choice,
    /// Difference between the received commitment and the expected one: all zero if they are equal.
    difference: [u8; COMMIT_LEN],
    number: u64,
    /// True for a stream in `X-Sealed`, which has one frame.
    is_single: bool,
    is_done: bool,
}

impl FrameOpener {
    pub(crate) fn new(keys: MessageKeys, context: [u8; 32], is_single: bool) -> Self {
        let MessageKeys { aead, iv, commit } = keys;
        FrameOpener {
            aead,
            iv,
            context,
            commit,
            head: [0; COMMIT_LEN + HEAD_LEN],
            head_len: 0,
            frame: None,
            is_committed: Choice::from(0),
            difference: [0; COMMIT_LEN],
            number: 0,
            is_single,
            is_done: false,
        }
    }

    /// Takes the bytes of the next frame from `input`, gathers them in `frame`, and opens the frame there once it is whole.
    /// `frame` must be empty for each new one; until a frame is reported, it holds no authenticated byte.
    ///
    /// # Errors
    /// [`Error::FrameInvalid`], [`Error::Unsealable`]; [`Error::StreamTruncated`] if the first frame in `X-Sealed` is not
    /// the last. Nothing can be read of the stream after one.
    pub fn read(&mut self, input: &mut &[u8], frame: &mut Vec<u8>) -> Result<Read, Error> {
        if self.is_done {
            return if input.is_empty() { Ok(Read::More) } else { Err(Error::FrameInvalid) };
        }
        let (missing, is_last) = match self.frame {
            Some(frame) => frame,
            None => match self.read_head(input)? {
                Some(head) => head,
                None => return Ok(Read::More),
            },
        };
        let (part, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
        if frame.capacity() - frame.len() < part.len() {
            let room = if self.number == 0 { missing.min(part.len() + FIRST_AHEAD) } else { missing };
            frame.reserve_exact(room);
        }
        frame.extend_from_slice(part);
        *input = rest;
        if part.len() < missing {
            self.frame = Some((missing - part.len(), is_last));
            return Ok(Read::More);
        }
        self.frame = None;
        self.open(frame, is_last)?;
        if self.is_single && !is_last {
            frame.clear();
            return Err(Error::StreamTruncated);
        }
        self.is_done = is_last;
        Ok(if is_last { Read::Last } else { Read::Frame })
    }

    /// Reports the end of the input.
    ///
    /// # Errors
    /// [`Error::StreamTruncated`] if the last frame was not opened.
    pub fn end(&self) -> Result<(), Error> {
        if self.is_done { Ok(()) } else { Err(Error::StreamTruncated) }
    }

    fn read_head(&mut self, input: &mut &[u8]) -> Result<Option<(usize, bool)>, Error> {
        let before = if self.number == 0 { COMMIT_LEN } else { 0 };
        let len = before + HEAD_LEN;
        let missing = len.saturating_sub(self.head_len);
        let (part, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
        let room = self.head.iter_mut().skip(self.head_len);
        room.zip(part).for_each(|(to, from)| *to = *from);
        self.head_len += part.len();
        *input = rest;
        if self.head_len < len {
            return Ok(None);
        }
        self.head_len = 0;
        let (commit, head) = self.head.split_at_checked(before).ok_or(Error::FrameInvalid)?;
        if self.number == 0 {
            // A wrong commitment is reported with the first tag, and no sooner: a peer cannot tell a wrong commitment from a
            // wrong tag.
            self.is_committed = equality(commit, &self.commit);
            let pairs = commit.iter().zip(&self.commit);
            self.difference.iter_mut().zip(pairs).for_each(|(to, (came, ours))| *to = came ^ ours);
        }
        let head = u32::from_be_bytes(*head.first_chunk().ok_or(Error::FrameInvalid)?);
        let (len, is_last) = ((head & !LAST) as usize, head & LAST != 0);
        let len_min = if is_last { TAG_LEN } else { TAG_LEN + 1 };
        if !(len_min..=FRAME_LEN_MAX + TAG_LEN).contains(&len) || self.number >= FRAMES_MAX {
            return Err(Error::FrameInvalid);
        }
        Ok(Some((len, is_last)))
    }

    fn open(&mut self, frame: &mut Vec<u8>, is_last: bool) -> Result<(), Error> {
        if self.number == 0 {
            // A library takes longer over a wrong tag than over a right one: it wipes its output. So a wrong commitment makes
            // the tag a wrong one, and both are rejected on one path, in one time.
            let tag = frame.iter_mut().rev().take(TAG_LEN);
            tag.zip(&self.difference).for_each(|(byte, with)| *byte ^= with);
        }
        let opened = self.aead.open_in_place(&nonce(&self.iv, self.number, is_last), &self.context, frame);
        let is_open = Choice::from(u8::from(opened.is_ok())) & self.is_committed;
        if !bool::from(is_open) {
            frame.clear();
            return Err(Error::Unsealable);
        }
        frame.truncate(frame.len().saturating_sub(TAG_LEN));
        self.number += 1;
        Ok(())
    }
}

impl fmt::Debug for FrameSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameSealer").field("number", &self.number).finish_non_exhaustive()
    }
}

impl fmt::Debug for FrameOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameOpener").field("number", &self.number).finish_non_exhaustive()
    }
}
