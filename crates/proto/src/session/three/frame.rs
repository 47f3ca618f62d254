//! Sealed streams: a commitment to the key, then frames. `spec/session-3.md#sealed-requests`.
//!
//! Neither side holds more than one frame, and neither allocates for one beyond the buffer that its caller gives.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use subtle::{Choice, ConstantTimeEq};

use super::schedule::{COMMIT_LEN, MessageKeys};
use crate::crypto::AeadKey;
use crate::error::Error;
use crate::limits::{FRAME_LEN_MAX, IV_LEN, TAG_LEN};

/// What stands before each frame's ciphertext, in bytes.
const HEAD_LEN: usize = 4;
/// The bit of a frame's head that says that it is the last.
const LAST: u32 = 1 << 31;
/// Most frames of a stream.
const FRAMES_MAX: u64 = 1 << 32;

/// The nonce of a frame: no two of a stream are alike, and one that is not the last cannot be taken for it.
fn nonce(iv: &[u8; IV_LEN], number: u64, is_last: bool) -> [u8; IV_LEN] {
    let mut nonce = *iv;
    let (flag, count) = (u32::from(is_last).to_be_bytes(), number.to_be_bytes());
    for (byte, with) in nonce.iter_mut().zip(flag.iter().chain(&count)) {
        *byte ^= with;
    }
    nonce
}

/// Writes a stream.
pub struct FrameSealer {
    aead: Box<dyn AeadKey>,
    iv: [u8; IV_LEN],
    context: [u8; 32],
    commit: [u8; COMMIT_LEN],
    number: u64,
    is_done: bool,
}

/// Where in a buffer a frame that was begun stands.
#[derive(Debug)]
#[must_use = "a frame that was begun is to be sealed"]
pub struct Begun {
    at: usize,
}

impl FrameSealer {
    pub(super) fn new(keys: MessageKeys, context: [u8; 32]) -> Self {
        let MessageKeys { aead, iv, commit } = keys;
        FrameSealer { aead, iv, context, commit, number: 0, is_done: false }
    }

    /// How long a stream of this much plaintext is, inner headers included, where every frame but the last is full.
    pub fn stream_len(plaintext_len: u64) -> u64 {
        let frames = plaintext_len.div_ceil(FRAME_LEN_MAX as u64).max(1);
        plaintext_len + COMMIT_LEN as u64 + frames * (HEAD_LEN + TAG_LEN) as u64
    }

    /// Begins a frame behind what `out` holds: the caller appends up to [`FRAME_LEN_MAX`] bytes of plaintext, and
    /// [`FrameSealer::seal`] makes it a frame, where it lies.
    pub fn begin(&self, out: &mut Vec<u8>) -> Begun {
        let at = out.len();
        if self.number == 0 {
            out.extend_from_slice(&self.commit);
        }
        out.extend_from_slice(&[0; HEAD_LEN]);
        Begun { at }
    }

    /// Ends a frame that was begun in `out`. Only the last one may be empty, and there is none behind it.
    ///
    /// # Errors
    /// [`Error::FrameInvalid`] for a frame that may not be, [`Error::Provider`]; `out` is then as it was before the frame.
    pub fn seal(&mut self, out: &mut Vec<u8>, begun: Begun, is_last: bool) -> Result<(), Error> {
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

/// What came of reading a part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The input is used up.
    More,
    /// A frame was opened; there is another one behind it.
    Frame,
    /// The last frame was opened.
    Last,
}

/// Reads a stream, however it is cut into pieces.
pub struct FrameOpener {
    aead: Box<dyn AeadKey>,
    iv: [u8; IV_LEN],
    context: [u8; 32],
    commit: [u8; COMMIT_LEN],
    /// What there is of the commitment and the next head.
    head: [u8; COMMIT_LEN + HEAD_LEN],
    head_len: usize,
    /// Of the frame that is being read: how many bytes are missing, and whether it is the last.
    frame: Option<(usize, bool)>,
    is_committed: Choice,
    /// Of the commitment that came and the one that should have, what differs: all zero where they are one.
    difference: [u8; COMMIT_LEN],
    number: u64,
    is_done: bool,
}

impl FrameOpener {
    pub(super) fn new(keys: MessageKeys, context: [u8; 32]) -> Self {
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
            is_done: false,
        }
    }

    /// Takes from `input` what belongs to the next frame, gathers it in `frame`, and opens it there when it is whole.
    /// `frame` is to be empty for each new one; until a frame is told of, it holds nothing that was authenticated.
    ///
    /// # Errors
    /// [`Error::FrameInvalid`], [`Error::Unsealable`]. Nothing can be read of the stream after one.
    pub fn read(&mut self, input: &mut &[u8], frame: &mut Vec<u8>) -> Result<Read, Error> {
        if self.is_done {
            return if input.is_empty() { Ok(Read::More) } else { Err(Error::FrameInvalid) };
        }
        let (missing, is_last) = match self.frame {
            Some(frame) => frame,
            None => match self.read_head(input)? {
                Some(head) => {
                    frame.reserve_exact(head.0);
                    head
                }
                None => return Ok(Read::More),
            },
        };
        let (part, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
        frame.extend_from_slice(part);
        *input = rest;
        if part.len() < missing {
            self.frame = Some((missing - part.len(), is_last));
            return Ok(Read::More);
        }
        self.frame = None;
        self.open(frame, is_last)?;
        self.is_done = is_last;
        Ok(if is_last { Read::Last } else { Read::Frame })
    }

    /// Says that the input has ended.
    ///
    /// # Errors
    /// [`Error::StreamTruncated`] unless the last frame was opened.
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
            // What it says is told with the first tag, and no sooner: a guess at one is not to be told from one at the other.
            self.is_committed = commit.ct_eq(&self.commit);
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
            // A library takes longer over a wrong tag than over a right one: it wipes what it opened. So a wrong commitment makes
            // the tag a wrong one, and both are refused on one way, in one time.
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
