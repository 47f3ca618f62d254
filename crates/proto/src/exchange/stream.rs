//! The body of a sealed request, piece by piece.

use alloc::vec::Vec;
use core::fmt;

use crate::error::Error;
use crate::session::three::{FrameOpener, Read};

/// Reads the body of a sealed request, however it is cut into chunks. The last piece is held back until it is sure that nothing
/// stands behind it.
pub struct Stream {
    kind: Kind,
    state: State,
}

enum Kind {
    /// One sealed message, which [`super::Opening::open`] opens.
    Whole(Vec<u8>),
    /// Frames, each opened here.
    Frames { opener: FrameOpener, frame: Vec<u8>, in_header: Option<Vec<u8>> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// The last frame is open, and waits for the end of the body.
    Last,
    Done,
}

/// A part of a body.
#[derive(PartialEq, Eq)]
pub struct Piece {
    /// Of a frame its plaintext; of a protocol without frames all of the sealed message.
    pub bytes: Vec<u8>,
    /// Nothing stands behind it.
    pub is_last: bool,
}

impl Stream {
    pub(super) fn whole() -> Self {
        Stream { kind: Kind::Whole(Vec::new()), state: State::Reading }
    }

    pub(super) fn frames(opener: FrameOpener, in_header: Option<Vec<u8>>) -> Self {
        Stream { kind: Kind::Frames { opener, frame: Vec::new(), in_header }, state: State::Reading }
    }

    /// The stream where it came in a header: then there may be no body. Once.
    pub fn take_header(&mut self) -> Option<Vec<u8>> {
        match &mut self.kind {
            Kind::Whole(_) => None,
            Kind::Frames { in_header, .. } => in_header.take(),
        }
    }

    /// Whether the last piece was given.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes what comes next of the body, and gives a piece when it is whole. To be called again while `input` is not empty.
    ///
    /// # Errors
    /// [`Error::FrameInvalid`], [`Error::Unsealable`]. Nothing can be read after one.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Piece>, Error> {
        match (self.state, &mut self.kind) {
            _ if input.is_empty() => Ok(None),
            (State::Reading, Kind::Whole(bytes)) => {
                bytes.extend_from_slice(input);
                *input = &[];
                Ok(None)
            }
            (State::Reading, Kind::Frames { opener, frame, .. }) => match opener.read(input, frame) {
                Ok(Read::More) => Ok(None),
                Ok(Read::Frame) => Ok(Some(Piece { bytes: core::mem::take(frame), is_last: false })),
                Ok(Read::Last) => {
                    self.state = State::Last;
                    Ok(None)
                }
                Err(err) => Err(self.broken(err)),
            },
            (State::Last | State::Done, _) => Err(self.broken(Error::FrameInvalid)),
        }
    }

    /// Says that the body has ended, and gives the last piece; none if it was given.
    ///
    /// # Errors
    /// [`Error::StreamTruncated`].
    pub fn end(&mut self) -> Result<Option<Piece>, Error> {
        let state = core::mem::replace(&mut self.state, State::Done);
        let bytes = match (state, &mut self.kind) {
            (State::Done, _) => return Ok(None),
            (State::Reading, Kind::Whole(bytes)) => core::mem::take(bytes),
            (State::Last, Kind::Frames { frame, .. }) => core::mem::take(frame),
            _ => return Err(Error::StreamTruncated),
        };
        Ok(Some(Piece { bytes, is_last: true }))
    }

    fn broken(&mut self, err: Error) -> Error {
        self.state = State::Done;
        err
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("state", &self.state).finish_non_exhaustive()
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({} bytes, is_last: {})", self.bytes.len(), self.is_last)
    }
}
